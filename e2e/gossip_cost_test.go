//go:build e2e && gossipcost

package e2e

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

var pairs = flag.Int("pairs", 10, "pairs of runs that TestGossipCost makes of each load")

// gossipRun is what one run of the load tool on each of three nodes has shown together.
type gossipRun struct {
	perSecond float64 // operations of all
	meanMS    float64 // of an operation
	cpuMicros float64 // processor time of the nodes for an operation, that of the load tool not among it
}

// TestGossipCost compares three nodes that tell each other what changed with three of a build that does not, on a store
// of their own each time. Each node has its own clients, as behind a sticky balancer, since nothing else is right
// without gossip. The runs of a pair follow each other, which one first changes, and the ratio is taken within the pair.
func TestGossipCost(t *testing.T) {
	for _, load := range []struct {
		name string
		args []string
	}{
		{"full load", []string{"-t", "8", "-i", "40", "-ci", "50", "-ur", "50"}},
		{"think time of 5 ms", []string{"-t", "8", "-i", "10", "-ci", "50", "-ur", "50", "-ts", "5"}},
	} {
		t.Run(load.name, func(t *testing.T) {
			var throughput, latency, processor []float64
			var with, without gossipRun
			for i := range *pairs {
				if i%2 == 0 {
					without, with = runGossip(t, "klatch-nogossip", load.args), runGossip(t, "klatch", load.args)
				} else {
					with, without = runGossip(t, "klatch", load.args), runGossip(t, "klatch-nogossip", load.args)
				}
				t.Logf("pair %d: with %+v, without %+v", i+1, with, without)
				throughput = append(throughput, with.perSecond/without.perSecond)
				latency = append(latency, with.meanMS/without.meanMS)
				processor = append(processor, with.cpuMicros/without.cpuMicros)
			}
			t.Logf("with gossip against without, median (lowest to highest) of %d pairs: operations per second %s, mean time %s, processor time per operation %s",
				*pairs, spread(throughput), spread(latency), spread(processor))
		})
	}
}

// spread describes ratios.
func spread(ratios []float64) string {
	slices.Sort(ratios)
	n := len(ratios)
	return fmt.Sprintf("%.3f (%.3f to %.3f)", (ratios[(n-1)/2]+ratios[n/2])/2, ratios[0], ratios[n-1])
}

func runGossip(t *testing.T, build string, args []string) (run gossipRun) {
	t.Helper()
	withBinary(t, build, func() {
		cluster := newNodes(t, 3)
		store := "sqlite:" + filepath.Join(t.TempDir(), "klatch.db")
		for _, n := range cluster {
			seed := cluster[0].gossip
			if build == "klatch-nogossip" {
				seed = n.gossip
			}
			n.start(seed, store)
		}
		defer cluster.stop()
		for _, n := range cluster {
			n.waitReady()
			if build != "klatch-nogossip" {
				n.waitMembers(3)
				n.waitTrusted()
			}
		}
		before := cluster.processorSeconds()
		var operations int
		var mu sync.Mutex // guards operations and run
		var running sync.WaitGroup
		for _, n := range cluster {
			running.Go(func() {
				report := runLoad(t, n.app, args...)
				mu.Lock()
				defer mu.Unlock()
				for _, o := range report.Operations {
					operations += o.Count
					run.meanMS += o.MeanMs * float64(o.Count)
				}
				run.perSecond += report.PerSecond
			})
		}
		running.Wait()
		run.meanMS /= float64(operations)
		run.cpuMicros = 1e6 * (cluster.processorSeconds() - before) / float64(operations)
	})
	return run
}

// withBinary runs f with nodes of another build.
func withBinary(t *testing.T, build string, f func()) {
	t.Helper()
	before := binary
	defer func() { binary = before }()
	binary = filepath.Join(filepath.Dir(binary), build)
	f()
}

// processorSeconds returns what the processes have used so far.
func (all nodes) processorSeconds() (sum float64) {
	for _, n := range all {
		for line := range strings.SplitSeq(n.metrics(), "\n") {
			if text, ok := strings.CutPrefix(line, "process_cpu_seconds_total "); ok {
				seconds, err := strconv.ParseFloat(text, 64)
				if err != nil {
					n.t.Fatal(err)
				}
				sum += seconds
			}
		}
	}
	return sum
}
