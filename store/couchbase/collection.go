package couchbase

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/couchbase/gocb/v2"
)

// collectionMissing tells whether a read failed because there is no such collection. gocb asks again and
// again for it until the time is over.
func collectionMissing(err error) bool {
	if errors.Is(err, gocb.ErrScopeNotFound) || errors.Is(err, gocb.ErrCollectionNotFound) {
		return true
	}
	var timeout *gocb.TimeoutError
	return errors.As(err, &timeout) && slices.Contains(timeout.RetryReasons, gocb.KVCollectionOutdatedRetryReason)
}

// createCollection creates the scope and the collection where they are missing.
func (s *Store) createCollection(ctx context.Context) error {
	manager := s.link.bucket.CollectionsV2()
	var err error
	if s.opts.Scope != DefaultName {
		err = manager.CreateScope(s.opts.Scope, &gocb.CreateScopeOptions{Timeout: manageTimeout, Context: ctx})
	}
	if errors.Is(err, gocb.ErrScopeExists) {
		err = nil
	}
	if err == nil && s.opts.Collection != DefaultName {
		err = manager.CreateCollection(s.opts.Scope, s.opts.Collection, nil,
			&gocb.CreateCollectionOptions{Timeout: manageTimeout, Context: ctx})
	}
	if err == nil || errors.Is(err, gocb.ErrCollectionExists) {
		return nil // another node may have been faster
	}
	if broken(err) || errors.Is(err, gocb.ErrServiceNotAvailable) || errors.Is(err, gocb.ErrRequestCanceled) {
		return fmt.Errorf("create %s.%s: %w", s.opts.Scope, s.opts.Collection, err)
	}
	return fmt.Errorf("%w: %s.%s of bucket %q, and the user %q could not create it; do it with: %s: %w",
		ErrCollection, s.opts.Scope, s.opts.Collection, s.opts.Bucket, s.opts.User, s.creation(), described(err))
}

// creation returns the commands that create the scope and the collection.
func (s *Store) creation() string {
	manage := fmt.Sprintf("couchbase-cli collection-manage -c %s -u ADMIN --bucket %s ", s.opts.Hosts[0], s.opts.Bucket)
	var commands []string
	if s.opts.Scope != DefaultName {
		commands = append(commands, manage+"--create-scope "+s.opts.Scope)
	}
	if s.opts.Collection != DefaultName {
		commands = append(commands, manage+"--create-collection "+s.opts.Scope+"."+s.opts.Collection)
	}
	return strings.Join(commands, " && ")
}
