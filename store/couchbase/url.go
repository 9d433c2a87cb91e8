package couchbase

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"klatch/store"
)

// parameters are what may follow the question mark of a URL.
var parameters = map[string]func(o *Options, value string) error{
	"scope":           func(o *Options, v string) error { o.Scope = v; return nil },
	"collection":      func(o *Options, v string) error { o.Collection = v; return nil },
	"durability":      func(o *Options, v string) error { o.Durability = Durability(v); return nil },
	"ca-file":         func(o *Options, v string) error { o.CAFile = v; return nil },
	"network":         func(o *Options, v string) error { o.Network = v; return nil },
	"kv-timeout":      func(o *Options, v string) error { return parseDuration(&o.KVTimeout, v) },
	"durable-timeout": func(o *Options, v string) error { return parseDuration(&o.DurableTimeout, v) },
	"connect-timeout": func(o *Options, v string) error { return parseDuration(&o.ConnectTimeout, v) },
	"start-wait":      func(o *Options, v string) error { return parseDuration(&o.StartWait, v) },
	"probe-interval":  func(o *Options, v string) error { return parseDuration(&o.ProbeInterval, v) },
	"connections":     func(o *Options, v string) error { return parseInt(&o.Connections, v) },
	"breaker":         func(o *Options, v string) error { return parseInt(&o.BreakerThreshold, v) },
}

// ParseURL reads couchbase://HOST[:PORT],…/BUCKET?scope=…&collection=…&durability=…&kv-timeout=…, or
// couchbases:// for TLS. It is not parsed as net/url would, which knows one host only. User and password
// are no part of it.
func ParseURL(text string) (Options, error) {
	refuse := func(format string, args ...any) (Options, error) {
		return Options{}, fmt.Errorf("%w: store URL: "+format, append([]any{store.ErrInvalid}, args...)...)
	}
	scheme, rest, _ := strings.Cut(text, "://")
	if scheme != "couchbase" && scheme != "couchbases" || rest == "" {
		return refuse("use couchbase://HOST/BUCKET or couchbases://HOST/BUCKET") // text may hold a password
	}
	if strings.Contains(rest, "@") {
		return refuse("it must not hold a user or a password, which logs and process lists would show: set KLATCH_STORE_USER and KLATCH_STORE_PASSWORD, or --store-user and --store-password-file")
	}
	address, query, _ := strings.Cut(rest, "?")
	hosts, bucket, _ := strings.Cut(address, "/")
	bucket, err := url.PathUnescape(strings.TrimSuffix(bucket, "/"))
	if err != nil {
		return refuse("bucket: %w", err)
	}
	o := Options{TLS: scheme == "couchbases", Hosts: strings.Split(hosts, ","), Bucket: bucket}
	if bucket == "" {
		return refuse("it names no bucket: use %s://%s/BUCKET", scheme, hosts)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return refuse("the part after the question mark cannot be read: %w", err)
	}
	for name, given := range values {
		set, known := parameters[name]
		switch {
		case name == "user" || name == "username" || name == "password":
			return refuse("it must not hold %q: set KLATCH_STORE_USER and KLATCH_STORE_PASSWORD, or --store-user and --store-password-file", name)
		case !known:
			return refuse("unknown parameter %q: use %s", name, strings.Join(parameterNames(), ", "))
		case len(given) > 1 || given[0] == "":
			return refuse("parameter %q needs one value", name)
		}
		if err := set(&o, given[0]); err != nil {
			return refuse("parameter %s=%s: %w", name, given[0], err)
		}
	}
	return o, nil
}

func parameterNames() []string {
	names := make([]string, 0, len(parameters))
	for name := range parameters {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func parseDuration(to *time.Duration, text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return fmt.Errorf("use a duration above zero, such as 500ms")
	}
	*to = d
	return nil
}

func parseInt(to *int, text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return fmt.Errorf("use a whole number above zero")
	}
	*to = n
	return nil
}
