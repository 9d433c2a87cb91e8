package sessions

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// report is what -o json prints.
type report struct {
	Errors     int                        `json:"errors"`
	Kinds      map[string]int             `json:"errorKinds"`
	Samples    []string                   `json:"errorSamples,omitempty"`
	Operations map[operation]seriesReport `json:"operations"`
	Seconds    float64                    `json:"seconds"`
	// PerSecond counts all operations, failed ones too, over the whole run, sleeps included.
	PerSecond   float64 `json:"operationsPerSecond"`
	Interrupted bool    `json:"interrupted,omitempty"`
}

type seriesReport struct {
	Count int     `json:"count"`
	Mean  float64 `json:"mean_ms"`
	Dev   float64 `json:"dev_ms"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
}

func (s *stats) report(elapsed time.Duration, interrupted bool) report {
	s.mu.Lock()
	defer s.mu.Unlock()
	elapsed = max(elapsed, time.Microsecond) // JSON has no infinite numbers
	r := report{
		Errors:      s.failures,
		Kinds:       maps.Clone(s.kinds),
		Samples:     slices.Clone(s.samples),
		Operations:  map[operation]seriesReport{},
		Seconds:     elapsed.Seconds(),
		PerSecond:   float64(s.done) / elapsed.Seconds(),
		Interrupted: interrupted,
	}
	for op, series := range s.operations {
		if series.count > 0 {
			r.Operations[op] = seriesReport{
				Count: series.count, Mean: series.mean, Dev: series.deviation(),
				P50: series.quantile(50), P99: series.quantile(99), Max: series.max,
			}
		}
	}
	return r
}

func (r report) writeJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

func (r report) writeText(w io.Writer) error {
	if r.Interrupted {
		fmt.Fprintln(w, "interrupted: the figures are those of what was done")
	}
	fmt.Fprintf(w, "ERRORS: %d\n", r.Errors)
	for _, kind := range slices.Sorted(maps.Keys(r.Kinds)) {
		fmt.Fprintf(w, "%s: %d\n", kind, r.Kinds[kind])
	}
	for _, sample := range r.Samples {
		fmt.Fprintf(w, "  for example %s\n", sample)
	}
	for _, op := range allOperations {
		if s, ok := r.Operations[op]; ok {
			fmt.Fprintf(w, "%s count: %d mean: %.3f dev: %.3f p50: %.3f p99: %.3f max: %.3f\n", op, s.Count, s.Mean, s.Dev, s.P50, s.P99, s.Max)
		}
	}
	_, err := fmt.Fprintf(w, "%.0f operations per second, all four kinds and failed ones together, over %.1f s (times in ms)\n", r.PerSecond, r.Seconds)
	return err
}
