package keyring

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"klatch/cluster"
)

// Step is one step of a rotation.
type Step string

// The steps, in the order in which a rotation takes them.
const (
	Install Step = "install" // the key may decrypt
	Use     Step = "use"     // it encrypts
	Remove  Step = "remove"  // it is gone
)

// Change is a step that all nodes are to take.
type Change struct {
	Step        Step   `json:"step"`
	Key         []byte `json:"key,omitempty"`         // of Install
	Fingerprint string `json:"fingerprint,omitempty"` // of Use and Remove; what no other key begins with is enough
}

// shortestFingerprint is how much of a fingerprint must be given.
const shortestFingerprint = 6

// check refuses what no cluster could do.
func (c Change) check() error {
	switch {
	case c.Step == Install && len(c.Key) != 16 && len(c.Key) != 24 && len(c.Key) != 32:
		return fmt.Errorf("%w: a key has 16, 24 or 32 bytes, not %d (make one with: head -c 32 /dev/urandom | base64)", ErrInvalid, len(c.Key))
	case c.Step == Install:
		return nil
	case c.Step != Use && c.Step != Remove:
		return fmt.Errorf("%w: unknown step %.20q: use install, use or remove", ErrInvalid, c.Step)
	case len(c.Fingerprint) < shortestFingerprint:
		return fmt.Errorf("%w: give at least %d characters of the key's fingerprint; klatch keyring list shows them", ErrInvalid, shortestFingerprint)
	}
	return nil
}

// complete returns the whole fingerprint of the one key that the given part names.
func complete(part string, nodes []Node) (string, error) {
	var found []string
	for _, n := range nodes {
		for _, fingerprint := range slices.Concat(n.Keys, n.Saved) {
			if strings.HasPrefix(fingerprint, strings.ToLower(part)) && !slices.Contains(found, fingerprint) {
				found = append(found, fingerprint)
			}
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("%w: no node has a key whose fingerprint begins with %.20q", ErrRefused, part)
	case 1:
		return found[0], nil
	default:
		return "", fmt.Errorf("%w: %d keys have fingerprints that begin with %.20q: give more of it", ErrRefused, len(found), part)
	}
}

// guard refuses a change that would shut a node out.
func (c Change) guard(nodes []Node, unseen []string) error {
	if c.Step == Install {
		return nil // whoever misses it is named when the key is to be used
	}
	if len(unseen) > 0 {
		return fmt.Errorf("%w: %s is not heard, and could not come back; wait for it, or make the cluster forget it for good by: klatch forget %s", ErrRefused, strings.Join(unseen, ", "), unseen[0])
	}
	for _, n := range nodes {
		if err := c.guardNode(n); err != nil {
			return err
		}
	}
	return nil
}

func (c Change) guardNode(n Node) error {
	switch {
	case len(n.Keys) == 0:
		return fmt.Errorf("%w: the keys of %s are not known: %s", ErrRefused, n.Name, n.Problem)
	case c.Step == Use && !slices.Contains(n.Keys, c.Fingerprint):
		return fmt.Errorf("%w: %s does not have the key: install it first", ErrRefused, n.Name)
	case c.Step == Use && !slices.Contains(n.Saved, c.Fingerprint):
		return fmt.Errorf("%w: the key file of %s lacks the key, so that it could not come back after its next start: add it there", ErrRefused, n.Name)
	case c.Step == Remove && n.Keys[0] == c.Fingerprint:
		return fmt.Errorf("%w: %s encrypts by this key: make all use another one first", ErrRefused, n.Name)
	case c.Step == Remove && (len(n.Saved) == 0 || n.Saved[0] != n.Keys[0]):
		return fmt.Errorf("%w: the key file of %s does not begin with %s, by which all encrypt, so that it could not come back after its next start: move that key to its first line", ErrRefused, n.Name, n.Keys[0])
	}
	return nil
}

// ParseKey reads a key as key files have it.
func ParseKey(text string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || (len(key) != 16 && len(key) != 24 && len(key) != 32) {
		return nil, fmt.Errorf("%w: it is not base64 of 16, 24 or 32 bytes (make one with: head -c 32 /dev/urandom | base64)", ErrInvalid)
	}
	return key, nil
}

func fingerprints(keys [][]byte) []string {
	named := make([]string, 0, len(keys))
	for _, key := range keys {
		named = append(named, cluster.Fingerprint(key))
	}
	return named
}
