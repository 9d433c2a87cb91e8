package main

import (
	"fmt"
	"io"
	"net/http"

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

func newMembers() *cobra.Command {
	var client nodeClient
	cmd := &cobra.Command{
		Use:     "members",
		Short:   "List the members of the cluster",
		Example: "  klatch members\n  klatch members -o json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, text, err := client.cluster(cmd.Context())
			if err != nil {
				return err
			}
			return client.print(text, func(w io.Writer) error {
				fmt.Fprintln(w, "NAME\tSTATE\tHTTP\tADMIN\tGOSSIP\tRELEASE")
				for _, m := range answer.Members {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", m.Name, m.State, m.HTTP, m.Admin, m.Address, m.Release)
				}
				return nil
			})
		},
	}
	addClientFlags(cmd, &client)
	return cmd
}

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
