package node

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"klatch/session"
)

func TestMain(m *testing.M) {
	// memberlist ends its goroutines a while after its Shutdown has returned.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}

func valid() Config {
	return Config{
		Name: "n1", HTTP: "127.0.0.1:0", Admin: "127.0.0.1:0", App: "127.0.0.1:0", Gossip: "127.0.0.1:0", Store: "memory:", Cluster: "test",
		Session: SessionConfig{Idle: time.Minute, Absolute: session.Never, Conflict: session.Merge, MaxBytes: 1 << 20},
		Near:    NearConfig{MaxBytes: 1 << 20, MaxAge: time.Minute},
	}
}

func TestExposureBeyondLoopbackIsRefusedUnlessProtectedOrWaived(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		lacks  string // what the refusal names; empty: accepted
	}{
		"all on loopback":     {change: func(c *Config) { c.HTTP, c.Gossip = "localhost:1", "[::1]:0" }},
		"http":                {change: func(c *Config) { c.HTTP = "0.0.0.0:1" }, lacks: "--tls-cert"},
		"http, every address": {change: func(c *Config) { c.HTTP = ":1" }, lacks: "--tls-cert"},
		"http with TLS":       {change: func(c *Config) { c.HTTP, c.TLSCert, c.TLSKey = "10.0.0.1:1", "c", "k" }, lacks: "--api-token-file"},
		"http with both":      {change: func(c *Config) { c.HTTP, c.TLSCert, c.TLSKey, c.APITokenFile = "10.0.0.1:1", "c", "k", "t" }},
		"admin":               {change: func(c *Config) { c.Admin = "klatch.example:1" }, lacks: "--tls-cert"},
		"app":                 {change: func(c *Config) { c.App = "0.0.0.0:1" }, lacks: "--tls-cert"},
		"app with TLS":        {change: func(c *Config) { c.App, c.TLSCert, c.TLSKey = "0.0.0.0:1", "c", "k" }},
		"gossip":              {change: func(c *Config) { c.Gossip = "10.0.0.1:1" }, lacks: "--gossip-key-file"},
		"gossip with a key":   {change: func(c *Config) { c.Gossip, c.GossipKeyFile = "10.0.0.1:1", "k" }},
		"waived":              {change: func(c *Config) { c.HTTP, c.Gossip, c.Insecure = "0.0.0.0:1", "0.0.0.0:2", true }},
	} {
		config := valid()
		c.change(&config)
		err := config.Validate()
		switch {
		case c.lacks == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.lacks != "" && (!errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.lacks) || !strings.Contains(err.Error(), "--insecure")):
			t.Errorf("%s: %v, want a refusal that names %s", name, err, c.lacks)
		}
	}
}

func TestANodeServesDrainsAndLeavesNoGoroutineBehind(t *testing.T) {
	config := valid()
	config.DrainGrace = time.Millisecond
	n, err := Start(t.Context(), config, "test", zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ready := func() int {
		response, err := http.Get("http://" + n.address("app") + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	for deadline := time.Now().Add(10 * time.Second); ready() != http.StatusOK; { // with the store's first answer
		if time.Now().After(deadline) {
			t.Fatal("the node does not become ready")
		}
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Run(ctx); err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestAStartThatFailsUndoesWhatItHadDone(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	for name, change := range map[string]func(*Config){
		"application port": func(c *Config) { c.App = taken.Addr().String() },
		"gossip port":      func(c *Config) { c.Gossip = taken.Addr().String() },
		"store":            func(c *Config) { c.Store = "sqlite:" + filepath.Join(os.Args[0], "x") },
	} {
		config := valid()
		config.HTTP = free.Addr().String()
		change(&config)
		if n, err := Start(t.Context(), config, "test", zap.NewNop()); err == nil {
			t.Errorf("%s: the node started", name)
			n.Drain(false)
			_ = n.Run(t.Context())
		}
		again, err := net.Listen("tcp", config.HTTP)
		if err != nil {
			t.Errorf("%s: after the failure the HTTP port is still taken: %v", name, err)
			continue
		}
		again.Close()
	}
}

func TestSecretsComeFromFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first, second := strings.Repeat("a", 32), strings.Repeat("b", 16)
	encode := base64.StdEncoding.EncodeToString
	keys, err := keyFile(write("keys", "# the new key\n"+encode([]byte(first))+"\n\n"+encode([]byte(second))+"\n")).Load()
	if err != nil || len(keys) != 2 || string(keys[0]) != first || string(keys[1]) != second {
		t.Errorf("keys %q, %v", keys, err)
	}
	if token, err := readAPIToken(write("token", "  0123456789abcdef\n")); err != nil || token != "0123456789abcdef" {
		t.Errorf("token %q, %v", token, err)
	}
	for name, text := range map[string]string{"empty": "", "comment": "# nothing\n", "not base64": "!!\n", "wrong length": "YWJj\n"} {
		if _, err := keyFile(write(name, text)).Load(); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestACertificateIsReadAgainWhenItsFileChanges(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, certFile, keyFile, 1, time.Now().Add(-time.Hour))
	config, err := newTLSConfig(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	expectSerial(t, config, 1)
	writeCertificate(t, certFile, keyFile, 2, time.Now())
	expectSerial(t, config, 2)
	if err := os.WriteFile(certFile, []byte("half a"), 0o600); err != nil {
		t.Fatal(err)
	}
	expectSerial(t, config, 2) // what cannot be read does not take the good one away
}

func writeCertificate(t *testing.T, certFile, keyFile string, serial int64, modified time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, modified, modified); err != nil {
			t.Fatal(err)
		}
	}
}

func expectSerial(t *testing.T, config *tls.Config, want int64) {
	t.Helper()
	certificate, err := config.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if leaf.SerialNumber.Int64() != want {
		t.Errorf("certificate %d is served, want %d", leaf.SerialNumber, want)
	}
}
