package node

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"

	"klatch/store"
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
//	sqlite:PATH or sqlite:///PATH   a file on this machine, which several nodes here may share
//	memory:                         nothing durable, for tests and a node alone
func openStore(ctx context.Context, storeURL string, now func() time.Time, logger *zap.Logger) (driver, error) {
	scheme, rest, ok := strings.Cut(storeURL, ":")
	if !ok {
		return nil, fmt.Errorf("%w: store %q has no scheme: use memory: or sqlite:PATH", ErrConfig, redactURL(storeURL))
	}
	switch scheme {
	case "memory":
		return memory.New(memory.Options{Now: now}), nil
	case "sqlite":
		path := strings.TrimPrefix(rest, "//")
		if path == "" || strings.ContainsAny(path, "?#") {
			return nil, fmt.Errorf("%w: store %q is not sqlite:PATH, such as sqlite:klatch-data/klatch.db, and takes no parameters", ErrConfig, redactURL(storeURL))
		}
		opened, err := sqlite.Open(ctx, sqlite.Options{Path: path, Now: now, Logger: logger})
		if err != nil {
			return nil, err // not opened: a nil *sqlite.Store would be no nil driver
		}
		return opened, nil
	default:
		return nil, fmt.Errorf("%w: store scheme %.32q is unknown: use memory: or sqlite:PATH", ErrConfig, scheme)
	}
}

// redactURL hides a password that somebody put into a URL.
func redactURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "(not a URL)"
	}
	return u.Redacted()
}
