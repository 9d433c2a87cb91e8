package couchbase

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"klatch/store"
)

// DefaultName is the scope, and the collection, that every bucket has.
const DefaultName = "_default"

// maxTimeout bounds every time-out: a node that stops waits for the operations under way.
const maxTimeout = time.Minute

// durableFloor is the least time that gocb gives a durable write, whatever it is told.
const durableFloor = 1500 * time.Millisecond

// Options configure a Store. Hosts, Bucket, User and Password are required. [ParseURL] reads all but the
// last two from a URL.
type Options struct {
	// Hosts are nodes of the cluster to begin with, each "host" or "host:port"; the others are learned from
	// them. The default port is 11210, or 11207 with TLS.
	Hosts []string

	// Bucket, Scope and Collection say where the records lie. Scope and Collection are "_default" by
	// default; others are created where they are missing and the user may do so.
	Bucket, Scope, Collection string

	// User and Password are those of the cluster. They are secrets: no URL, log or error holds them.
	User, Password string

	// TLS encrypts the connections and checks the servers' certificates against CAFile, PEM, or against the
	// system's authorities where CAFile is empty.
	TLS    bool
	CAFile string

	// Network is "default", "external" or empty, which lets gocb find out which addresses of the nodes can
	// be reached from here.
	Network string

	// Durability is Auto by default.
	Durability Durability

	// KVTimeout bounds an operation, with its repeats. The default is 500 ms.
	KVTimeout time.Duration

	// DurableTimeout bounds a write that waits for replicas. The default is 2 s, the least 1.5 s.
	DurableTimeout time.Duration

	// ConnectTimeout bounds making one connection and logging in. The default is 5 s.
	ConnectTimeout time.Duration

	// StartWait bounds how long Open waits for the first contact. The default is 2 s.
	StartWait time.Duration

	// Connections is how many are made to each node. The default is 4.
	Connections int

	// BreakerThreshold is after how many time-outs and broken connections in a row the store is taken for
	// gone: every operation then fails at once. The default is 5.
	BreakerThreshold int

	// ProbeInterval is the time between two attempts to reach a store that is gone. The default is 250 ms.
	ProbeInterval time.Duration

	// Logger takes what no caller is told. The default logs nothing. The client library's own log goes to
	// the Logger of the first Store of the process, because the library has one log only.
	Logger *zap.Logger
}

// String returns the URL of these options, without what is secret.
func (o Options) String() string {
	var b strings.Builder
	b.WriteString(o.scheme() + "://" + strings.Join(o.Hosts, ",") + "/" + o.Bucket)
	separator := "?"
	for _, p := range []struct{ name, value, usual string }{
		{"scope", o.Scope, DefaultName},
		{"collection", o.Collection, DefaultName},
		{"durability", string(o.Durability), string(Auto)},
	} {
		if p.value != "" && p.value != p.usual {
			b.WriteString(separator + p.name + "=" + p.value)
			separator = "&"
		}
	}
	return b.String()
}

// GoString keeps the password out of %#v as well.
func (o Options) GoString() string { return "couchbase.Options(" + o.String() + ")" }

func (o Options) scheme() string {
	if o.TLS {
		return "couchbases"
	}
	return "couchbase"
}

func (o Options) withDefaults() (Options, error) {
	setDefault(&o.Scope, DefaultName)
	setDefault(&o.Collection, DefaultName)
	setDefault(&o.Durability, Auto)
	setDefault(&o.KVTimeout, 500*time.Millisecond)
	setDefault(&o.DurableTimeout, 2*time.Second)
	setDefault(&o.ConnectTimeout, 5*time.Second)
	setDefault(&o.StartWait, 2*time.Second)
	setDefault(&o.Connections, 4)
	setDefault(&o.BreakerThreshold, 5)
	setDefault(&o.ProbeInterval, 250*time.Millisecond)
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return o, o.validate()
}

func setDefault[T comparable](value *T, usual T) {
	var zero T
	if *value == zero {
		*value = usual
	}
}

func (o Options) validate() error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: couchbase: "+format, append([]any{store.ErrInvalid}, args...)...)
	}
	if len(o.Hosts) == 0 {
		return refuse("no host given: use couchbase://HOST/BUCKET")
	}
	for _, host := range o.Hosts {
		if err := checkHost(host); err != nil {
			return refuse("%w", err)
		}
	}
	switch {
	case o.Bucket == "" || strings.ContainsAny(o.Bucket, "/?#"):
		return refuse("bucket %q: use couchbase://HOST/BUCKET", o.Bucket)
	case !goodName(o.Scope), !goodName(o.Collection):
		return refuse("scope %q, collection %q: use letters, digits, _, - and %%, at most 251", o.Scope, o.Collection)
	case o.Durability.level() < 0:
		return refuse("durability %q: use %s", o.Durability, durabilities)
	case o.User == "" || o.Password == "":
		return refuse("no user or no password given: set KLATCH_STORE_USER and KLATCH_STORE_PASSWORD, or --store-user and --store-password-file")
	case o.Network != "" && o.Network != "default" && o.Network != "external":
		return refuse("network %q: use default or external", o.Network)
	case o.CAFile != "" && !o.TLS:
		return refuse("a CA file is of use with couchbases:// only")
	case o.KVTimeout < time.Millisecond, o.ConnectTimeout < time.Millisecond, o.StartWait < 0, o.ProbeInterval < time.Millisecond:
		return refuse("time-outs and intervals must be at least 1ms")
	case o.KVTimeout > maxTimeout, o.ConnectTimeout > maxTimeout, o.DurableTimeout > maxTimeout:
		return refuse("a time-out above %s would hold a node that stops", maxTimeout)
	case o.DurableTimeout < durableFloor:
		return refuse("durable-timeout %s: use at least %s, which the client takes anyway", o.DurableTimeout, durableFloor)
	case o.Connections < 1 || o.Connections > 64:
		return refuse("connections %d: use 1 to 64", o.Connections)
	case o.BreakerThreshold < 1:
		return refuse("breaker %d: use at least 1", o.BreakerThreshold)
	}
	return nil
}

// checkHost refuses what is no host or host:port.
func checkHost(host string) error {
	name, port := host, ""
	if h, p, err := net.SplitHostPort(host); err == nil {
		name, port = h, p
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("host %q: the port is no number from 1 to 65535", host)
		}
	} else if strings.Contains(strings.Trim(host, "[]"), ":") && net.ParseIP(strings.Trim(host, "[]")) == nil {
		return fmt.Errorf("host %q: use HOST or HOST:PORT, with brackets around an IPv6 address", host)
	}
	if name == "" || strings.ContainsAny(name, " \t@/?#&=%") {
		return fmt.Errorf("host %q: use HOST or HOST:PORT", host)
	}
	return nil
}

// goodName tells whether the server would take s as the name of a scope or a collection.
func goodName(s string) bool {
	if s == DefaultName {
		return true
	}
	if s == "" || len(s) > 251 || s[0] == '_' || s[0] == '%' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-%") == ""
}
