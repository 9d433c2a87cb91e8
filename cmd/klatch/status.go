package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

func newStatus() *cobra.Command {
	var client nodeClient
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show one node and how it sees the cluster",
		Example: "  klatch status\n  klatch status --admin http://127.0.0.1:8012 -o json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, text, err := client.cluster(cmd.Context())
			if err != nil {
				return err
			}
			return client.print(text, func(w io.Writer) error {
				ready := 0
				for _, m := range answer.Members {
					if m.State == "ready" {
						ready++
					}
				}
				_, err := fmt.Fprintf(w, "node %s is %s; %d of %d members are ready\n", answer.Node, answer.State, ready, len(answer.Members))
				return err
			})
		},
	}
	addClientFlags(cmd, &client)
	return cmd
}
