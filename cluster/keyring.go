package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/memberlist"
)

// maxKeys bounds the keys of a node: each may be tried for each message.
const maxKeys = 8

// Keyring are the keys of one node's traffic: the first encrypts, each may decrypt. They may change while the node
// runs. It is safe for concurrent use.
type Keyring struct {
	mu   sync.Mutex // guards changes
	ring *memberlist.Keyring
}

// Fingerprint names a key without showing it: the first 8 bytes of its SHA-256, in hex.
func Fingerprint(key []byte) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// newKeyring returns one without a ring, which means no encryption, if there are no keys. Its errors never show a key.
func newKeyring(keys [][]byte) (*Keyring, error) {
	k := &Keyring{}
	if len(keys) == 0 {
		return k, nil
	}
	if len(keys) > maxKeys {
		return nil, fmt.Errorf("%w: %d gossip keys, at most %d are allowed", ErrInvalid, len(keys), maxKeys)
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
	k.ring = ring
	return k, nil
}

// Keyring returns the keys of this node.
func (c *Cluster) Keyring() *Keyring { return c.keyring }

// Keys returns the keys, the one that encrypts first; none if the traffic is not encrypted, which does not change
// while a node runs.
func (k *Keyring) Keys() [][]byte {
	if k.ring == nil {
		return nil
	}
	return slices.Clone(k.ring.GetKeys())
}

// Install adds a key that may decrypt. To install one that is there is no error. It fails with ErrInvalid if the
// traffic is not encrypted, the key is none of AES, or there are too many.
func (k *Keyring) Install(key []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ring == nil {
		return fmt.Errorf("%w: the traffic of this node is not encrypted; start it with a key first", ErrInvalid)
	}
	if _, err := k.find(Fingerprint(key)); err == nil {
		return nil
	}
	if len(k.ring.GetKeys()) >= maxKeys {
		return fmt.Errorf("%w: there are %d gossip keys already; remove one first", ErrInvalid, maxKeys)
	}
	if err := k.ring.AddKey(key); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// Use makes an installed key the one that encrypts.
func (k *Keyring) Use(fingerprint string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	i, err := k.find(fingerprint)
	if err != nil {
		return err
	}
	return k.ring.UseKey(k.ring.GetKeys()[i])
}

// Remove takes a key away, so that nothing encrypted by it is read any more. It fails with ErrKeyInUse for the key
// that encrypts.
func (k *Keyring) Remove(fingerprint string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	i, err := k.find(fingerprint)
	if err != nil {
		return err
	}
	if i == 0 {
		return ErrKeyInUse
	}
	// memberlist removes a key by moving those behind it, in a slice that its decryption may be reading. The last
	// key has none behind it: they are all taken from the end, and the others put back. What comes meanwhile and
	// needs one of them is lost as any datagram may be.
	behind := k.Keys()[i:]
	for _, key := range slices.Backward(behind) {
		if err := k.ring.RemoveKey(key); err != nil {
			return err
		}
	}
	for _, key := range behind[1:] {
		if err := k.ring.AddKey(key); err != nil {
			return err
		}
	}
	return nil
}

// find returns the place of a key.
func (k *Keyring) find(fingerprint string) (int, error) {
	if i := slices.IndexFunc(k.Keys(), func(key []byte) bool { return Fingerprint(key) == fingerprint }); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("%w: %s", ErrNoKey, fingerprint)
}
