package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the release",
		Example: "  klatch version\n  klatch version -o json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch output {
			case "json":
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]string{"release": release, "go": runtime.Version()})
			case "text":
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "klatch %s (%s)\n", release, runtime.Version())
				return err
			default:
				return usageError{fmt.Errorf("-o %q: use text or json", output)}
			}
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "`form` of the output: text or json")
	return cmd
}
