package proto

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Kind says what a record is. It is one letter of the key.
type Kind byte

// The kinds of record.
const (
	KindSession   Kind = 's'
	KindDocument  Kind = 'd'
	KindHTTP      Kind = 'h'
	KindTenant    Kind = 't'
	KindPrincipal Kind = 'p'
	KindStamps    Kind = 'x'
	KindValue     Kind = 'c' // a value of the Redis protocol
	KindNode      Kind = 'n'
)

const (
	// MaxKeyBytes bounds the wire form of a key; it is the limit of Couchbase.
	MaxKeyBytes = 250
	// MaxTenantBytes bounds the name of a tenant.
	MaxTenantBytes = 63

	// hashMark begins the id of every key whose true id was hashed, and of no other.
	hashMark = '#'
)

// Key names one record. Its wire form is tenant/kind/id, at most [MaxKeyBytes] long. Keys are comparable
// and build without allocating, so that a lookup in memory costs no garbage.
type Key struct {
	Tenant string
	Kind   Kind
	ID     string // as on the wire: hashed where the true id does not fit
}

// NewKey makes the key of an id. An id that is too long, is not UTF-8 or begins with '#' is replaced by '#'
// and its SHA-256 in base64url; records of such ids keep the true id themselves.
func NewKey(tenant string, kind Kind, id string) Key {
	tooLong := len(tenant)+len("/k/")+len(id) > MaxKeyBytes
	if tooLong || (id != "" && id[0] == hashMark) || !utf8.ValidString(id) {
		sum := sha256.Sum256([]byte(id))
		id = string(hashMark) + base64.RawURLEncoding.EncodeToString(sum[:])
	}
	return Key{Tenant: tenant, Kind: kind, ID: id}
}

// Wire returns the wire form.
func (k Key) Wire() string {
	return string(append(k.AppendPrefix(make([]byte, 0, len(k.Tenant)+3+len(k.ID))), k.ID...))
}

// String returns a form for logs and errors. Whoever knows a session id is that session, so the id appears
// as its [ShortHash] only.
func (k Key) String() string {
	return string(append(k.AppendPrefix(nil), ShortHash(k.ID)...))
}

// ShortHash returns eight hexadecimal digits that stand for a secret id in logs and in what people read.
func ShortHash(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:4])
}

// AppendPrefix appends "tenant/kind/", which all keys of one kind share, to dst.
func (k Key) AppendPrefix(dst []byte) []byte {
	dst = append(dst, k.Tenant...)
	return append(dst, '/', byte(k.Kind), '/')
}

// ParseKey reads the wire form. The key's strings share memory with s.
func ParseKey(s string) (Key, error) {
	tenant, rest, ok := strings.Cut(s, "/")
	if !ok || tenant == "" || len(s) > MaxKeyBytes || len(tenant) > MaxTenantBytes || len(rest) < 3 || rest[1] != '/' {
		return Key{}, fmt.Errorf("%w: key %.64q is not tenant/kind/id of at most %d bytes", ErrCorrupt, s, MaxKeyBytes)
	}
	return Key{Tenant: tenant, Kind: Kind(rest[0]), ID: rest[2:]}, nil
}
