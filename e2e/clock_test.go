//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A node whose clock is wrong says so and takes no traffic from balancers; what is sent to it all the same loses
// nothing, and its versions do not carry its time to the others.
func TestANodeWithAWrongClockIsNotReadyAndHarmsNobody(t *testing.T) {
	for _, off := range []time.Duration{5 * time.Second, -5 * time.Second} {
		t.Run(off.String(), func(t *testing.T) {
			t.Parallel()
			cluster := newNodes(t, 3)
			wrong := cluster[2]
			wrong.clock = off
			storeURL := "sqlite:" + filepath.Join(t.TempDir(), "klatch.db")
			for _, n := range cluster {
				n.start(cluster[0].gossip, storeURL)
			}
			t.Cleanup(cluster.stop)
			cluster[0].waitReady()
			cluster[1].waitReady()
			for _, n := range cluster {
				n.waitTrusted()
			}
			eventually(t, wrong.clockOff)

			const each = 20
			path, _ := cluster[0].create(`{"n":0}`)
			var writers sync.WaitGroup
			for _, n := range cluster {
				writers.Go(func() {
					for range each {
						if err := n.increment(path); err != nil {
							t.Errorf("%s: %v", n.name, err)
						}
					}
				})
			}
			writers.Wait()
			for _, n := range cluster {
				if got := n.do(http.MethodGet, path+"?consistency=latest", "", ok).attribute("n"); got != fmt.Sprint(3*each) {
					t.Errorf("%s counts %s, want %d", n.name, got, 3*each)
				}
			}

			_, fresh := cluster[0].create(`{}`)
			var version uint64
			if err := json.Unmarshal([]byte(fresh.session.Version), &version); err != nil {
				t.Fatal(err)
			}
			if ahead := time.Until(time.UnixMilli(int64(version >> 16))); ahead > time.Second {
				t.Errorf("%s gives out versions %s ahead of its clock", cluster[0].name, ahead)
			}
		})
	}
}

// clockOff is nil if the node says that it is not ready because of its clock.
func (n *node) clockOff() error {
	response, err := http.Get("http://" + n.api + "/readyz")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "clock-off") {
		return fmt.Errorf("%s answers %s: %s", n.name, response.Status, text)
	}
	return nil
}

// increment adds one to attribute n of a session: read, add, save if unchanged, until it was.
func (n *node) increment(path string) error {
	for range 1000 {
		got, err := request(n.t.Context(), http.MethodGet, "http://"+n.api+path, "")
		if err != nil || got.status != http.StatusOK {
			return fmt.Errorf("read: %+v, %w", got, err)
		}
		var count int
		if err := json.Unmarshal([]byte(got.attribute("n")), &count); err != nil {
			return err
		}
		got, err = request(n.t.Context(), http.MethodPatch, "http://"+n.api+path, fmt.Sprintf(`{"n":%d}`, count+1), "If-Match: "+got.etag)
		switch {
		case err != nil:
			return err
		case got.status == http.StatusOK:
			return nil
		case got.status != http.StatusPreconditionFailed:
			return fmt.Errorf("save: %+v", got)
		}
	}
	return errors.New("lost to other writers a thousand times")
}
