package main

import (
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"
)

func newJoin() *cobra.Command {
	var client nodeClient
	cmd := &cobra.Command{
		Use:     "join ADDRESS…",
		Short:   "Make a node join others, by their gossip addresses",
		Example: "  klatch join 10.0.0.2:7946",
		Args:    arguments(1, 64),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := client.call(cmd.Context(), http.MethodPost, "/v1/cluster/join", map[string]any{"addresses": args})
			if err != nil {
				return err
			}
			return client.print(text, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, "joined; klatch members shows the cluster")
				return err
			})
		},
	}
	addClientFlags(cmd, &client)
	return cmd
}
