package cbnode_test

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"

	"klatch/test/cbnode"
)

// TestStorm counts a number up by CAS while everything goes wrong with the node. Its guarantee: the number
// is at least what was acknowledged and at most what was tried.
func TestStorm(t *testing.T) {
	node := startNode(t, cbnode.Options{})
	var tried, acknowledged, failed atomic.Int64
	c := openCollection(t, node)
	if _, err := c.Insert("n", make([]byte, 8), &gocb.InsertOptions{Transcoder: raw}); err != nil {
		t.Fatal(err)
	}
	faults := []cbnode.Fault{cbnode.DropAnswer, cbnode.DropRequest, cbnode.CloseAfter, cbnode.CloseBefore, cbnode.Refuse}
	node.SetHook(cbnode.OnWrites(func(cbnode.Request) cbnode.Action {
		if rand.IntN(4) > 0 {
			return cbnode.Action{}
		}
		return cbnode.Action{Fault: faults[rand.IntN(len(faults))], After: time.Duration(rand.IntN(3)) * time.Millisecond}
	}))

	calm := make(chan struct{})
	var running sync.WaitGroup
	for range 4 {
		collection := openCollection(t, node, func(o *gocb.ClusterOptions) { o.TimeoutsConfig.KVTimeout = 50 * time.Millisecond })
		running.Go(func() {
			for {
				select {
				case <-calm:
					return
				default:
				}
				value, cas, err := get(collection, "n")
				if err != nil {
					failed.Add(1)
					continue
				}
				next := binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64([]byte(value))+1)
				tried.Add(1)
				if _, err := replace(collection, "n", string(next), cas); err == nil {
					acknowledged.Add(1)
				}
			}
		})
	}
	more := func(count *atomic.Int64, n int64) {
		t.Helper()
		before := count.Load()
		eventually(t, "the clients go on", func() bool { return count.Load() >= before+n })
	}
	more(&acknowledged, 20)
	node.Disconnect()
	more(&acknowledged, 20)
	node.Freeze()
	more(&failed, 4)
	node.Thaw()
	more(&acknowledged, 20)
	node.Stop()
	more(&failed, 4)
	if err := node.Restart(); err != nil {
		t.Error(err)
	}
	more(&acknowledged, 20)
	close(calm)
	running.Wait()

	node.SetHook(nil)
	var value string
	eventually(t, "the number can be read", func() bool {
		var err error
		value, _, err = get(c, "n")
		return err == nil
	})
	n := int64(binary.BigEndian.Uint64([]byte(value)))
	t.Logf("%d tried, %d acknowledged, %d applied", tried.Load(), acknowledged.Load(), n)
	if n < acknowledged.Load() || n > tried.Load() {
		t.Errorf("the number is %d after %d acknowledged and %d tried increments", n, acknowledged.Load(), tried.Load())
	}
}
