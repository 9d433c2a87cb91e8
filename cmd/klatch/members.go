package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

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
