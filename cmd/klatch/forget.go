package main

import (
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"
)

func newForget() *cobra.Command {
	var client nodeClient
	cmd := &cobra.Command{
		Use:   "forget NAME",
		Short: "Make the cluster forget a node that vanished and is gone for good",
		Long: `Make the cluster forget a node that vanished and is gone for good. Without it, all look for the node for a day,
and no gossip key is changed before it is back. A node that leaves by itself needs no forgetting.`,
		Example: "  klatch forget n3",
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := client.call(cmd.Context(), http.MethodPost, "/v1/cluster/forget", map[string]any{"name": args[0]})
			if err != nil {
				return err
			}
			return client.print(text, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, "forgotten")
				return err
			})
		},
	}
	addClientFlags(cmd, &client)
	return cmd
}
