package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"
)

// Client steers a running demo from a second terminal.
type Client struct {
	BasePort int // the demo's --base-port; zero: DefaultBasePort
}

// clientTimeout is longer than a node may take until it is ready.
const clientTimeout = time.Minute

// Nodes lists the nodes that run.
func (c Client) Nodes(ctx context.Context) ([]NodeInfo, error) {
	var nodes []NodeInfo
	err := c.call(ctx, http.MethodGet, "/nodes", &nodes)
	return nodes, err
}

// Add starts one more node and waits until it is ready.
func (c Client) Add(ctx context.Context) (NodeInfo, error) {
	var info NodeInfo
	err := c.call(ctx, http.MethodPost, "/nodes", &info)
	return info, err
}

// Kill ends a node as a crash would, and waits until it is gone.
func (c Client) Kill(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, "/nodes/"+url.PathEscape(name), nil)
}

// Drain lets a node leave on purpose. It does not wait until the node is gone.
func (c Client) Drain(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodPost, "/nodes/"+url.PathEscape(name)+"/drain", nil)
}

func (c Client) call(ctx context.Context, method, path string, result any) error {
	port := c.BasePort
	if port == 0 {
		port = DefaultBasePort
	}
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+loopback(port)+path, nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{DialContext: (&net.Dialer{}).DialContext}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no demo runs on port %d: start one with klatch demo, or name its port by --base-port", port)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("the demo on port %d ended, or it is no demo: start one with klatch demo, or name its port by --base-port", port)
	case err != nil:
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		var said struct{ Detail string }
		if err := json.Unmarshal(text, &said); err != nil || said.Detail == "" {
			return notDemo(port, response.Status)
		}
		return errors.New(said.Detail)
	}
	if result != nil && json.Unmarshal(text, result) != nil {
		return notDemo(port, response.Status)
	}
	return nil
}

func notDemo(port int, said string) error {
	return fmt.Errorf("port %d answered %s, but not as a demo's control does: name the demo's port by --base-port", port, said)
}
