package session

import (
	"context"
	"errors"

	"klatch/proto"
	"klatch/store"
)

// Sample returns the keys of up to n sessions in memory, drawn at random.
func (m *Manager) Sample(n int) []proto.Key { return m.near.Sample(n) }

// Served returns the version of the content that a reader would be given from memory now, and false if it would ask
// the store.
func (m *Manager) Served(key proto.Key) (content proto.Version, ok bool) { return m.near.Served(key) }

// Stored returns the version of the content that the store has, and false if it has none. It goes past the near cache.
func (m *Manager) Stored(ctx context.Context, key proto.Key) (content proto.Version, ok bool, err error) {
	record, err := m.opts.Store.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	decoded, err := m.decode(key, record.Value)
	if err != nil {
		return 0, false, err
	}
	_, content = decoded.Stamps()
	return content, true, nil
}
