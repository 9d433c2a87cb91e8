package node

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Secret is a text that no log and no %+v shows.
type Secret string

// String masks the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(secret)"
}

// GoString masks it in %#v.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// readSecretLines returns the lines of a file, without blank ones and comments.
func readSecretLines(key, path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrConfig, key, err)
	}
	var lines []string
	for scanner := bufio.NewScanner(bytes.NewReader(text)); scanner.Scan(); {
		if line := strings.TrimSpace(scanner.Text()); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("%w: %s: %s is empty", ErrConfig, key, path)
	}
	return lines, nil
}

// readAPIToken reads the token of the API; no file means that none is asked for.
func readAPIToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	lines, err := readSecretLines("api-token-file", path)
	if err != nil {
		return "", err
	}
	const shortest = 16
	if len(lines[0]) < shortest {
		return "", fmt.Errorf("%w: api-token-file: the token in %s is shorter than %d characters (make one with: head -c 32 /dev/urandom | base64)", ErrConfig, path, shortest)
	}
	return lines[0], nil
}

// readStorePassword returns the password of the store, from where it was given.
func readStorePassword(c *Config) (string, error) {
	switch {
	case c.StorePasswordFile == "":
		return string(c.StorePassword), nil
	case c.StorePassword != "":
		return "", fmt.Errorf("%w: KLATCH_STORE_PASSWORD and store-password-file are both set: keep one", ErrConfig)
	}
	text, err := os.ReadFile(c.StorePasswordFile)
	if err != nil {
		return "", fmt.Errorf("%w: store-password-file: %w", ErrConfig, err)
	}
	password := strings.TrimRight(string(text), "\r\n") // a password may begin with what would be a comment elsewhere
	if password == "" {
		return "", fmt.Errorf("%w: store-password-file: %s is empty", ErrConfig, c.StorePasswordFile)
	}
	return password, nil
}

// certificate is a TLS certificate that is read again when its file changes.
type certificate struct {
	certFile, keyFile string

	mu       sync.Mutex // guards the rest
	loaded   *tls.Certificate
	modified time.Time
}

// newTLSConfig returns nil where no certificate is configured.
func newTLSConfig(certFile, keyFile string) (*tls.Config, error) {
	if certFile == "" {
		return nil, nil
	}
	c := &certificate{certFile: certFile, keyFile: keyFile}
	if _, err := c.get(nil); err != nil {
		return nil, fmt.Errorf("%w: tls-cert, tls-key: %w", ErrConfig, err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}, nil
}

// get returns the certificate, or, while a changed file cannot be read, the one before.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(c.certFile)
	if err == nil && c.loaded != nil && info.ModTime().Equal(c.modified) {
		return c.loaded, nil
	}
	if err == nil {
		var fresh tls.Certificate
		if fresh, err = tls.LoadX509KeyPair(c.certFile, c.keyFile); err == nil {
			c.loaded, c.modified = &fresh, info.ModTime()
		}
	}
	if c.loaded == nil {
		return nil, err
	}
	return c.loaded, nil
}
