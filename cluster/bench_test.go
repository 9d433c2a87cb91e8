package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"klatch/proto"
)

// arrivals is a Handler that tells when something has been applied.
type arrivals chan arrived

type arrived struct {
	version proto.Version
	at      time.Time
}

func (a arrivals) Apply(_ string, item proto.Item) {
	a <- arrived{item.(proto.Invalidate).Version, time.Now()}
}
func (a arrivals) Fence(string) {}

// benchCluster starts one node that publishes and peers that listen, over loopback, and loses a part of all packets.
func benchCluster(b *testing.B, peers int, loss float64, keys [][]byte) (publisher *testNode, applied arrivals) {
	b.Helper()
	applied = make(arrivals, 1<<16)
	options := func(o *Options) {
		o.Keys = keys
		o.ProbeInterval, o.SyncInterval = time.Second, 5*time.Second // as in production
		if loss > 0 {
			transport := newFaultyTransport(b)
			transport.lose = func([]byte) bool { return rand.Float64() < loss }
			o.Transport = transport
		}
	}
	publisher = startNode(b, "n0", options)
	all := []*testNode{publisher}
	for i := range peers {
		all = append(all, startNode(b, fmt.Sprint("n", i+1), func(o *Options) {
			options(o)
			seeds(publisher)(o)
			o.Handler = applied
		}))
	}
	introduced(b, all...)
	return publisher, applied
}

var benchKey = proto.NewKey("tenant", proto.KindSession, "0123456789abcdefghijklmnopqrstu")

// forms are with and without encryption.
var forms = []struct {
	name string
	keys [][]byte
}{
	{"plain", nil},
	{"encrypted", [][]byte{[]byte("0123456789abcdef0123456789abcdef")}},
}

// BenchmarkPropagation measures the time from Publish on one node until peers have applied the news: for each of
// them, and for the last. What is lost and then covered by a fence is counted as missed.
func BenchmarkPropagation(b *testing.B) {
	for _, form := range forms {
		for _, peers := range []int{2, 9, 29} {
			for _, loss := range []float64{0, 0.2} {
				b.Run(fmt.Sprintf("%s/peers=%d/loss=%.0f%%", form.name, peers, 100*loss), func(b *testing.B) {
					publisher, applied := benchCluster(b, peers, loss, form.keys)
					var each, last []time.Duration
					missed := 0
					var version proto.Version
					for b.Loop() {
						version++
						begun := time.Now()
						publisher.Publish(proto.Invalidate{Key: benchKey, Version: version})
						delays := applied.await(version, peers, begun)
						each = append(each, delays...)
						if missed += peers - len(delays); len(delays) == peers {
							last = append(last, slices.Max(delays))
						}
					}
					report(b, "each", each)
					report(b, "last", last)
					b.ReportMetric(float64(missed), "missed")
				})
			}
		}
	}
}

// await returns after which times peers have applied a version, of those that have within a second.
func (a arrivals) await(version proto.Version, peers int, begun time.Time) (delays []time.Duration) {
	timeout := time.NewTimer(time.Second)
	defer timeout.Stop()
	for len(delays) < peers {
		select {
		case got := <-a:
			if got.version == version {
				delays = append(delays, got.at.Sub(begun))
			}
		case <-timeout.C:
			return delays
		}
	}
	return delays
}

func report(b *testing.B, what string, delays []time.Duration) {
	if len(delays) == 0 {
		return
	}
	slices.Sort(delays)
	b.ReportMetric(float64(delays[len(delays)/2].Microseconds()), what+"-p50-µs")
	b.ReportMetric(float64(delays[len(delays)*99/100].Microseconds()), what+"-p99-µs")
}

// BenchmarkNewsCost measures the processor time of the whole process for one item and one peer, sending and receiving
// together: with items that leave one by one, and with many that share a datagram. The marks of the time are among it.
func BenchmarkNewsCost(b *testing.B) {
	for _, form := range forms {
		for _, peers := range []int{2, 9} {
			for _, batch := range []int{1, 10, 100} {
				b.Run(fmt.Sprintf("%s/peers=%d/batch=%d", form.name, peers, batch), func(b *testing.B) {
					publisher, applied := benchCluster(b, peers, 0, form.keys)
					items := make([]proto.Item, batch)
					var version proto.Version
					begun := processorTime(b)
					for b.Loop() {
						version++
						for i := range items {
							items[i] = proto.Invalidate{Key: benchKey, Version: version}
						}
						publisher.Publish(items...)
						applied.await(version, peers*batch, time.Now())
					}
					spent := processorTime(b) - begun
					b.ReportMetric(float64(spent.Microseconds())/float64(b.N*batch*peers), "cpu-µs/item/peer")
				})
			}
		}
	}
}

// processorTime returns what the process has used so far.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func BenchmarkPublishAlone(b *testing.B) {
	n := startNode(b, "a", nil)
	item := proto.Item(invalidate("x"))
	b.ReportAllocs()
	for b.Loop() {
		n.Publish(item)
	}
}

func BenchmarkTrackerInOrder(b *testing.B) {
	tr := trackerFrom(0)
	seq := uint64(0)
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		seq++
		tr.observe(seq, now)
	}
}
