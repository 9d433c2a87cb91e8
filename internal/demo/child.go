package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// NodeInfo says where a node is. API, App and Admin are URLs, Gossip is host:port.
type NodeInfo struct {
	Name   string `json:"name"`
	PID    int    `json:"pid"`
	API    string `json:"api"`
	App    string `json:"app"`
	Admin  string `json:"admin"`
	Gossip string `json:"gossip"`
}

// layout are a node's addresses: ten ports for each node above the base.
type layout struct{ api, app, admin, gossip string }

func layoutOf(basePort, number int) layout {
	port := basePort + 10*number
	return layout{api: loopback(port), app: loopback(port + 1), admin: loopback(port + 2), gossip: loopback(port + 3)}
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", fmt.Sprint(port)) }

// child is one node process that this demo has started.
type child struct {
	info    NodeInfo
	layout  layout
	logPath string
	command *exec.Cmd
	ended   chan struct{} // closed when the process has ended
	err     error         // how; set before ended is closed
}

// spawn starts a node. lifeline is the read end of the pipe whose write end only this process holds.
func spawn(binary, dir string, number int, at layout, seeds string, lifeline *os.File) (*child, error) {
	name := fmt.Sprintf("n%d", number)
	c := &child{layout: at, logPath: filepath.Join(dir, name+".log"), ended: make(chan struct{})}
	log, err := os.OpenFile(c.logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", name, err)
	}
	defer log.Close()
	c.command = exec.Command(binary, "serve", "--name", name,
		"--http", at.api, "--app", at.app, "--admin", at.admin, "--gossip", at.gossip,
		"--join", seeds, "--store", "sqlite:"+filepath.Join(dir, "klatch.db"))
	c.command.Stdout, c.command.Stderr = log, log
	c.command.ExtraFiles = []*os.File{lifeline}
	c.command.Env = append(os.Environ(), parentEnv+"=3")
	c.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C is for the parent alone
	if err := c.command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	c.info = NodeInfo{
		Name: name, PID: c.command.Process.Pid,
		API: "http://" + at.api, App: "http://" + at.app, Admin: "http://" + at.admin, Gossip: at.gossip,
	}
	go func() { // ends with the child, which stop waits for
		c.err = c.command.Wait()
		close(c.ended)
	}()
	return c, nil
}

// waitReady waits until the node serves, or says why it does not.
func (c *child) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if isReady(ctx, http.DefaultClient, c.info.API) {
			return nil
		}
		select {
		case <-c.ended:
			return fmt.Errorf("%s ended (%w); the end of %s:\n%s", c.info.Name, errors.Join(errEnded, c.err), c.logPath, c.logTail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w; the end of %s:\n%s", c.info.Name, context.Cause(ctx), c.logPath, c.logTail())
		case <-tick.C:
		}
	}
}

var errEnded = errors.New("the process is gone")

func (c *child) logTail() string {
	text, err := os.ReadFile(c.logPath)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-5):], []byte("\n")))
}

// signal sends the process a signal; one that has ended takes none.
func (c *child) signal(s syscall.Signal) error {
	err := c.command.Process.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// stop drains the node, and kills it if it takes longer than patience.
func (c *child) stop(patience time.Duration) error {
	if err := c.signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.ended:
		return nil
	case <-timer.C:
		err := c.signal(syscall.SIGKILL)
		<-c.ended
		return errors.Join(fmt.Errorf("%s did not end within %s and was killed", c.info.Name, patience), err)
	}
}
