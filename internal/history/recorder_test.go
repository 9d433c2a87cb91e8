package history_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"klatch/internal/history"
)

func TestRecorderKeepsTheOrderAlsoWhereTimeStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := history.NewRecorder(time.Now)
		first := recorder.Begin(history.Operation{Client: "a", Key: "k", Kind: history.Create, Value: "x"})
		overlapping := recorder.Begin(history.Operation{Client: "b", Key: "k", Kind: history.Read, Level: history.Latest})
		first.End(history.Answer{Outcome: history.OK, Version: 1})
		after := recorder.Begin(history.Operation{Client: "a", Key: "k", Kind: history.Delete})
		overlapping.End(history.Answer{Outcome: history.OK, Version: 1, Value: "x"})
		overlapping.End(history.Answer{Outcome: history.Failed})
		time.Sleep(time.Second)
		after.End(history.Answer{Outcome: history.OK, Unconfirmed: []string{"n2"}, Note: "one is late"})
		recorder.Begin(history.Operation{Client: "a", Key: "k", Kind: history.Read})

		want := history.History{
			{ID: 0, Client: "a", Key: "k", Kind: history.Create, Value: "x", Start: 1, End: 3, Outcome: history.OK, Version: 1},
			{ID: 1, Client: "b", Key: "k", Kind: history.Read, Level: history.Latest, Start: 2, End: 5, Outcome: history.OK, Version: 1, Value: "x"},
			{ID: 2, Client: "a", Key: "k", Kind: history.Delete, Start: 4, End: time.Second, Outcome: history.OK, Unconfirmed: []string{"n2"}, Note: "one is late"},
			{ID: 3, Client: "a", Key: "k", Kind: history.Read, Start: time.Second + 1, Outcome: history.Unknown},
		}
		if got := recorder.History(); !reflect.DeepEqual(got, want) {
			t.Errorf("got\n%v\nwant\n%v", got, want)
		}
	})
}

func TestRecorderIsSafeForConcurrentUse(t *testing.T) {
	recorder := history.NewRecorder(time.Now)
	var clients sync.WaitGroup
	for c := range 8 {
		clients.Go(func() {
			for range 100 {
				recorder.Begin(history.Operation{Client: fmt.Sprint(c), Kind: history.Read}).End(history.Answer{Outcome: history.Failed})
			}
		})
	}
	clients.Wait()
	seen := map[time.Duration]bool{}
	for i, o := range recorder.History() {
		if o.ID != i || o.Start >= o.End || seen[o.Start] || seen[o.End] {
			t.Fatalf("operation %d is %v", i, o)
		}
		seen[o.Start], seen[o.End] = true, true
	}
	if len(seen) != 1600 {
		t.Errorf("%d times of 800 operations", len(seen))
	}
}

func TestDumpAndLoad(t *testing.T) {
	h := registerHistory(1, 50)
	var dump bytes.Buffer
	if err := h.Dump(&dump); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(dump.String(), "\n"); lines != len(h) {
		t.Errorf("%d lines for %d operations", lines, len(h))
	}
	loaded, err := history.Load(&dump)
	if err != nil || !reflect.DeepEqual(loaded, h) {
		t.Errorf("got %v, %v", loaded, err)
	}
	for _, broken := range []string{"{", `{"id":1,"lease":"x"}`, `"id"`} {
		if _, err := history.Load(strings.NewReader(broken)); err == nil {
			t.Errorf("%s was loaded", broken)
		}
	}
}

func TestViolationsAreReadableAndBounded(t *testing.T) {
	h := history.History{create(0, 1, rev(1)), remove(2, 3, unconfirmed("n2", "n3"))}
	for i := range 100 {
		key := fmt.Sprint("k", i)
		h = append(h, create(0, 1, on(key), rev(1)), remove(2, 3, on(key)), read(history.Session, 4, 5, on(key), at("n4"), token(1), rev(1)))
	}
	err := history.Check(h, history.NoResurrection{})
	var violations history.Violations
	if !errors.As(err, &violations) || len(violations) != history.MaxViolations {
		t.Fatalf("got %v", err)
	}
	want := `no resurrection: the record was found 1ms after its delete had been acknowledged
	#0 c at n1: delete k0 -> ok [2ms to 3ms]
	#0 c at n4: read k0 level=session token=1 value=value 1 -> ok version=1 [4ms to 5ms]`
	if got := violations[0].String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
