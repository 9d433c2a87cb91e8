package cbnode

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"hash"
	"strings"
)

// scramHashes are the SCRAM mechanisms of the server, by name.
var scramHashes = map[string]func() hash.Hash{
	"SCRAM-SHA512": sha512.New, "SCRAM-SHA256": sha256.New, "SCRAM-SHA1": sha1.New,
}

// scramIterations is far below what a server uses (15,000), because here the client's password is no secret
// and tests connect all the time.
const scramIterations = 64

// scramConversation is the server's side of one RFC 5802 authentication.
type scramConversation struct {
	newHash     func() hash.Hash
	user        string
	password    string
	clientFirst string
	serverFirst string
	nonce       string
	salt        []byte
}

// startScram answers a client's first message with a challenge. passwordOf gives the password of a user, and
// one that nobody has where there is no such user: strangers are turned away at the end only.
func startScram(newHash func() hash.Hash, message []byte, passwordOf func(user string) string) (*scramConversation, error) {
	bare, ok := strings.CutPrefix(string(message), "n,,")
	if !ok {
		return nil, fmt.Errorf("the first message %q has no header n,,", message)
	}
	name, nonce, ok := strings.Cut(bare, ",r=")
	name, named := strings.CutPrefix(name, "n=")
	if !ok || !named || nonce == "" {
		return nil, fmt.Errorf("the first message %q has no name and nonce", message)
	}
	c := &scramConversation{newHash: newHash, clientFirst: bare, nonce: nonce + rand.Text(), salt: []byte(rand.Text())}
	c.user = strings.NewReplacer("=2C", ",", "=3D", "=").Replace(name)
	c.password = passwordOf(c.user)
	c.serverFirst = fmt.Sprintf("r=%s,s=%s,i=%d", c.nonce, base64.StdEncoding.EncodeToString(c.salt), scramIterations)
	return c, nil
}

// finish checks the client's proof and returns the server's.
func (c *scramConversation) finish(message []byte) ([]byte, error) {
	withoutProof, proof, ok := strings.Cut(string(message), ",p=")
	if !ok || withoutProof != "c=biws,r="+c.nonce {
		return nil, fmt.Errorf("the last message %q does not continue this conversation", message)
	}
	got, err := base64.StdEncoding.DecodeString(proof)
	if err != nil {
		return nil, fmt.Errorf("the proof in %q: %w", message, err)
	}
	salted, err := pbkdf2.Key(c.newHash, c.password, c.salt, scramIterations, c.newHash().Size())
	if err != nil {
		return nil, err
	}
	conversation := c.clientFirst + "," + c.serverFirst + "," + withoutProof
	clientKey := c.sign(salted, "Client Key")
	storedKey := c.newHash()
	storedKey.Write(clientKey)
	want := c.sign(storedKey.Sum(nil), conversation)
	for i := range want {
		want[i] ^= clientKey[i]
	}
	if !hmac.Equal(got, want) {
		return nil, fmt.Errorf("wrong password of %q", c.user)
	}
	signature := c.sign(c.sign(salted, "Server Key"), conversation)
	return []byte("v=" + base64.StdEncoding.EncodeToString(signature)), nil
}

func (c *scramConversation) sign(key []byte, text string) []byte {
	mac := hmac.New(c.newHash, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
