package session

import (
	"encoding/base64"
	"fmt"
	"io"
)

const (
	idBytes = 20 // 160 bits
	idChars = 27 // the same in base64url
)

// newID makes a session id that nobody can guess. Ids are never reused.
func newID(random io.Reader) (string, error) {
	var raw [idBytes]byte
	if _, err := io.ReadFull(random, raw[:]); err != nil {
		return "", fmt.Errorf("making a session id: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(raw[:]), nil
}

// ValidID reports whether s has the form of a session id.
func ValidID(s string) bool {
	if len(s) != idChars {
		return false
	}
	for i := range len(s) {
		if !idLetter[s[i]] {
			return false
		}
	}
	return true
}

// idLetter is the alphabet of base64url as a table, since every load looks at 27 letters.
var idLetter = func() (table [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") {
		table[c] = true
	}
	return table
}()
