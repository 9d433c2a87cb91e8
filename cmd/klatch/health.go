package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func newHealth() *cobra.Command {
	var client nodeClient
	var live bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Exit with 0 if a node is ready, for the health checks of containers",
		Long: `Exit with 0 if a node is ready, with 1 if it is not or does not answer. It asks /readyz, as balancers do, or
with --live /healthz, which answers as long as the process serves at all. It needs no token.`,
		Example: "  klatch health\n  klatch health --live --admin http://127.0.0.1:8012",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return usageError{fmt.Errorf("--timeout %s: use a duration above zero, such as 2s", timeout)}
			}
			path := "/readyz"
			if live {
				path = "/healthz"
			}
			answer, text, err := client.health(cmd.Context(), path, timeout)
			if err != nil {
				return err
			}
			return client.print(text, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "node %s is %s\n", answer.Node, answer)
				return err
			})
		},
	}
	addClientFlags(cmd, &client)
	cmd.Flags().BoolVar(&live, "live", false, "ask only whether the process serves")
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Second, "`time` to wait for the answer")
	return cmd
}

// healthAnswer is what GET /readyz and GET /healthz answer.
type healthAnswer struct {
	Node     string
	State    string // of /readyz
	Status   string // of /healthz
	Degraded string // what the node serves without, if anything
}

func (a healthAnswer) String() string {
	state := a.State + a.Status // each path gives one of them
	if a.Degraded != "" {
		state += ", degraded: " + a.Degraded
	}
	return state
}

// health returns an error unless the node says 200. It is no call: a node that is not ready answers 503
// without a problem document.
func (c *nodeClient) health(ctx context.Context, path string, timeout time.Duration) (healthAnswer, []byte, error) {
	var answer healthAnswer
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return answer, nil, err
	}
	response, err := http.DefaultClient.Do(request)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return answer, nil, fmt.Errorf("no node answers at %s", c.base)
	case errors.Is(err, context.DeadlineExceeded):
		return answer, nil, fmt.Errorf("%s did not answer within %s", c.base, timeout)
	case err != nil:
		return answer, nil, err
	}
	defer response.Body.Close()
	const most = 64 << 10
	text, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err != nil {
		return answer, nil, err
	}
	if json.Unmarshal(text, &answer) != nil || answer.Node == "" {
		return answer, nil, fmt.Errorf("%s answered %s; is it the admin address of a node?", c.base, response.Status)
	}
	if response.StatusCode != http.StatusOK {
		return answer, nil, fmt.Errorf("node %s is not ready: %s", answer.Node, answer)
	}
	return answer, text, nil
}
