package near

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"klatch/proto"
	"klatch/store"
	"klatch/store/memory"
)

// wire delivers what one cache publishes to the others, late and in any order.
type wire struct {
	peers   []*Cache[*note]
	pending sync.WaitGroup
}

type port struct {
	*wire
	self int
}

func (p port) Publish(items ...proto.Item) {
	for _, item := range items {
		for i, peer := range p.peers {
			if i != p.self {
				p.pending.Go(func() {
					time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
					peer.Apply(item.(proto.Invalidate))
				})
			}
		}
	}
}

func (p port) Confirm(_ context.Context, items ...proto.Item) []string {
	p.Publish(items...)
	return nil
}

func TestCopiesOfAllNodesEqualTheStoreOnceNewsHasArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backing := memory.New(memory.Options{})
		network := &wire{peers: make([]*Cache[*note], 3)}
		clock := proto.NewClock(time.Now)
		for i := range network.peers {
			var err error
			network.peers[i], err = New(Options[*note]{Store: slow{backing}, Decode: decodeNote, News: port{network, i}})
			if err != nil {
				t.Fatal(err)
			}
		}
		keys := make([]proto.Key, 4)
		for i := range keys {
			keys[i] = proto.NewKey("t", proto.KindDocument, fmt.Sprint(i))
		}
		var users sync.WaitGroup
		for range 12 {
			users.Go(func() {
				for range 200 {
					node, key := network.peers[rand.IntN(3)], keys[rand.IntN(len(keys))]
					copy, err := node.Get(t.Context(), key, Want{Level: Level(rand.IntN(3))})
					opts := store.PutOptions{CAS: store.Absent, TTL: store.Forever}
					previous := proto.Version(0)
					if err == nil {
						opts.CAS, previous = copy.CAS, copy.Value.Version
					}
					if rand.IntN(2) == 0 {
						next := at(clock.Next(previous), "x")
						if _, err := node.Put(t.Context(), key, next, next.encode(), opts, nil); err != nil && !errors.Is(err, store.ErrConflict) {
							t.Errorf("put: %v", err)
						}
					}
				}
			})
		}
		users.Wait()
		network.pending.Wait()
		synctest.Wait()
		for _, key := range keys {
			record, err := backing.Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			truth, err := decodeNote(key, record.Value)
			if err != nil {
				t.Fatal(err)
			}
			for i, node := range network.peers {
				if copy, ok := node.Peek(key); ok && copy.Value.Version != truth.Version {
					t.Errorf("node %d keeps version %d of %s, the store has %d", i, copy.Value.Version, key, truth.Version)
				}
			}
		}
		for _, node := range network.peers {
			node.Close()
		}
		if err := backing.Close(); err != nil {
			t.Error(err)
		}
	})
}

// slow takes a random time before and after each operation, so that many are under way at once.
type slow struct{ *memory.Store }

func (s slow) Get(ctx context.Context, key proto.Key) (store.Record, error) {
	time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
	defer time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
	return s.Store.Get(ctx, key)
}

func (s slow) Put(ctx context.Context, key proto.Key, value []byte, opts store.PutOptions) (store.CAS, error) {
	time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
	defer time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
	return s.Store.Put(ctx, key, value, opts)
}
