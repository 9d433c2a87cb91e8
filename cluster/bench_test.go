package cluster

import (
	"slices"
	"testing"
	"time"

	"klatch/proto"
)

// arrivalSignal is a Handler that tells when the awaited version has been applied.
type arrivalSignal struct{ applied chan proto.Version }

func (a arrivalSignal) Apply(_ string, item proto.Item) { a.applied <- item.(proto.Invalidate).Version }
func (a arrivalSignal) Fence(string)                    {}

// BenchmarkPropagation measures the time from Publish on one node until two peers have applied the news.
func BenchmarkPropagation(b *testing.B) {
	for _, bench := range []struct {
		name string
		keys [][]byte
	}{
		{"plain", nil},
		{"encrypted", [][]byte{[]byte("0123456789abcdef0123456789abcdef")}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			applied := make(chan proto.Version, 1024)
			encrypted := func(o *Options) { o.Keys = bench.keys }
			peer := func(o *Options) { encrypted(o); o.Handler = arrivalSignal{applied} }
			first := startNode(b, "a", encrypted)
			second := startNode(b, "b", func(o *Options) { peer(o); seeds(first)(o) })
			third := startNode(b, "c", func(o *Options) { peer(o); seeds(first)(o) })
			introduced(b, first, second, third)

			key := proto.NewKey("tenant", proto.KindSession, "0123456789abcdefghijklmnopqrstu")
			times := make([]time.Duration, 0, b.N)
			lost := 0
			var version proto.Version
			for b.Loop() {
				version++
				begun := time.Now()
				first.Publish(proto.Invalidate{Key: key, Version: version})
				if awaitBoth(applied, version) {
					times = append(times, time.Since(begun))
				} else {
					lost++
				}
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2]), "p50-ns")
			b.ReportMetric(float64(times[len(times)*99/100]), "p99-ns")
			b.ReportMetric(float64(lost), "lost")
		})
	}
}

func awaitBoth(applied <-chan proto.Version, version proto.Version) bool {
	timeout := time.NewTimer(time.Second)
	defer timeout.Stop()
	for peers := 0; peers < 2; {
		select {
		case v := <-applied:
			if v == version {
				peers++
			}
		case <-timeout.C:
			return false
		}
	}
	return true
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
