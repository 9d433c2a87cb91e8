package main

import (
	"github.com/spf13/cobra"

	"klatch/bench/sessions"
)

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure a running cluster",
		Example: "  klatch bench sessions -h",
		Args:    noArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:                "sessions",
		Short:              "Load the test application through a balancer",
		Example:            "  klatch bench sessions -b http://127.0.0.1:8002 -t 16 -ct 2 -i 5 -ci 20 -a 20 -s 100 -ts 5",
		DisableFlagParsing: true, // the tool's options, such as -ct, are those of the flag package
		RunE: func(cmd *cobra.Command, args []string) error {
			if code := sessions.Main(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr()); code != 0 {
				return exitCode(code)
			}
			return nil
		},
	})
	return cmd
}
