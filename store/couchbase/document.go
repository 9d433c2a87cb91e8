package couchbase

import (
	"crypto/sha256"
	"encoding/base64"

	"klatch/proto"
)

// maxDocumentID is the limit for collections that are not the default one: their number takes up to four of
// the server's 250 bytes.
const maxDocumentID = 246

// documentID returns the id of the document that holds the record of key: the key's wire form, where it
// fits. Otherwise the key's id is replaced by "##" and its hash, which proto.NewKey never makes.
func documentID(key proto.Key) string {
	wire := key.Wire()
	if len(wire) <= maxDocumentID {
		return wire
	}
	sum := sha256.Sum256([]byte(key.ID))
	key.ID = "##" + base64.RawURLEncoding.EncodeToString(sum[:])
	return key.Wire()
}
