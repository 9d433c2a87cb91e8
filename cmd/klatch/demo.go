package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"klatch/internal/demo"
)

func newDemo() *cobra.Command {
	opts := demo.Options{}
	var output string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a cluster on this machine: three nodes and two balancers",
		Long: `Run a real cluster on this machine: node processes on one SQLite file, a sticky balancer and a non-sticky
one, and the test application on each node. Ctrl-C ends everything and leaves nothing behind.

Ports, from --base-port: +0 control, +1 sticky, +2 non-sticky; node i has its API on +10i, its application on
+10i+1, its admin API on +10i+2 and its gossip on +10i+3.`,
		Example: `  klatch demo
  klatch demo --nodes 5 --dir /tmp/demo
  klatch demo add
  klatch demo kill n2`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return usageError{fmt.Errorf("-o %q: use text or json", output)}
			}
			binary, err := os.Executable()
			if err != nil {
				return err
			}
			opts.Binary, opts.JSON, opts.Stdout = binary, output == "json", cmd.OutOrStdout()
			return demo.Run(cmd.Context(), opts)
		},
	}
	client := demo.Client{}
	cmd.PersistentFlags().IntVar(&opts.BasePort, "base-port", demo.DefaultBasePort, "first `port` of the demo")
	cmd.PersistentFlags().StringVarP(&output, "output", "o", "text", "`form` of the output: text or json")
	cmd.Flags().IntVar(&opts.Nodes, "nodes", 3, "`number` of nodes to start with")
	cmd.Flags().StringVar(&opts.Dir, "dir", "", "`directory` for the store and the logs, kept afterwards (default: a temporary one)")

	steer := func(use, short, example string, least, most int, run func(cmd *cobra.Command, args []string) (any, func(io.Writer), error)) *cobra.Command {
		return &cobra.Command{
			Use: use, Short: short, Example: "  klatch demo " + example, Args: arguments(least, most),
			RunE: func(cmd *cobra.Command, args []string) error {
				client.BasePort = opts.BasePort
				result, text, err := run(cmd, args)
				if err != nil {
					return err
				}
				if output == "json" {
					return json.NewEncoder(cmd.OutOrStdout()).Encode(result)
				}
				table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				text(table)
				return table.Flush()
			},
		}
	}
	cmd.AddCommand(
		steer("add", "Start one more node in a running demo", "add", 0, 0, func(cmd *cobra.Command, _ []string) (any, func(io.Writer), error) {
			info, err := client.Add(cmd.Context())
			return info, func(w io.Writer) { fmt.Fprintf(w, "%s has joined: %s\n", info.Name, info.App) }, err
		}),
		steer("kill NAME", "Kill a node of a running demo, as a crash would", "kill n2", 1, 1, func(cmd *cobra.Command, args []string) (any, func(io.Writer), error) {
			err := client.Kill(cmd.Context(), args[0])
			return map[string]string{"killed": args[0]}, func(w io.Writer) { fmt.Fprintf(w, "%s was killed\n", args[0]) }, err
		}),
		steer("nodes", "List the nodes of a running demo", "nodes -o json", 0, 0, func(cmd *cobra.Command, _ []string) (any, func(io.Writer), error) {
			nodes, err := client.Nodes(cmd.Context())
			return nodes, func(w io.Writer) {
				fmt.Fprintln(w, "NAME\tPID\tAPI\tAPP\tADMIN\tGOSSIP")
				for _, n := range nodes {
					fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", n.Name, n.PID, n.API, n.App, n.Admin, n.Gossip)
				}
			}, err
		}),
	)
	return cmd
}
