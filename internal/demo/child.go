package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
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

// child is one node process that this demo has started.
type child struct {
	info      NodeInfo
	logPath   string
	process   *exec.Cmd
	expected  atomic.Bool   // whether it was told to end
	terminate sync.Once     // a second SIGTERM would end it without a drain
	ended     chan struct{} // closed when the process has ended
	err       error         // how; set before ended is closed
}

// spawn starts a node. lifeline is the read end of the pipe whose write end only this process holds.
func spawn(binary, dir string, number int, at layout, seeds []string, lifeline *os.File) (*child, error) {
	name := fmt.Sprintf("n%d", number)
	c := &child{logPath: filepath.Join(dir, name+".log"), ended: make(chan struct{})}
	log, err := os.OpenFile(c.logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", name, err)
	}
	defer log.Close()
	c.process = exec.Command(binary, "serve", "--name", name,
		"--http", at.api, "--admin", at.admin, "--app", at.app, "--gossip", at.gossip,
		"--join", strings.Join(seeds, ","), "--store", "sqlite:"+filepath.Join(dir, "klatch.db"))
	c.process.Stdout, c.process.Stderr = log, log
	c.process.ExtraFiles = []*os.File{lifeline} // the first of them is descriptor 3
	c.process.Env = append(os.Environ(), parentEnv+"=3")
	c.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C is for the parent alone
	if err := c.process.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	c.info = NodeInfo{
		Name: name, PID: c.process.Process.Pid,
		API: "http://" + at.api, App: "http://" + at.app, Admin: "http://" + at.admin, Gossip: at.gossip,
	}
	go func() { // ends with the process; the supervisor waits for ended
		c.err = c.process.Wait()
		close(c.ended)
	}()
	return c, nil
}

// waitReady waits until the node serves, or says why it does not.
func (c *child) waitReady(ctx context.Context, patience time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{}).DialContext}}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ready, _ := askReady(waiting, client, c.info.API); ready { // without an answer it is asked again
			return nil
		}
		select {
		case <-c.ended:
			return fmt.Errorf("%s ended before it was ready (%s)%s", c.info.Name, c.howItEnded(), c.lastWords())
		case <-waiting.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%s was not ready within %s%s", c.info.Name, patience, c.lastWords())
		case <-tick.C:
		}
	}
}

// howItEnded may be called once ended is closed.
func (c *child) howItEnded() string { return c.process.ProcessState.String() }

// lastWords returns the end of the node's log.
func (c *child) lastWords() string {
	const most = 4096
	file, err := os.Open(c.logPath)
	if err != nil {
		return ": " + err.Error()
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > most {
		_, _ = file.Seek(-most, io.SeekEnd) // at worst the whole log is read
	}
	text, _ := io.ReadAll(file) // what could be read is shown
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return fmt.Sprintf("; the end of %s:\n%s", c.logPath, bytes.Join(lines[max(0, len(lines)-5):], []byte("\n")))
}

// drain tells the node to leave on purpose.
func (c *child) drain() error {
	var err error
	c.terminate.Do(func() {
		c.expected.Store(true)
		err = c.signal(syscall.SIGTERM)
	})
	return err
}

// kill ends the process as a crash would, and waits for its end.
func (c *child) kill() error {
	c.expected.Store(true)
	if err := c.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-c.ended
	return nil
}

// signal goes by the handle of the process that was started, so it never reaches another that got its number.
// A process that has ended takes none.
func (c *child) signal(s syscall.Signal) error {
	err := c.process.Process.Signal(s)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s to %s: %w", s, c.info.Name, err)
	}
	return nil
}

// stop drains the node, and kills it if it takes longer than patience.
func (c *child) stop(patience time.Duration) error {
	if err := c.drain(); err != nil {
		return err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.ended:
		return nil
	case <-timer.C:
		return errors.Join(fmt.Errorf("%s did not end within %s of SIGTERM and was killed", c.info.Name, patience), c.kill())
	}
}
