package node

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics returns the handler of /metrics. The figures are those that the parts count anyway; they are read when
// somebody asks.
func (n *Node) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collector{n})
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

var (
	storeOperations = prometheus.NewDesc("klatch_store_operations_total", "Operations on the store, by verb and outcome.", []string{"verb", "outcome"}, nil)
	storeUp         = prometheus.NewDesc("klatch_store_up", "Whether the store answers: 1 or 0.", nil, nil)
	nearReads       = prometheus.NewDesc("klatch_near_reads_total", "Reads of the near cache: hits, and misses that needed the store; joined ones shared a read under way.", []string{"result"}, nil)
	nearInvalidated = prometheus.NewDesc("klatch_near_invalidated_total", "Copies dropped by news.", nil, nil)
	nearUnkept      = prometheus.NewDesc("klatch_near_unkept_total", "Results of the store not kept because newer news had come.", nil, nil)
	nearFences      = prometheus.NewDesc("klatch_near_fences_total", "Times that the fence was raised.", nil, nil)
	nearBytes       = prometheus.NewDesc("klatch_near_bytes", "Memory of all copies.", nil, nil)
	nearCopies      = prometheus.NewDesc("klatch_near_copies", "Number of copies.", nil, nil)
	stampsTotal     = prometheus.NewDesc("klatch_stamps_total", "Stamps: raised here, applied from peers, folded when there were too many.", []string{"event"}, nil)
	stampsReads     = prometheus.NewDesc("klatch_stamps_reads_total", "Reads of a tenant's stamps from the store, because some may have been missed.", nil, nil)
	coherenceServed = prometheus.NewDesc("klatch_coherence_checked_total", "Copies looked at by coherence checks a time after the store was read, that would be served from memory.", []string{"after"}, nil)
	coherenceStale  = prometheus.NewDesc("klatch_coherence_stale_total", "Of those, copies older than the store was that long before. Above three seconds there should be none.", []string{"after"}, nil)
	busItems        = prometheus.NewDesc("klatch_bus_items_total", "Items of news, each once however many peers it went to.", []string{"direction"}, nil)
	busBatches      = prometheus.NewDesc("klatch_bus_batches_total", "Batches of news.", []string{"direction"}, nil)
	busDrops        = prometheus.NewDesc("klatch_bus_drops_total", "Items or arrivals that did not fit into a queue; each raises a fence.", []string{"direction"}, nil)
	busErrors       = prometheus.NewDesc("klatch_bus_errors_total", "Datagrams that were not sent, not readable, or of a kind that this release does not know.", []string{"kind"}, nil)
	busMarks        = prometheus.NewDesc("klatch_bus_marks_total", "Marks sent: how peers find lost news, and how old their knowledge is.", nil, nil)
	busGaps         = prometheus.NewDesc("klatch_bus_gaps_total", "Ranges of missing numbers that a fence covered.", nil, nil)
	busRepairs      = prometheus.NewDesc("klatch_bus_repairs_total", "Batches that were lost and came again, and how often peers were asked for some.", []string{"step"}, nil)
	busStaleness    = prometheus.NewDesc("klatch_bus_staleness_bound_seconds", "How old the knowledge of the peer heard least is: no copy that is served is staler.", nil, nil)
	busTrusted      = prometheus.NewDesc("klatch_bus_trusted", "Whether copies are served without a look at the store: 1 or 0.", nil, nil)
	busBypass       = prometheus.NewDesc("klatch_bus_bypass_seconds_total", "Time during which every read was checked against the store, because a node was not heard.", nil, nil)
	busPropagation  = prometheus.NewDesc("klatch_bus_propagation_seconds", "Time that messages take to a peer: half of the way there and back, measured by marks.", nil, nil)
	clockAhead      = prometheus.NewDesc("klatch_clock_ahead_seconds", "How far this node's clock is ahead of the median of all members', with two peers or more.", nil, nil)
	busFences       = prometheus.NewDesc("klatch_bus_fences_total", "Fences that the bus raised, by reason.", []string{"reason"}, nil)
	busStrangers    = prometheus.NewDesc("klatch_bus_strangers_total", "Messages refused as those of no member, by reason: the label of another cluster, a key that is not installed, the name of no klatch node, a release too far away, unreadable.", []string{"reason"}, nil)
	members         = prometheus.NewDesc("klatch_cluster_members", "Members of the cluster, by state.", []string{"state"}, nil)
)

// collector reads the counts of a node's parts.
type collector struct{ node *Node }

// Describe implements prometheus.Collector. Describing nothing makes the collector unchecked, which suits labels
// that come and go.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	counter := func(desc *prometheus.Desc, n uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(desc *prometheus.Desc, n float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, n, labels...)
	}
	for _, count := range c.node.observed.Counts() {
		counter(storeOperations, count.N, count.Verb, count.Outcome)
	}
	gauge(storeUp, oneIf(!c.node.observed.Down()))

	near := c.node.sessions.Stats()
	counter(nearReads, near.Hits, "hit")
	counter(nearReads, near.Misses-near.Joins, "miss")
	counter(nearReads, near.Joins, "joined")
	counter(nearInvalidated, near.Invalidated)
	counter(nearUnkept, near.Unkept)
	counter(nearFences, near.Fences)
	gauge(nearBytes, float64(near.Bytes))
	gauge(nearCopies, float64(near.Copies))

	stamps := c.node.stamps.Stats()
	counter(stampsTotal, stamps.Raised, "raised")
	counter(stampsTotal, stamps.Applied, "applied")
	counter(stampsTotal, stamps.Folds, "folded")
	counter(stampsReads, stamps.Reads)

	for after, looks := range c.node.checker.Stats() {
		counter(coherenceServed, uint64(looks.Served), after.String())
		counter(coherenceStale, uint64(looks.Stale), after.String())
	}

	states := map[string]int{}
	for _, m := range c.node.cluster.Members() {
		states[m.StateName()]++
	}
	for state, n := range states {
		gauge(members, float64(n), state)
	}
	bus := c.node.cluster.Stats()
	counter(busItems, bus.ItemsSent, "sent")
	counter(busItems, bus.ItemsReceived, "received")
	counter(busBatches, bus.BatchesSent, "sent")
	counter(busBatches, bus.BatchesReceived, "received")
	counter(busDrops, bus.SendDrops, "send")
	counter(busDrops, bus.ReceiveDrops, "receive")
	counter(busErrors, bus.SendErrors, "send")
	counter(busErrors, bus.DecodeErrors, "decode")
	counter(busErrors, bus.Unknown, "unknown")
	counter(busMarks, bus.MarksSent)
	counter(busGaps, bus.Gaps)
	counter(busRepairs, bus.RepairsAsked, "asked")
	counter(busRepairs, bus.Repairs, "done")
	gauge(busStaleness, bus.Staleness.Seconds())
	gauge(busTrusted, oneIf(bus.Trusted))
	out <- prometheus.MustNewConstMetric(busBypass, prometheus.CounterValue, bus.Bypassed.Seconds())
	out <- prometheus.MustNewConstHistogram(busPropagation, bus.Propagation.Count, bus.Propagation.Sum.Seconds(), seconds(bus.Propagation.Buckets))
	if ahead, known := c.node.cluster.Clock(); known {
		gauge(clockAhead, ahead.Seconds())
	}
	for reason, n := range bus.Fences {
		counter(busFences, n, reason)
	}
	for reason, n := range bus.Strangers {
		counter(busStrangers, n, reason)
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// seconds turns a histogram's bounds into what Prometheus calls them.
func seconds(buckets map[time.Duration]uint64) map[float64]uint64 {
	named := make(map[float64]uint64, len(buckets))
	for bound, n := range buckets {
		named[bound.Seconds()] = n
	}
	return named
}
