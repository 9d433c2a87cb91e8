package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"klatch/server/problem"
)

// Token is the secret that callers of the API must send as a bearer token. Only its hash is kept.
type Token struct{ hash [sha256.Size]byte }

// NewToken returns a token of that secret.
func NewToken(secret string) *Token { return &Token{hash: sha256.Sum256([]byte(secret))} }

// guard lets through whoever sends the token; a nil token lets everybody through.
func (t *Token) guard(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		hash := sha256.Sum256([]byte(secret))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(hash[:], t.hash[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="klatch"`)
			problem.Unauthorized().Write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}
