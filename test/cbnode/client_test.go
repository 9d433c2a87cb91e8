package cbnode_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"
	"go.uber.org/goleak"

	"klatch/test/cbnode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// kvTimeout bounds an operation of a test client, and patience whatever must succeed in the end.
	kvTimeout = 500 * time.Millisecond
	patience  = 20 * time.Second
	// parameters make a client notice quickly that a node is back.
	parameters = "?server_wait_backoff=100"
)

// startNode starts a node for one test.
func startNode(t *testing.T, options cbnode.Options) *cbnode.Node {
	t.Helper()
	node, err := cbnode.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.Close)
	return node
}

// hasty is the strategy that gives up where the default one would try until the deadline.
type hasty struct{}

func (hasty) RetryAfter(gocb.RetryRequest, gocb.RetryReason) gocb.RetryAction {
	return &gocb.NoRetryRetryAction{}
}

// connect connects a client, by default as the node's only user.
func connect(t *testing.T, node *cbnode.Node, change ...func(*gocb.ClusterOptions)) *gocb.Cluster {
	t.Helper()
	options := gocb.ClusterOptions{
		Username: "Administrator", Password: "password",
		TimeoutsConfig:       gocb.TimeoutsConfig{ConnectTimeout: patience, KVTimeout: kvTimeout, ManagementTimeout: patience},
		CompressionConfig:    gocb.CompressionConfig{Disabled: true},
		OrphanReporterConfig: gocb.OrphanReporterConfig{Disabled: true},
		AppTelemetryConfig:   gocb.AppTelemetryConfig{Disabled: true},
	}
	for _, each := range change {
		each(&options)
	}
	cluster, err := gocb.Connect(node.ConnectionString()+parameters, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(nil); err != nil && !errors.Is(err, gocb.ErrShutdown) {
			t.Errorf("close the client: %v", err)
		}
	})
	return cluster
}

// openBucket returns the ready bucket of a new client.
func openBucket(t *testing.T, node *cbnode.Node, change ...func(*gocb.ClusterOptions)) *gocb.Bucket {
	t.Helper()
	bucket := connect(t, node, change...).Bucket("default")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := bucket.WaitUntilReady(patience, &gocb.WaitUntilReadyOptions{ServiceTypes: []gocb.ServiceType{gocb.ServiceTypeKeyValue}, Context: ctx})
	if err != nil {
		t.Fatalf("the bucket does not become ready: %v", err)
	}
	return bucket
}

// openCollection returns the default collection of a new client.
func openCollection(t *testing.T, node *cbnode.Node, change ...func(*gocb.ClusterOptions)) *gocb.Collection {
	t.Helper()
	return openBucket(t, node, change...).DefaultCollection()
}

var raw = gocb.NewRawBinaryTranscoder()

// insert stores a document that must be new.
func insert(t *testing.T, c *gocb.Collection, key, value string, expiry time.Duration) gocb.Cas {
	t.Helper()
	result, err := c.Insert(key, []byte(value), &gocb.InsertOptions{Transcoder: raw, Expiry: expiry})
	if err != nil {
		t.Fatalf("insert %q: %v", key, err)
	}
	return result.Cas()
}

func replace(c *gocb.Collection, key, value string, cas gocb.Cas) (gocb.Cas, error) {
	result, err := c.Replace(key, []byte(value), &gocb.ReplaceOptions{Transcoder: raw, Cas: cas})
	if err != nil {
		return 0, err
	}
	return result.Cas(), nil
}

func upsert(c *gocb.Collection, key, value string) (gocb.Cas, error) {
	result, err := c.Upsert(key, []byte(value), &gocb.UpsertOptions{Transcoder: raw})
	if err != nil {
		return 0, err
	}
	return result.Cas(), nil
}

func get(c *gocb.Collection, key string) (string, gocb.Cas, error) {
	result, err := c.Get(key, &gocb.GetOptions{Transcoder: raw})
	if err != nil {
		return "", 0, err
	}
	var value []byte
	if err := result.Content(&value); err != nil {
		return "", 0, err
	}
	return string(value), result.Cas(), nil
}

// wants checks what a document holds.
func wants(t *testing.T, c *gocb.Collection, key, value string, cas gocb.Cas) {
	t.Helper()
	got, gotCAS, err := get(c, key)
	if err != nil || got != value || (cas != 0 && gotCAS != cas) {
		t.Fatalf("get %q: %.40q with CAS %d and error %v, want %.40q with CAS %d", key, got, gotCAS, err, value, cas)
	}
}

// wantsError checks the kind of an error.
func wantsError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}
