// Command klatch is the one binary: a node, the tools of its operators, the demo cluster and the load tools.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"klatch/internal/demo"
	"klatch/node"
)

// Exit codes of every command.
const (
	exitFailed = 1
	exitUsage  = 2
)

// release is set by the linker.
var release = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := newRoot().ExecuteContext(ctx)
	stop()
	if err != nil {
		os.Exit(report(err))
	}
}

// report prints what went wrong in one line and returns the exit code.
func report(err error) int {
	var code exitCode
	if errors.As(err, &code) {
		return int(code)
	}
	fmt.Fprintln(os.Stderr, "klatch:", err)
	var usage usageError
	if errors.As(err, &usage) || errors.Is(err, node.ErrConfig) || errors.Is(err, demo.ErrOptions) {
		return exitUsage
	}
	return exitFailed
}

// exitCode ends the process without a message: the command has said all there is to say.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// usageError is a mistake in how a command was called.
type usageError struct{ error }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "klatch",
		Short: "A cluster of nodes that keep sessions and a shared cache for the servers behind a load balancer",
		Long: `klatch keeps HTTP sessions for application servers behind a load balancer. Nodes tell each other what
changed by gossip; the durable truth is one store that they share, and every write is a compare-and-swap.

Start with: klatch demo`,
		Example:       "  klatch demo\n  klatch serve --config /etc/klatch.yaml\n  klatch status",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArguments,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w (see %s --help)", err, cmd.CommandPath())}
	})
	root.AddCommand(
		newServe(), newDemo(), newStatus(), newHealth(), newMembers(), newJoin(), newDrain(), newLeave(), newForget(),
		newSession(), newKeyring(), newCheck(), newBench(), newVersion(),
	)
	return root
}

// noArguments refuses arguments, and says which commands there are where one was mistyped.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		hint := ""
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = fmt.Sprintf("; did you mean %q?", near[0])
		}
		return usageError{fmt.Errorf("unknown command %q for %s%s (see %s --help)", args[0], cmd.CommandPath(), hint, cmd.CommandPath())}
	}
	return usageError{fmt.Errorf("%s takes no arguments (see %s --help)", cmd.CommandPath(), cmd.CommandPath())}
}

// arguments demands at least least and at most most arguments.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usageError{fmt.Errorf("usage: %s", cmd.UseLine())}
		}
		return nil
	}
}
