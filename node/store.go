package node

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"

	"klatch/store"
	"klatch/store/couchbase"
	"klatch/store/memory"
	"klatch/store/sqlite"
)

// driver is an open store that this node owns.
type driver interface {
	store.Store
	Close() error
}

// openStore chooses the driver by the URL's scheme:
//
//	sqlite:PATH or sqlite:///PATH     a file on this machine, which several nodes here may share
//	couchbase://HOST,…/BUCKET?…       a Couchbase cluster; couchbases:// for TLS
//	memory:                           nothing durable, for tests and a node alone
func openStore(ctx context.Context, config *Config, now func() time.Time, logger *zap.Logger) (driver, error) {
	const schemes = "use sqlite:PATH, couchbase://HOST/BUCKET or memory:"
	scheme, rest, ok := strings.Cut(config.Store, ":")
	if !ok {
		return nil, fmt.Errorf("%w: store %q has no scheme: %s", ErrConfig, RedactURL(config.Store), schemes)
	}
	switch scheme {
	case "memory":
		return memory.New(memory.Options{Now: now}), nil
	case "sqlite":
		path := strings.TrimPrefix(rest, "//")
		if path == "" || strings.ContainsAny(path, "?#") {
			return nil, fmt.Errorf("%w: store %q is not sqlite:PATH, such as sqlite:klatch-data/klatch.db, and takes no parameters", ErrConfig, RedactURL(config.Store))
		}
		opened, err := sqlite.Open(ctx, sqlite.Options{Path: path, Now: now, Logger: logger})
		if err != nil {
			return nil, err // not opened: a nil *sqlite.Store would be no nil driver
		}
		return opened, nil
	case "couchbase", "couchbases":
		return openCouchbase(ctx, config, logger)
	default:
		return nil, fmt.Errorf("%w: store scheme %.32q is unknown: %s", ErrConfig, scheme, schemes)
	}
}

func openCouchbase(ctx context.Context, config *Config, logger *zap.Logger) (driver, error) {
	options, err := couchbase.ParseURL(config.Store)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	password, err := readStorePassword(config)
	if err != nil {
		return nil, err
	}
	options.User, options.Password, options.Logger = config.StoreUser, password, logger
	opened, err := couchbase.Open(ctx, options)
	switch {
	case errors.Is(err, store.ErrInvalid):
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	case err != nil:
		return nil, err
	}
	return opened, nil
}

// RedactURL returns a store's URL without a password that somebody put into it.
func RedactURL(s string) string {
	if strings.HasPrefix(s, "couchbase") { // may name several hosts, which net/url does not know
		options, err := couchbase.ParseURL(s)
		if err != nil {
			return "couchbase://…"
		}
		return options.String()
	}
	plain, _, query := strings.Cut(s, "?")
	u, err := url.Parse(plain)
	if err != nil {
		return "(not a URL)"
	}
	if query {
		return u.Redacted() + "?…"
	}
	return u.Redacted()
}
