package caves_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"

	"klatch/test/caves"
	"klatch/test/cbnode"
)

const patience = 20 * time.Second

// TestAgreement runs one script on our node and on gocaves and wants the same outcomes, so that the tests
// of the driver do not only check our own beliefs.
func TestAgreement(t *testing.T) {
	node, err := cbnode.Start(cbnode.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.Close)
	ours, theirs := script(t, node.URL()), script(t, caves.Start(t))
	t.Logf("%d outcomes:\n%s", len(ours), strings.Join(ours, "\n"))
	if !slices.Equal(ours, theirs) {
		t.Errorf("our node:\n%s\n\ngocaves:\n%s", strings.Join(ours, "\n"), strings.Join(theirs, "\n"))
	}
}

// outcome is the kind of an error in a word.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	for _, kind := range []error{
		gocb.ErrDocumentNotFound, gocb.ErrDocumentExists, gocb.ErrCasMismatch, gocb.ErrDocumentLocked,
		gocb.ErrScopeExists, gocb.ErrCollectionExists,
	} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return fmt.Sprintf("something else: %v", err)
}

// hasty never retries.
type hasty struct{}

func (hasty) RetryAfter(gocb.RetryRequest, gocb.RetryReason) gocb.RetryAction {
	return &gocb.NoRetryRetryAction{}
}

// openBucket returns the ready bucket of a URL.
func openBucket(t *testing.T, url string) *gocb.Bucket {
	t.Helper()
	slash := strings.LastIndex(url, "/")
	cluster, err := gocb.Connect(url[:slash], gocb.ClusterOptions{
		Username: "Administrator", Password: "password", RetryStrategy: hasty{},
		TimeoutsConfig:    gocb.TimeoutsConfig{KVTimeout: patience, ManagementTimeout: patience},
		CompressionConfig: gocb.CompressionConfig{Disabled: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.Close(nil) })
	bucket := cluster.Bucket(url[slash+1:])
	err = bucket.WaitUntilReady(patience, &gocb.WaitUntilReadyOptions{
		ServiceTypes: []gocb.ServiceType{gocb.ServiceTypeKeyValue}, RetryStrategy: gocb.NewBestEffortRetryStrategy(nil),
	})
	if err != nil {
		t.Fatalf("%s is not ready: %v", url, err)
	}
	return bucket
}

// script does one thing after another and returns what came of each.
func script(t *testing.T, url string) (outcomes []string) {
	t.Helper()
	bucket := openBucket(t, url)
	raw := gocb.NewRawBinaryTranscoder()
	note := func(what string, err error) { outcomes = append(outcomes, what+": "+outcome(err)) }

	manager := bucket.CollectionsV2()
	note("create a scope", manager.CreateScope("klatch", nil))
	note("create it again", manager.CreateScope("klatch", nil))
	note("create a collection", manager.CreateCollection("klatch", "sessions", nil, nil))
	note("create it again", manager.CreateCollection("klatch", "sessions", nil, nil))

	for _, c := range []*gocb.Collection{bucket.DefaultCollection(), bucket.Scope("klatch").Collection("sessions")} {
		var last gocb.Cas
		mutation := func(what string) func(*gocb.MutationResult, error) {
			return func(result *gocb.MutationResult, err error) {
				note(what, err)
				if err == nil {
					note(what+", new CAS", map[bool]error{false: errors.New("the CAS came again")}[result.Cas() != last])
					last = result.Cas()
				}
			}
		}
		read := func(what string) func(*gocb.GetResult, error) {
			return func(result *gocb.GetResult, err error) {
				if err != nil {
					note(what, err)
					return
				}
				var value []byte
				note(what, result.Content(&value))
				life := "no known end"
				if at := result.ExpiryTime(); !at.IsZero() {
					life = time.Until(at).Round(time.Minute).String()
				}
				outcomes = append(outcomes, fmt.Sprintf("%s: %q, %s, the CAS of the write: %t", what, value, life, result.Cas() == last))
			}
		}
		value := []byte("\x00binary\xff")
		read("read nothing")(c.Get("k", &gocb.GetOptions{Transcoder: raw}))
		mutation("replace nothing")(c.Replace("k", value, &gocb.ReplaceOptions{Transcoder: raw}))
		mutation("replace nothing by CAS")(c.Replace("k", value, &gocb.ReplaceOptions{Transcoder: raw, Cas: 1}))
		mutation("remove nothing")(c.Remove("k", nil))
		mutation("touch nothing")(c.Touch("k", time.Hour, nil))
		mutation("insert")(c.Insert("k", value, &gocb.InsertOptions{Transcoder: raw, Expiry: time.Hour}))
		first := last
		read("read")(c.Get("k", &gocb.GetOptions{Transcoder: raw}))
		read("read with expiry")(c.Get("k", &gocb.GetOptions{Transcoder: raw, WithExpiry: true}))
		mutation("insert again")(c.Insert("k", value, &gocb.InsertOptions{Transcoder: raw}))
		mutation("replace by CAS")(c.Replace("k", value, &gocb.ReplaceOptions{Transcoder: raw, Cas: first, Expiry: 31 * 24 * time.Hour}))
		mutation("replace by old CAS")(c.Replace("k", value, &gocb.ReplaceOptions{Transcoder: raw, Cas: first}))
		read("read the long expiry")(c.Get("k", &gocb.GetOptions{Transcoder: raw, WithExpiry: true}))
		mutation("touch")(c.Touch("k", 2*time.Hour, nil))
		read("read and touch")(c.GetAndTouch("k", 3*time.Hour, &gocb.GetAndTouchOptions{Transcoder: raw}))
		mutation("durable write")(c.Upsert("k", value, &gocb.UpsertOptions{Transcoder: raw, DurabilityLevel: gocb.DurabilityLevelMajority}))
		mutation("write without expiry")(c.Upsert("k", value, &gocb.UpsertOptions{Transcoder: raw}))
		read("read what has none")(c.Get("k", &gocb.GetOptions{Transcoder: raw, WithExpiry: true}))
		before := last
		read("lock")(c.GetAndLock("k", 15*time.Second, &gocb.GetAndLockOptions{Transcoder: raw}))
		mutation("write what is locked")(c.Upsert("k", value, &gocb.UpsertOptions{Transcoder: raw}))
		mutation("replace what is locked")(c.Replace("k", value, &gocb.ReplaceOptions{Transcoder: raw, Cas: before}))
		mutation("remove what is locked")(c.Remove("k", nil))
		mutation("insert what is locked")(c.Insert("k", value, &gocb.InsertOptions{Transcoder: raw}))
		note("unlock with another CAS", c.Unlock("k", before, nil))
		for _, key := range []string{"k", "missing"} {
			result, err := c.Exists(key, nil)
			note("exists "+key, err)
			outcomes = append(outcomes, fmt.Sprintf("exists %s: %t", key, err == nil && result.Exists()))
		}
		mutation("insert another")(c.Insert("other", value, &gocb.InsertOptions{Transcoder: raw}))
		mutation("remove by old CAS")(c.Remove("other", &gocb.RemoveOptions{Cas: first}))
		mutation("remove by CAS")(c.Remove("other", &gocb.RemoveOptions{Cas: last}))
		read("read what was removed")(c.Get("other", &gocb.GetOptions{Transcoder: raw}))
	}
	return outcomes
}
