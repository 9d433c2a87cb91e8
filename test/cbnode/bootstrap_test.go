package cbnode_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"

	"klatch/test/cbnode"
)

// ready waits for the bucket with a strategy.
func ready(cluster *gocb.Cluster, name string, timeout time.Duration, strategy gocb.RetryStrategy) error {
	return cluster.Bucket(name).WaitUntilReady(timeout, &gocb.WaitUntilReadyOptions{
		ServiceTypes: []gocb.ServiceType{gocb.ServiceTypeKeyValue}, RetryStrategy: strategy,
	})
}

// TestRefusesStrangers checks what a client sees at start, patient or hasty.
func TestRefusesStrangers(t *testing.T) {
	node := startNode(t, cbnode.Options{})
	for _, c := range []struct {
		name, user, password, bucket string
		want                         error
	}{
		{"wrong password", "Administrator", "guess", "default", gocb.ErrAuthenticationFailure},
		{"unknown user", "Nobody", "password", "default", gocb.ErrAuthenticationFailure},
		{"unknown bucket", "Administrator", "password", "other", gocb.ErrAuthenticationFailure},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := connect(t, node, func(o *gocb.ClusterOptions) { o.Username, o.Password = c.user, c.password })
			wantsError(t, ready(cluster, c.bucket, patience, hasty{}), c.want)
			wantsError(t, ready(cluster, c.bucket, 100*time.Millisecond, nil), gocb.ErrTimeout)
		})
	}
}

func TestMechanisms(t *testing.T) {
	node := startNode(t, cbnode.Options{User: "a,b=c", Password: "pässword"})
	for _, mechanism := range []gocb.SaslMechanism{gocb.PlainSaslMechanism, gocb.ScramSha1SaslMechanism, gocb.ScramSha256SaslMechanism, gocb.ScramSha512SaslMechanism} {
		t.Run(string(mechanism), func(t *testing.T) {
			for password, want := range map[string]error{"pässword": nil, "guess": gocb.ErrAuthenticationFailure} {
				cluster := connect(t, node, func(o *gocb.ClusterOptions) {
					o.Username, o.Password = "a,b=c", password
					o.SecurityConfig.AllowedSaslMechanisms = []gocb.SaslMechanism{mechanism}
				})
				err := ready(cluster, "default", patience, hasty{})
				if want == nil && err == nil {
					continue
				}
				wantsError(t, err, want)
			}
		})
	}
}

func TestCollections(t *testing.T) {
	bucket := openBucket(t, startNode(t, cbnode.Options{}))
	manager := bucket.CollectionsV2()
	insert(t, bucket.DefaultCollection(), "k", "default", 0)

	wantsError(t, manager.CreateCollection("klatch", "sessions", nil, nil), gocb.ErrScopeNotFound)
	if err := manager.CreateScope("klatch", nil); err != nil {
		t.Fatal(err)
	}
	wantsError(t, manager.CreateScope("klatch", nil), gocb.ErrScopeExists)
	wantsError(t, manager.CreateScope("_mine", nil), gocb.ErrInvalidArgument)
	if err := manager.CreateCollection("klatch", "sessions", nil, nil); err != nil {
		t.Fatal(err)
	}
	wantsError(t, manager.CreateCollection("klatch", "sessions", nil, nil), gocb.ErrCollectionExists)

	sessions := bucket.Scope("klatch").Collection("sessions")
	_, _, err := get(sessions, "k")
	wantsError(t, err, gocb.ErrDocumentNotFound)
	insert(t, sessions, "k", "session", 0)
	wants(t, bucket.DefaultCollection(), "k", "default", 0)
	wants(t, sessions, "k", "session", 0)

	scopes, err := manager.GetAllScopes(nil)
	if err != nil || len(scopes) != 2 || scopes[1].Name != "klatch" || scopes[1].Collections[0].Name != "sessions" {
		t.Fatalf("the scopes are %+v, error %v", scopes, err)
	}

	wantsError(t, manager.DropCollection("klatch", "other", nil), gocb.ErrCollectionNotFound)
	if err := manager.DropCollection("klatch", "sessions", nil); err != nil {
		t.Fatal(err)
	}
	// The client takes a missing collection for one that is about to come, and waits.
	_, _, err = get(sessions, "k")
	wantsError(t, err, gocb.ErrTimeout)
	if err := manager.DropScope("klatch", nil); err != nil {
		t.Fatal(err)
	}
	wantsError(t, manager.DropScope("klatch", nil), gocb.ErrScopeNotFound)
}

// TestMissingCollection checks that even a hasty client waits for it, and that only the reasons tell.
func TestMissingCollection(t *testing.T) {
	bucket := openBucket(t, startNode(t, cbnode.Options{}), func(o *gocb.ClusterOptions) { o.RetryStrategy = hasty{} })
	for _, missing := range []*gocb.Collection{bucket.Scope("klatch").Collection("sessions"), bucket.Scope("_default").Collection("sessions")} {
		_, _, err := get(missing, "k")
		wantsError(t, err, gocb.ErrUnambiguousTimeout)
		var timeout *gocb.TimeoutError
		if !errors.As(err, &timeout) || !slices.Contains(timeout.RetryReasons, gocb.KVCollectionOutdatedRetryReason) {
			t.Errorf("the error does not say why: %v", err)
		}
	}
}

func TestManagementWantsThePassword(t *testing.T) {
	node := startNode(t, cbnode.Options{})
	cluster := connect(t, node, func(o *gocb.ClusterOptions) { o.Password = "guess" })
	err := cluster.Bucket("default").CollectionsV2().CreateScope("klatch", &gocb.CreateScopeOptions{Timeout: kvTimeout})
	if err == nil {
		t.Fatal("a stranger creates a scope")
	}
}
