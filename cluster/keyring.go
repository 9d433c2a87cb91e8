package cluster

import (
	"fmt"

	"github.com/hashicorp/memberlist"
)

// newKeyring returns nil, which means no encryption, if there are no keys. Its errors never show a key.
func newKeyring(keys [][]byte) (*memberlist.Keyring, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	for i, key := range keys {
		if err := memberlist.ValidateKey(key); err != nil {
			return nil, fmt.Errorf("%w: gossip key %d has %d bytes, AES needs 16, 24 or 32", ErrInvalid, i+1, len(key))
		}
	}
	ring, err := memberlist.NewKeyring(keys, keys[0])
	if err != nil {
		return nil, fmt.Errorf("%w: gossip keys: %w", ErrInvalid, err)
	}
	return ring, nil
}
