package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"syscall"
	"time"
)

// Client steers a running demo from a second terminal.
type Client struct {
	BasePort int // the demo's --base-port
}

// Nodes lists the nodes that run.
func (c Client) Nodes(ctx context.Context) ([]NodeInfo, error) {
	var nodes []NodeInfo
	return nodes, c.call(ctx, http.MethodGet, "/nodes", &nodes)
}

// Add starts one more node and waits until it is ready.
func (c Client) Add(ctx context.Context) (NodeInfo, error) {
	var info NodeInfo
	return info, c.call(ctx, http.MethodPost, "/nodes", &info)
}

// Kill ends a node as a crash would.
func (c Client) Kill(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, "/nodes/"+url.PathEscape(name), nil)
}

func (c Client) call(ctx context.Context, method, path string, result any) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+loopback(c.BasePort)+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("no demo runs on port %d: start one with klatch demo, or name its port by --base-port", c.BasePort)
	}
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		var said failure
		if err := json.NewDecoder(response.Body).Decode(&said); err != nil || said.Error == "" {
			return fmt.Errorf("port %d answered %s: is it the demo's --base-port?", c.BasePort, response.Status)
		}
		return errors.New(said.Error)
	}
	if result == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(result)
}
