package sessions

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// stats collects what a run has measured.
type stats struct {
	mu         sync.Mutex // guards the rest
	operations map[operation]*series
	kinds      map[string]int
	samples    []string // the first failures, in words
	failures   int
	done       int
}

const (
	maxSamples = 5
	longest    = 10 * time.Minute // that the histograms can hold, far beyond the time-out of a request
)

// series are the times of one kind of operation.
type series struct {
	count    int
	mean, m2 float64                 // in ms, by Welford's method
	max      float64                 // in ms
	times    *hdrhistogram.Histogram // in µs
}

func newStats() *stats {
	s := &stats{operations: map[operation]*series{}, kinds: map[string]int{}}
	for _, op := range allOperations {
		s.operations[op] = &series{times: hdrhistogram.New(1, longest.Microseconds(), 3)}
	}
	return s
}

func (s *stats) record(op operation, took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done++
	if err != nil {
		kind := "OTHER"
		if f := (*failure)(nil); errors.As(err, &f) {
			kind = f.kind
		}
		s.failures++
		s.kinds[kind]++
		if len(s.samples) < maxSamples {
			s.samples = append(s.samples, string(op)+" "+err.Error())
		}
		return
	}
	s.operations[op].add(took)
}

func (s *series) add(took time.Duration) {
	ms := float64(took) / float64(time.Millisecond)
	s.count++
	s.max = max(s.max, ms)
	delta := ms - s.mean
	s.mean += delta / float64(s.count)
	s.m2 += delta * (ms - s.mean)
	_ = s.times.RecordValue(min(max(took.Microseconds(), 1), longest.Microseconds())) // in range, so never refused
}

func (s *series) deviation() float64 {
	if s.count < 2 {
		return 0
	}
	return math.Sqrt(s.m2 / float64(s.count-1))
}

// quantile returns a percentile in ms. The histogram rounds up in its last digit, but never beyond the maximum.
func (s *series) quantile(percent float64) float64 {
	return min(float64(s.times.ValueAtQuantile(percent))/1000, s.max)
}

func (s *stats) progress() (done, failures int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done, s.failures
}
