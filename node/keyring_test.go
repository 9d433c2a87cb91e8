package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"klatch/cluster"
	"klatch/cluster/netsim"
	"klatch/keyring"
	"klatch/store/near"
)

// aKey makes a key of AES-256 that nobody should use.
func aKey(digit byte) []byte { return bytes.Repeat([]byte{digit}, 32) }

// inEncryptedRig runs a test on three nodes, each of which has a file with the same key.
func inEncryptedRig(t *testing.T, key []byte, test func(r *rig)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := makeRig(t, 3, netsim.Options{Seed: anySeed, Conditions: netsim.Conditions{Delay: 200 * time.Microsecond}})
		for _, n := range r.nodes {
			n.keys = keyFile(filepath.Join(dir, n.name))
			if err := os.WriteFile(string(n.keys), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := n.keys.Save([][]byte{key}); err != nil {
				t.Fatal(err)
			}
		}
		r.start()
		test(r)
	})
}

// rotate takes a step through a node and demands that all nodes have taken it and saved it.
func (c *chaosNode) rotate(change keyring.Change) {
	c.rig.t.Helper()
	nodes, err := c.running().keys.Change(context.Background(), change)
	if err != nil {
		c.rig.t.Fatalf("%s: %v", change.Step, err)
	}
	for _, n := range nodes {
		if n.Problem != "" || !slices.Equal(n.Keys, n.Saved) {
			c.rig.t.Fatalf("%s on %s: %+v", change.Step, n.Name, n)
		}
	}
}

func (c *chaosNode) refuses(change keyring.Change, why string) {
	c.rig.t.Helper()
	before := c.rig.nodes[0].running().keys.List(context.Background())
	_, err := c.running().keys.Change(context.Background(), change)
	if !errors.Is(err, keyring.ErrRefused) || !strings.Contains(err.Error(), why) {
		c.rig.t.Errorf("%s of %s: %v, want a refusal with %q", change.Step, change.Fingerprint, err, why)
	}
	after := c.rig.nodes[0].running().keys.List(context.Background())
	if fmt.Sprint(before) != fmt.Sprint(after) {
		c.rig.t.Errorf("after a refusal the keys are %v, before %v", after, before)
	}
}

func TestARotationOfKeysLosesNoNewsAndNoNode(t *testing.T) {
	old, fresh := aKey(1), aKey(2)
	inEncryptedRig(t, old, func(r *rig) {
		a, b, c := r.nodes[0], r.nodes[1], r.nodes[2]
		id := r.copies("0")
		fences := a.fences() + b.fences() + c.fences()
		stop, written := make(chan struct{}), make(chan int)
		go func() {
			n := 0
			for {
				select {
				case <-stop:
					written <- n
					return
				default:
					n++
					token := r.nodes[n%3].write(id, fmt.Sprint(n))
					if got := r.nodes[(n+1)%3].readAfter(id, token); got != fmt.Sprint(n) {
						t.Errorf("read %s after write %d", got, n)
					}
					time.Sleep(time.Millisecond)
				}
			}
		}()
		const pause = 2 * time.Second
		time.Sleep(pause)
		b.rotate(keyring.Change{Step: keyring.Install, Key: fresh})
		time.Sleep(pause)
		c.rotate(keyring.Change{Step: keyring.Use, Fingerprint: cluster.Fingerprint(fresh)})
		time.Sleep(pause)
		a.rotate(keyring.Change{Step: keyring.Remove, Fingerprint: cluster.Fingerprint(old)[:8]})
		time.Sleep(pause)
		close(stop)
		n := <-written
		time.Sleep(pause) // until the news of the last write has arrived

		for _, node := range r.nodes {
			if got := node.read(id, near.Session); got != fmt.Sprint(n) {
				t.Errorf("%s reads %s after %d writes", node.name, got, n)
			}
			if keys, err := node.keys.Load(); err != nil || len(keys) != 1 || !bytes.Equal(keys[0], fresh) {
				t.Errorf("the key file of %s: %d keys, %v", node.name, len(keys), err)
			}
			if strangers := node.bus().Strangers; len(strangers) > 0 {
				t.Errorf("%s counts strangers %v", node.name, strangers)
			}
		}
		if more := a.fences() + b.fences() + c.fences() - fences; more > 0 {
			t.Errorf("%d fences during the rotation", more)
		}
		b.crash()
		b.start() // with the keys that were saved
		r.awaitWhole(30 * time.Second)
		t.Logf("%d writes during the rotation, none missed", n)
	})
}

func TestAStepThatWouldShutANodeOutIsRefused(t *testing.T) {
	old, fresh := aKey(1), aKey(2)
	use := keyring.Change{Step: keyring.Use, Fingerprint: cluster.Fingerprint(fresh)}
	remove := keyring.Change{Step: keyring.Remove, Fingerprint: cluster.Fingerprint(old)}
	inEncryptedRig(t, old, func(r *rig) {
		a, b, c := r.nodes[0], r.nodes[1], r.nodes[2]
		save := func(n *chaosNode, keys ...[]byte) {
			t.Helper()
			if err := n.keys.Save(keys); err != nil {
				t.Fatal(err)
			}
		}
		b.refuses(use, "no node has a key")
		b.refuses(remove, "encrypts by this key")
		b.rotate(keyring.Change{Step: keyring.Install, Key: fresh})
		save(c, old)
		b.refuses(use, "key file of n3 lacks the key")
		save(c, old, fresh)

		c.crash()
		r.await(time.Minute, "c has vanished", func() bool { return a.alive() == 2 })
		a.refuses(use, "n3 is not heard")
		c.start()
		r.awaitWhole(30 * time.Second)

		b.rotate(use)
		c.crash()
		r.await(time.Minute, "c has vanished", func() bool { return a.alive() == 2 })
		a.refuses(remove, "n3 is not heard")
		a.refuses(remove, "klatch forget n3")
		// It lives for the store until its record lapses.
		r.await(time.Minute, "forgotten", func() bool {
			return a.running().cluster.Forget(context.Background(), "n3") == nil && len(a.running().cluster.Unseen()) == 0
		})
		if err := a.running().cluster.Forget(context.Background(), "n2"); !errors.Is(err, cluster.ErrAlive) {
			t.Errorf("forget a live node: %v", err)
		}
		save(b, old, fresh)
		a.refuses(remove, "key file of n2 does not begin with "+cluster.Fingerprint(fresh))
		save(b, fresh, old)
		a.rotate(remove)
		save(c, fresh)
		c.start()
		r.awaitWhole(30 * time.Second)
	})
}

func TestAKeyThatCannotBeSavedIsSaidToBeInUseOnly(t *testing.T) {
	inEncryptedRig(t, aKey(1), func(r *rig) {
		b := r.nodes[1]
		if err := os.Remove(string(b.keys)); err != nil {
			t.Fatal(err)
		}
		nodes, err := r.nodes[0].running().keys.Change(context.Background(), keyring.Change{Step: keyring.Install, Key: aKey(2)})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			if troubled := strings.Contains(n.Problem, "in use, but not saved"); troubled != (n.Name == b.name) || len(n.Keys) != 2 {
				t.Errorf("%+v", n)
			}
		}
	})
}

func TestAClusterThatDoesNotEncryptHasNoKeysToChange(t *testing.T) {
	inRig(t, 2, func(r *rig) {
		r.nodes[0].refuses(keyring.Change{Step: keyring.Install, Key: aKey(1)}, "not encrypted")
		for _, n := range r.nodes[0].running().keys.List(context.Background()) {
			if len(n.Keys) != 0 || n.Problem != "" {
				t.Errorf("%+v", n)
			}
		}
	})
}
