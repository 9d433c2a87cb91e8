package cbnode_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10/memd"

	"klatch/test/cbnode"
)

// eventually repeats check until it holds.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !check(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

func withHasty(o *gocb.ClusterOptions) { o.RetryStrategy = hasty{} }

// once is the hook that does action to the first write and nothing to all others.
func once(action cbnode.Action) cbnode.Hook {
	var done atomic.Bool
	return cbnode.OnWrites(func(cbnode.Request) cbnode.Action {
		if done.Swap(true) {
			return cbnode.Action{}
		}
		return action
	})
}

// TestFaultsOfWrites is the table of what a writer sees and of what became of its write.
func TestFaultsOfWrites(t *testing.T) {
	for _, c := range []struct {
		name    string
		action  cbnode.Action
		hasty   bool
		want    error
		applied bool
	}{
		{"answer dropped", cbnode.Action{Fault: cbnode.DropAnswer}, false, gocb.ErrAmbiguousTimeout, true},
		{"request dropped", cbnode.Action{Fault: cbnode.DropRequest}, false, gocb.ErrAmbiguousTimeout, false},
		{"connection closed after applying", cbnode.Action{Fault: cbnode.CloseAfter}, false, io.EOF, true},
		{"connection closed after applying, hasty", cbnode.Action{Fault: cbnode.CloseAfter}, true, io.EOF, true},
		{"connection closed before applying", cbnode.Action{Fault: cbnode.CloseBefore}, false, io.EOF, false},
		{"temporary failure, hasty", cbnode.Action{Fault: cbnode.Refuse}, true, gocb.ErrTemporaryFailure, false},
		{"temporary failure, retried", cbnode.Action{Fault: cbnode.Refuse}, false, nil, true},
		{"another refusal", cbnode.Action{Fault: cbnode.Refuse, Status: memd.StatusDurabilityImpossible}, false, gocb.ErrDurabilityImpossible, false},
		{"answer after the deadline", cbnode.Action{After: 2 * kvTimeout}, false, gocb.ErrAmbiguousTimeout, true},
		{"answer within the deadline", cbnode.Action{Before: time.Millisecond, After: time.Millisecond}, false, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			node := startNode(t, cbnode.Options{})
			var change []func(*gocb.ClusterOptions)
			if c.hasty {
				change = append(change, withHasty)
			}
			writer, reader := openCollection(t, node, change...), openCollection(t, node)
			insert(t, writer, "k", "before", 0)

			node.SetHook(once(c.action))
			_, err := upsert(writer, "k", "after")
			if c.want == nil && err != nil {
				t.Fatal(err)
			}
			if c.want != nil {
				wantsError(t, err, c.want)
			}
			if c.want == io.EOF && (errors.Is(err, gocb.ErrTimeout) || errors.Is(err, gocb.ErrRequestCanceled)) {
				t.Errorf("a lost connection looks like something else, too: %v", err)
			}
			value := "before"
			if c.applied {
				value = "after"
			}
			wants(t, reader, "k", value, 0)
		})
	}
}

// TestFaultsOfReads shows that only a hasty reader hears of a lost connection.
func TestFaultsOfReads(t *testing.T) {
	node := startNode(t, cbnode.Options{})
	patient, impatient := openCollection(t, node), openCollection(t, node, withHasty)
	insert(t, patient, "k", "v", 0)
	var failing atomic.Int32
	node.SetHook(func(r cbnode.Request) cbnode.Action {
		if r.Reads() && failing.Add(-1) >= 0 {
			return cbnode.Action{Fault: cbnode.CloseBefore}
		}
		return cbnode.Action{}
	})

	failing.Store(1)
	wants(t, patient, "k", "v", 0)
	failing.Store(1)
	_, _, err := get(impatient, "k")
	wantsError(t, err, io.EOF)
	failing.Store(1 << 30)
	_, _, err = get(patient, "k")
	wantsError(t, err, gocb.ErrUnambiguousTimeout)
}

// TestLateWrite checks the worst of a slow node: a write is applied after its client has given up.
func TestLateWrite(t *testing.T) {
	node := startNode(t, cbnode.Options{})
	c := openCollection(t, node)
	insert(t, c, "k", "before", 0)
	node.SetHook(once(cbnode.Action{Before: 2 * kvTimeout}))
	_, err := upsert(c, "k", "late")
	wantsError(t, err, gocb.ErrAmbiguousTimeout)
	wants(t, c, "k", "before", 0)
	eventually(t, "the write is applied", func() bool {
		value, _, err := get(c, "k")
		return err == nil && value == "late"
	})
}

func TestFrozen(t *testing.T) {
	node := startNode(t, cbnode.Options{})
	c := openCollection(t, node)
	insert(t, c, "k", "before", 0)

	node.Freeze()
	node.Freeze() // once more changes nothing
	began := time.Now()
	_, _, err := get(c, "k")
	wantsError(t, err, gocb.ErrUnambiguousTimeout)
	if waited := time.Since(began); waited < kvTimeout {
		t.Errorf("the read gave up after %s", waited)
	}
	_, err = upsert(c, "k", "while frozen")
	wantsError(t, err, gocb.ErrAmbiguousTimeout)
	began = time.Now()
	_, err = c.Upsert("other", []byte("durable"), &gocb.UpsertOptions{Transcoder: raw, DurabilityLevel: gocb.DurabilityLevelMajority})
	wantsError(t, err, gocb.ErrAmbiguousTimeout)
	if waited := time.Since(began); waited < 1500*time.Millisecond {
		t.Errorf("the durable write gave up after %s, below the client's floor", waited)
	}

	node.Thaw()
	eventually(t, "what waited is applied", func() bool {
		value, _, err := get(c, "k")
		return err == nil && value == "while frozen"
	})
	wants(t, c, "other", "durable", 0)
}

// TestCancelled checks that a cancelled write may well have been applied.
func TestCancelled(t *testing.T) {
	node := startNode(t, cbnode.Options{})
	c := openCollection(t, node)
	ctx, cancel := context.WithCancel(t.Context())
	node.SetHook(cbnode.OnWrites(func(cbnode.Request) cbnode.Action {
		cancel()
		return cbnode.Action{Fault: cbnode.DropAnswer}
	}))
	_, err := c.Upsert("k", []byte("v"), &gocb.UpsertOptions{Transcoder: raw, Context: ctx})
	wantsError(t, err, gocb.ErrRequestCanceled)
	if errors.Is(err, context.Canceled) {
		t.Error("the client reports the context's error after all")
	}
	eventually(t, "the write is applied", func() bool {
		value, _, err := get(c, "k")
		return err == nil && value == "v"
	})
}

func TestStoppedAndBack(t *testing.T) {
	node := startNode(t, cbnode.Options{})
	c := openCollection(t, node, withHasty)
	cas := insert(t, c, "k", "v", 0)
	kv, mgmt := node.KVPort(), node.MgmtPort()

	node.Stop()
	node.Stop() // once more changes nothing
	eventually(t, "the client notices", func() bool {
		_, _, err := get(c, "k")
		return errors.Is(err, gocb.ErrTimeout)
	})
	_, err := upsert(c, "k", "never sent")
	wantsError(t, err, gocb.ErrAmbiguousTimeout)
	var timeout *gocb.TimeoutError
	if !errors.As(err, &timeout) || timeout.LastDispatchedTo != "" {
		t.Errorf("the write seems to have been sent: %v", err)
	}

	if err := node.Restart(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	eventually(t, "the client reads again", func() bool {
		_, _, err := get(c, "k")
		return err == nil
	})
	t.Logf("the client was back after %s", time.Since(began).Round(time.Millisecond))
	wants(t, c, "k", "v", cas)
	if node.KVPort() != kv || node.MgmtPort() != mgmt {
		t.Error("the node came back on other ports")
	}
	if node.Restart() == nil {
		t.Error("a running node was started")
	}
}

func TestDisconnect(t *testing.T) {
	node := startNode(t, cbnode.Options{})
	c := openCollection(t, node)
	cas := insert(t, c, "k", "v", 0)
	node.Disconnect()
	eventually(t, "the client reads again", func() bool {
		_, _, err := get(c, "k")
		return err == nil
	})
	wants(t, c, "k", "v", cas)
}

// TestFrozenComesBackFrozen also shows that a frozen node can be stopped, with requests that wait in it.
func TestFrozenComesBackFrozen(t *testing.T) {
	node := startNode(t, cbnode.Options{})
	c := openCollection(t, node)
	insert(t, c, "k", "v", 0)
	node.Freeze()
	_, err := upsert(c, "k", "lost")
	wantsError(t, err, gocb.ErrAmbiguousTimeout)
	node.Stop()
	if err := node.Restart(); err != nil {
		t.Fatal(err)
	}
	// A time-out, or, where the client finds out in that moment that its connections are gone, their loss.
	if _, _, err = get(c, "k"); err == nil {
		t.Error("a frozen node answered")
	}
	node.Thaw()
	eventually(t, "the client reads again", func() bool {
		_, _, err := get(c, "k")
		return err == nil
	})
	wants(t, c, "k", "v", 0)
}

func TestClosed(t *testing.T) {
	node := startNode(t, cbnode.Options{})
	node.Close()
	node.Close()
	node.Disconnect()
	if node.Restart() == nil {
		t.Error("a closed node was started")
	}
}

func TestPortTaken(t *testing.T) {
	node := startNode(t, cbnode.Options{})
	for name, options := range map[string]cbnode.Options{
		"documents": {KVPort: node.KVPort()}, "REST API": {MgmtPort: node.MgmtPort()},
	} {
		if other, err := cbnode.Start(options); err == nil {
			other.Close()
			t.Errorf("%s: two nodes have one port", name)
		}
	}
}

func TestCounts(t *testing.T) {
	node := startNode(t, cbnode.Options{})
	c := openCollection(t, node)
	insert(t, c, "k", "v", 0)
	for range 3 {
		wants(t, c, "k", "v", 0)
	}
	if gets, adds := node.Requests(memd.CmdGet), node.Requests(memd.CmdAdd); gets != 3 || adds != 1 {
		t.Errorf("%d reads and %d inserts arrived, want 3 and 1", gets, adds)
	}
	if n := node.Documents(); n != 1 {
		t.Errorf("the node has %d documents, want 1", n)
	}
}
