package demo

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

const fast = 5 * time.Millisecond

func TestANodeThatIsNotReadyIsTakenOutAndBroughtBack(t *testing.T) {
	p, apps := startBackends(t, fast, 2)
	url := startBalancer(t, p, true)
	apps[0].notReady.Store(true)
	eventually(t, func() error {
		if name := askNode(t, url, "id~1.n1"); name != "n2" {
			return fmt.Errorf("served by %s, want n2 while n1 is not ready", name)
		}
		return nil
	})
	apps[0].notReady.Store(false)
	eventually(t, func() error {
		if name := askNode(t, url, "id~1.n1"); name != "n1" {
			return fmt.Errorf("served by %s, want n1 again", name)
		}
		return nil
	})
}

func TestANodeThatRefusesIsTakenOut(t *testing.T) {
	p, apps := startBackends(t, fast, 2)
	apps[0].server.Close()
	eventually(t, func() error {
		if p.all()[0].ready.Load() {
			return errors.New("n1 still counts as ready")
		}
		return nil
	})
}

func TestANodeThatHangsDelaysNoOthersCheck(t *testing.T) {
	p, apps := startBackends(t, fast, 1)
	release := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(hanging.Close)
	t.Cleanup(func() { close(release) })
	if err := p.add("n9", hanging.URL); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	apps[0].notReady.Store(true)
	eventually(t, func() error {
		if p.all()[0].ready.Load() {
			return errors.New("n1 still counts as ready")
		}
		return nil
	})
	if took := time.Since(begin); took >= checkTimeout {
		t.Errorf("it took %s to see that n1 is not ready", took)
	}
	p.remove("n9")
}

// A machine that is busy for a moment takes no node away, one that answers nothing for longer does.
func TestANodeIsTakenOutOnlyAfterSeveralChecksWithoutAnAnswer(t *testing.T) {
	p := newPool(fast)
	t.Cleanup(p.close)
	p.checker.Timeout = 50 * time.Millisecond
	var asked atomic.Int32
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		<-r.Context().Done()
	}))
	t.Cleanup(hanging.Close)
	if err := p.add("n1", hanging.URL); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if p.all()[0].ready.Load() {
			return errors.New("n1 still counts as ready")
		}
		return nil
	})
	if n := asked.Load(); n < patientChecks-1 { // one may have run out before it was heard
		t.Errorf("taken out after %d checks, want %d", n, patientChecks)
	}
	p.remove("n1")
}

func TestAPoolThatIsClosedTakesNoMoreNodes(t *testing.T) {
	p := newPool(fast)
	p.close()
	if err := p.add("n1", "http://127.0.0.1:1"); err != nil || len(p.all()) != 0 {
		t.Errorf("%v, %d nodes", err, len(p.all()))
	}
}
