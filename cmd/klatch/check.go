package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"klatch/internal/clock"
)

func newCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "check",
		Short:   "Check what a cluster promises, while it runs",
		Example: "  klatch check coherence",
		Args:    noArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCheckCoherence())
	return cmd
}

func newCheckCoherence() *cobra.Command {
	var client nodeClient
	var samples int
	var after []time.Duration
	cmd := &cobra.Command{
		Use:   "coherence",
		Short: "Compare copies in memory on all nodes with what the store had a while before",
		Long: `Compare copies in memory on all nodes with what the store had a while before. Each node draws some of its copies,
reads their records from the store, and looks 1, 10 and 60 seconds later which of the copies it would still serve
although the store had something newer. Copies behind a fence, or on a node that has no trust, are not served.

The exit code is 1 if there is any after more than the three seconds that a copy may be old, or a node could not check.`,
		Example: "  klatch check coherence\n  klatch check coherence --samples 100 --after 1s,10s -o json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return client.checkCoherence(cmd.Context(), cmd.ErrOrStderr(), samples, after)
		},
	}
	cmd.Flags().IntVar(&samples, "samples", 1000, "`copies` on each node")
	cmd.Flags().DurationSliceVar(&after, "after", []time.Duration{time.Second, 10 * time.Second, time.Minute}, "`times` at which they are looked at")
	addClientFlags(cmd, &client)
	return cmd
}

// coherenceAnswer is what GET /v1/coherence/{id} answers.
type coherenceAnswer struct {
	Done  bool
	Bound string
	Nodes []struct {
		Node    string
		Sampled int
		Looks   []struct {
			After         string
			Served, Stale int
		}
		Error string
	}
}

func (c *nodeClient) checkCoherence(ctx context.Context, progress io.Writer, samples int, after []time.Duration) error {
	times := make([]string, 0, len(after))
	for _, d := range after {
		times = append(times, d.String())
	}
	text, err := c.call(ctx, http.MethodPost, "/v1/coherence", map[string]any{"samples": samples, "after": times})
	if err != nil {
		return err
	}
	var begun struct{ ID, Lasts string }
	if err := json.Unmarshal(text, &begun); err != nil {
		return err
	}
	fmt.Fprintf(progress, "checking for %s…\n", begun.Lasts)
	var answer coherenceAnswer
	for !answer.Done {
		if err := clock.Sleep(ctx, 250*time.Millisecond); err != nil {
			return err
		}
		if text, err = c.call(ctx, http.MethodGet, "/v1/coherence/"+url.PathEscape(begun.ID), nil); err != nil {
			return err
		}
		if err := json.Unmarshal(text, &answer); err != nil {
			return err
		}
	}
	if err := c.print(text, answer.table); err != nil {
		return err
	}
	return answer.verdict()
}

func (a coherenceAnswer) table(w io.Writer) error {
	fmt.Fprintln(w, "NODE\tSAMPLED\tAFTER\tSERVED\tSTALE\tRATE\tERROR")
	for _, n := range a.Nodes {
		for _, l := range n.Looks {
			rate := "-"
			if l.Served > 0 {
				rate = fmt.Sprintf("%.4f", float64(l.Stale)/float64(l.Served))
			}
			fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%d\t%s\t-\n", n.Node, n.Sampled, l.After, l.Served, l.Stale, rate)
		}
		if n.Error != "" {
			fmt.Fprintf(w, "%s\t%d\t-\t-\t-\t-\t%s\n", n.Node, n.Sampled, n.Error)
		}
	}
	return nil
}

// verdict fails if a copy is older than it may be, or a node could not look.
func (a coherenceAnswer) verdict() error {
	bound, err := time.ParseDuration(a.Bound)
	if err != nil {
		return err
	}
	stale, failed := 0, 0
	for _, n := range a.Nodes {
		for _, l := range n.Looks {
			if after, err := time.ParseDuration(l.After); err != nil {
				return err
			} else if after > bound {
				stale += l.Stale
			}
		}
		if n.Error != "" {
			failed++
		}
	}
	switch {
	case stale > 0:
		return fmt.Errorf("%d copies are older than the %s that they may be; the log of their nodes names some", stale, a.Bound)
	case failed > 0:
		return errors.New("not all nodes could check")
	default:
		return nil
	}
}
