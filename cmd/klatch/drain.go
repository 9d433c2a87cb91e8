package main

import (
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"
)

func newDrain() *cobra.Command {
	return newDeparture("drain", "Make a node leave after balancers have noticed that it is not ready")
}

func newLeave() *cobra.Command {
	return newDeparture("leave", "Make a node leave as soon as its requests under way have ended")
}

// newDeparture makes the two commands that end a node on purpose.
func newDeparture(verb, short string) *cobra.Command {
	var client nodeClient
	cmd := &cobra.Command{
		Use:     verb,
		Short:   short,
		Example: "  klatch " + verb + " --admin http://127.0.0.1:8012",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := client.call(cmd.Context(), http.MethodPost, "/v1/cluster/"+verb, nil)
			if err != nil {
				return err
			}
			return client.print(text, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, "the node is leaving; its process ends by itself")
				return err
			})
		},
	}
	addClientFlags(cmd, &client)
	return cmd
}
