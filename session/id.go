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
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}
