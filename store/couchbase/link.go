package couchbase

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/couchbase/gocb/v2"
)

const (
	// probePatience bounds how long one probe waits for a connection.
	probePatience = time.Second
	// manageTimeout bounds creating a scope or a collection, which is rare and slow.
	manageTimeout = 10 * time.Second
	// reconnectPause is the time between two of gocb's attempts to connect; its own default is 5 s.
	reconnectPause = 250 * time.Millisecond
	// queueLength bounds what may wait for a connection to take it; more is gocb.ErrOverload.
	queueLength = 4096
)

// link is the connection to the cluster. Only the prober, and Close after it has ended, touch it.
type link struct {
	connStr string
	options gocb.ClusterOptions
	cluster *gocb.Cluster // nil until gocb.Connect has succeeded; it then reconnects by itself
	bucket  *gocb.Bucket
}

func newLink(opts Options) (link, error) {
	l := link{options: gocb.ClusterOptions{
		Authenticator: gocb.PasswordAuthenticator{Username: opts.User, Password: opts.Password},
		TimeoutsConfig: gocb.TimeoutsConfig{
			ConnectTimeout:    opts.ConnectTimeout,
			KVTimeout:         opts.KVTimeout,
			KVDurableTimeout:  opts.DurableTimeout,
			ManagementTimeout: manageTimeout,
		},
		Transcoder:           gocb.NewRawBinaryTranscoder(),
		RetryStrategy:        retries{},
		Tracer:               &gocb.NoopTracer{},
		Meter:                &gocb.NoopMeter{},
		OrphanReporterConfig: gocb.OrphanReporterConfig{Disabled: true},
		AppTelemetryConfig:   gocb.AppTelemetryConfig{Disabled: true},
		CompressionConfig:    gocb.CompressionConfig{Disabled: true}, // values are compact, and some encrypted
		CircuitBreakerConfig: gocb.CircuitBreakerConfig{Disabled: true},
	}}
	if opts.CAFile != "" {
		pem, err := os.ReadFile(opts.CAFile)
		if err != nil {
			return link{}, fmt.Errorf("ca-file: %w", err)
		}
		l.options.SecurityConfig.TLSRootCAs = x509.NewCertPool()
		if !l.options.SecurityConfig.TLSRootCAs.AppendCertsFromPEM(pem) {
			return link{}, fmt.Errorf("ca-file: %s holds no PEM certificate", opts.CAFile)
		}
	}
	query := url.Values{
		"kv_pool_size":        {strconv.Itoa(opts.Connections)},
		"server_wait_backoff": {strconv.FormatInt(reconnectPause.Milliseconds(), 10)},
		"max_queue_size":      {strconv.Itoa(queueLength)},
	}
	if opts.Network != "" {
		query.Set("network", opts.Network)
	}
	l.connStr = opts.scheme() + "://" + strings.Join(opts.Hosts, ",") + "?" + query.Encode()
	return l, nil
}

// connect makes gocb look for the cluster, once. It does not wait until it is found.
func (l *link) connect(bucket string) error {
	if l.cluster != nil {
		return nil
	}
	cluster, err := gocb.Connect(l.connStr, l.options)
	if err != nil {
		return err
	}
	l.cluster, l.bucket = cluster, cluster.Bucket(bucket)
	return nil
}

func (l *link) close() error {
	if l.cluster == nil {
		return nil
	}
	return l.cluster.Close(nil)
}

// probe tries to reach the store: nil means that it answers.
func (s *Store) probe(ctx context.Context) error {
	s.probes.Add(1)
	if err := s.link.connect(s.opts.Bucket); err != nil {
		return s.explained(err)
	}
	err := s.link.bucket.WaitUntilReady(probePatience, &gocb.WaitUntilReadyOptions{
		DesiredState:  gocb.ClusterStateDegraded, // one node that answers is enough
		ServiceTypes:  []gocb.ServiceType{gocb.ServiceTypeKeyValue},
		RetryStrategy: failFast{},
		Context:       ctx,
	})
	if errors.Is(err, gocb.ErrTimeout) {
		return fmt.Errorf("%w to %s within %s (the log at level debug has gocb's own reasons): %w",
			errNoConnection, strings.Join(s.opts.Hosts, ","), probePatience, described(err))
	}
	if err != nil {
		return s.explained(err)
	}
	collection := s.link.bucket.Scope(s.opts.Scope).Collection(s.opts.Collection)
	err = s.probeRead(ctx, collection)
	if collectionMissing(err) {
		if err = s.createCollection(ctx); err == nil {
			err = s.probeRead(ctx, collection)
		}
	}
	if err != nil {
		return s.explained(err)
	}
	s.collection.Store(collection)
	return nil
}

// probeRead reads a key that nobody writes. It is another one every time, so that probes reach all nodes:
// one that is down must not hide that the others answer.
func (s *Store) probeRead(ctx context.Context, collection *gocb.Collection) error {
	key := "klatch-probe/" + strconv.FormatUint(rand.Uint64(), 36)
	_, err := collection.Get(key, &gocb.GetOptions{Timeout: s.opts.KVTimeout, Context: ctx})
	if errors.Is(err, gocb.ErrDocumentNotFound) {
		return nil
	}
	return err
}

// explained says what an operator can do about a failed probe.
func (s *Store) explained(err error) error {
	switch {
	case permanent(err):
		return err
	case errors.Is(err, gocb.ErrBucketNotFound), accessDenied(err):
		return fmt.Errorf("%w: bucket %q, user %q: create it with: couchbase-cli bucket-create -c %s -u ADMIN --bucket %s --bucket-type couchbase --bucket-ramsize 256 --bucket-replica 1; or give the user the roles data_reader[%s],data_writer[%s]: %w",
			ErrBucket, s.opts.Bucket, s.opts.User, s.opts.Hosts[0], s.opts.Bucket, s.opts.Bucket, s.opts.Bucket, described(err))
	case errors.Is(err, gocb.ErrAuthenticationFailure):
		return fmt.Errorf("%w: user %q at %s: check KLATCH_STORE_USER and KLATCH_STORE_PASSWORD, or --store-user and --store-password-file: %w",
			ErrAuthentication, s.opts.User, strings.Join(s.opts.Hosts, ","), described(err))
	}
	return described(err)
}

// accessDenied tells whether the server knows the user and the password, but does not let the user in: to a
// bucket that is not there, or not the user's.
func accessDenied(err error) bool {
	const statusAccess = 0x24
	var kv *gocb.KeyValueError
	return errors.As(err, &kv) && kv.StatusCode == statusAccess
}
