package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func newKeyring() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keyring",
		Short: "Show the gossip keys of all nodes, or change them while the cluster runs",
		Long: `Show the gossip keys of all nodes, or change them while the cluster runs. Keys are named by their fingerprints.

A rotation has three steps: install a new key on all nodes, make all use it, remove the old one. Each node saves the
step in its key file. A step that would shut a node out, now or after its next start, is refused with the reason.`,
		Example: `  klatch keyring list
  head -c 32 /dev/urandom | base64 | klatch keyring install -
  klatch keyring use 1f0c9a
  klatch keyring remove 77be02`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newKeyringList(), newKeyringInstall(),
		newKeyringStep("use", "Make all nodes encrypt by an installed key"),
		newKeyringStep("remove", "Take a key away from all nodes, none of which encrypts by it"))
	return cmd
}

func newKeyringList() *cobra.Command {
	var client nodeClient
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "Show the keys of all nodes by their fingerprints",
		Example: "  klatch keyring list\n  klatch keyring list -o json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := client.call(cmd.Context(), http.MethodGet, "/v1/keyring", nil)
			if err != nil {
				return err
			}
			return client.printKeyring(text)
		},
	}
	addClientFlags(cmd, &client)
	return cmd
}

func newKeyringInstall() *cobra.Command {
	var client nodeClient
	cmd := &cobra.Command{
		Use:     "install FILE",
		Short:   "Give all nodes a further key, which may decrypt; - reads it from the standard input",
		Example: "  head -c 32 /dev/urandom | base64 > new.key\n  klatch keyring install new.key",
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := readKey(args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			text, err := client.call(cmd.Context(), http.MethodPost, "/v1/keyring/install", map[string]any{"key": key})
			if err != nil {
				return err
			}
			return client.printKeyring(text)
		},
	}
	addClientFlags(cmd, &client)
	return cmd
}

// readKey reads a key from a file. It is no argument, since those can be seen by everybody on the machine.
func readKey(path string, stdin io.Reader) (string, error) {
	var text []byte
	var err error
	if path == "-" {
		text, err = io.ReadAll(io.LimitReader(stdin, 4096))
	} else {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(text)), nil
}

func newKeyringStep(step, short string) *cobra.Command {
	var client nodeClient
	cmd := &cobra.Command{
		Use:     step + " FINGERPRINT",
		Short:   short,
		Example: "  klatch keyring " + step + " 1f0c9a",
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := client.call(cmd.Context(), http.MethodPost, "/v1/keyring/"+step, map[string]any{"fingerprint": args[0]})
			if err != nil {
				return err
			}
			return client.printKeyring(text)
		},
	}
	addClientFlags(cmd, &client)
	return cmd
}

// printKeyring shows the keys of all nodes, and fails if those of one are not as they should be.
func (c *nodeClient) printKeyring(text []byte) error {
	var answer struct {
		Nodes []struct {
			Name        string
			Keys, Saved []string
			Problem     string
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("%s did not answer as a node does: %w", c.base, err)
	}
	troubled := 0
	err := c.print(text, func(w io.Writer) error {
		fmt.Fprintln(w, "NODE\tENCRYPTS BY\tREADS ALSO\tPROBLEM")
		for _, n := range answer.Nodes {
			encrypts, reads := "-", "-"
			if len(n.Keys) > 0 {
				encrypts = n.Keys[0]
			}
			if len(n.Keys) > 1 {
				reads = strings.Join(n.Keys[1:], " ")
			}
			problem := n.Problem
			if problem == "" {
				problem = "-"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", n.Name, encrypts, reads, problem)
		}
		return nil
	})
	for _, n := range answer.Nodes {
		if n.Problem != "" {
			troubled++
		}
	}
	if err == nil && troubled > 0 {
		err = errors.New("not all nodes are as they should be; see the problems above")
	}
	return err
}
