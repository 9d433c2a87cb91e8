package sessions

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestFiguresOfKnownTimes(t *testing.T) {
	s := newStats()
	for ms := range 100 {
		s.record(refresh, time.Duration(ms+1)*time.Millisecond, nil)
	}
	got := s.report(2*time.Second, false).Operations[refresh]
	if got.Count != 100 || got.Mean != 50.5 || got.Max != 100 {
		t.Errorf("%+v", got)
	}
	if want := math.Sqrt(100 * 101 / 12.0); math.Abs(got.Dev-want) > 1e-9 { // of 1…n: n(n+1)/12
		t.Errorf("deviation %v, want %v", got.Dev, want)
	}
	if math.Abs(got.P50-50) > 0.05 || math.Abs(got.P99-99) > 0.1 {
		t.Errorf("quantiles %v and %v, want 50 and 99", got.P50, got.P99)
	}
}

func TestOneTimeIsAllOfItsFigures(t *testing.T) {
	s := newStats()
	s.record(update, 19_503*time.Microsecond+321, nil)
	got := s.report(time.Second, false).Operations[update]
	if got.Dev != 0 || got.P50 > got.Max || got.P99 > got.Max || got.Mean != got.Max {
		t.Errorf("%+v", got)
	}
}

func TestTimesBeyondTheHistogramStillCount(t *testing.T) {
	s := newStats()
	s.record(update, 0, nil)
	s.record(update, 2*longest, nil)
	got := s.report(time.Second, false).Operations[update]
	if got.Count != 2 || got.Max != float64((2*longest).Milliseconds()) {
		t.Errorf("%+v", got)
	}
}

func TestTheTextReport(t *testing.T) {
	s := newStats()
	s.record(create, 2*time.Millisecond, nil)
	s.record(refresh, time.Millisecond, nil)
	s.record(refresh, 3*time.Millisecond, nil)
	s.record(update, time.Millisecond, &failure{kindStale, "n2 answered version 1 to a request with version 2"})
	var text strings.Builder
	if err := s.report(2*time.Second, false).writeText(&text); err != nil {
		t.Fatal(err)
	}
	want := `ERRORS: 1
STALE: 1
  for example UPDATE STALE: n2 answered version 1 to a request with version 2
CREATE count: 1 mean: 2.000 dev: 0.000 p50: 2.000 p99: 2.000 max: 2.000
REFRESH count: 2 mean: 2.000 dev: 1.414 p50: 1.000 p99: 3.000 max: 3.000
2 operations per second, all four kinds and failed ones together, over 2.0 s (times in ms)
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
}

func TestOnlyTheFirstFailuresAreKeptInWords(t *testing.T) {
	s := newStats()
	for range 1000 {
		s.record(update, time.Millisecond, &failure{"STATUS 500", "again"})
	}
	got := s.report(time.Second, false)
	if got.Errors != 1000 || got.Kinds["STATUS 500"] != 1000 || len(got.Samples) != maxSamples || len(got.Operations) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestAReportOfNothingIsStillJSON(t *testing.T) {
	var text strings.Builder
	if err := newStats().report(0, true).writeJSON(&text); err != nil || !strings.Contains(text.String(), `"interrupted":true`) {
		t.Errorf("%s, %v", text.String(), err)
	}
}
