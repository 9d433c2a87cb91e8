package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// nodeClient calls the admin API of one node.
type nodeClient struct {
	base   string
	output string
	out    io.Writer
}

// addClientFlags adds what every command that calls a node takes.
func addClientFlags(cmd *cobra.Command, c *nodeClient) {
	cmd.Flags().StringVar(&c.base, "admin", "http://127.0.0.1:7071", "`URL` of the node's admin API; its token, if any, is taken from KLATCH_API_TOKEN or the file KLATCH_API_TOKEN_FILE")
	cmd.Flags().StringVarP(&c.output, "output", "o", "text", "`form` of the output: text or json")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if c.output != "text" && c.output != "json" {
			return usageError{fmt.Errorf("-o %q: use text or json", c.output)}
		}
		if !strings.Contains(c.base, "://") {
			c.base = "http://" + c.base
		}
		if u, err := url.Parse(c.base); err != nil || u.Host == "" {
			return usageError{fmt.Errorf("--admin %q is not a URL, such as http://127.0.0.1:7071", c.base)}
		}
		c.base = strings.TrimSuffix(c.base, "/")
		c.out = cmd.OutOrStdout()
		return run(cmd, args)
	}
}

// call sends a request and returns the answer's body. A problem document becomes an error of its detail.
func (c *nodeClient) call(ctx context.Context, method, path string, body any) ([]byte, error) {
	var payload io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, payload)
	if err != nil {
		return nil, err
	}
	token, err := apiToken()
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("no node answers at %s: start one with klatch serve, or name another by --admin", c.base)
	}
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	const most = 64 << 20
	text, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= 300 {
		var document struct{ Title, Detail string }
		if json.Unmarshal(text, &document) != nil || document.Title == "" {
			return nil, fmt.Errorf("%s answered %s; is it the admin address of a node?", c.base, response.Status)
		}
		return nil, fmt.Errorf("%s: %s", document.Title, document.Detail)
	}
	return text, nil
}

// print shows an answer as it came, or as text makes it.
func (c *nodeClient) print(answer []byte, text func(w io.Writer) error) error {
	if c.output == "json" {
		_, err := c.out.Write(append(bytes.TrimSpace(answer), '\n'))
		return err
	}
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	if err := text(table); err != nil {
		return err
	}
	return table.Flush()
}

// clusterAnswer is what GET /v1/cluster answers.
type clusterAnswer struct {
	Node    string
	State   string
	Members []struct {
		Name, Address, HTTP, Admin, Release, State string
		Self                                       bool
	}
}

func (c *nodeClient) cluster(ctx context.Context) (clusterAnswer, []byte, error) {
	var answer clusterAnswer
	text, err := c.call(ctx, http.MethodGet, "/v1/cluster", nil)
	if err != nil {
		return answer, nil, err
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return answer, nil, fmt.Errorf("%s did not answer as a node does: %w", c.base, err)
	}
	return answer, text, nil
}
