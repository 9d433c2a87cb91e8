package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

func newSession() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "session",
		Short:   "Look at one session, or end it",
		Example: "  klatch session get Zk3J…\n  klatch session delete Zk3J…",
		Args:    noArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSessionGet(), newSessionDelete())
	return cmd
}

func newSessionGet() *cobra.Command {
	var client nodeClient
	cmd := &cobra.Command{
		Use:     "get ID",
		Short:   "Show a session as the store has it now, without extending it",
		Example: "  klatch session get Zk3J…",
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := client.call(cmd.Context(), http.MethodGet, "/v1/sessions/"+url.PathEscape(args[0])+"?consistency=latest&passive=true", nil)
			if err != nil {
				return err
			}
			return client.print(text, func(w io.Writer) error {
				var indented bytes.Buffer
				if err := json.Indent(&indented, bytes.TrimSpace(text), "", "  "); err != nil {
					return err
				}
				_, err := fmt.Fprintln(w, indented.String())
				return err
			})
		},
	}
	addClientFlags(cmd, &client)
	return cmd
}

func newSessionDelete() *cobra.Command {
	var client nodeClient
	cmd := &cobra.Command{
		Use:     "delete ID",
		Short:   "End a session on all nodes; one that is not there is no error",
		Example: "  klatch session delete Zk3J…",
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := client.call(cmd.Context(), http.MethodDelete, "/v1/sessions/"+url.PathEscape(args[0]), nil); err != nil {
				return err
			}
			return client.print([]byte(`{"deleted":true}`), func(w io.Writer) error {
				_, err := fmt.Fprintln(w, "deleted")
				return err
			})
		},
	}
	addClientFlags(cmd, &client)
	return cmd
}
