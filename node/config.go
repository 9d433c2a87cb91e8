package node

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"time"

	"klatch/session"
)

// Config is all that a node is told. Its field comments name the configuration keys, which are also the flags.
type Config struct {
	Name      string   // name: [a-z0-9-]{1,32}, unique in the cluster
	HTTP      string   // http: where the API listens
	Admin     string   // admin: where the admin API listens
	App       string   // app: where the test application listens; empty for none
	Gossip    string   // gossip: where the cluster's own traffic is bound
	Advertise string   // advertise: the gossip address that peers are told, if not Gossip
	Join      []string // join: gossip addresses of other nodes, host:port, DNS names allowed
	Cluster   string   // cluster: the name of the cluster; nodes of others are refused
	Store     string   // store: URL of the store

	StoreUser         string // store-user: for stores that ask for one
	StorePassword     Secret // KLATCH_STORE_PASSWORD: no setting, so that it is never printed with them
	StorePasswordFile string // store-password-file: the password, in place of the above

	GossipKeyFile string // gossip-key-file: base64 of 16, 24 or 32 bytes; the first line encrypts, all decrypt
	APITokenFile  string // api-token-file: the token that callers of the API must send
	TLSCert       string // tls-cert: PEM file
	TLSKey        string // tls-key: PEM file
	Insecure      bool   // insecure: allow addresses beyond loopback without what is missing above

	Session   SessionConfig
	Near      NearConfig
	Coherence CoherenceConfig

	DrainGrace time.Duration // drain-grace: how long a draining node serves on after it has said not-ready
}

// SessionConfig are the defaults of sessions.
type SessionConfig struct {
	Idle     time.Duration    // session.idle
	Absolute time.Duration    // session.absolute; session.Never for none
	Conflict session.Conflict // session.conflict
	MaxBytes int              // session.max-bytes
}

// NearConfig bounds the near cache.
type NearConfig struct {
	MaxBytes uint64        // near.max-bytes
	MaxAge   time.Duration // near.max-age
}

// CoherenceConfig says what a node checks of itself.
type CoherenceConfig struct {
	Rate int // coherence.rate: copies that are compared with the store each second
}

// ErrConfig is what every refusal of a configuration wraps.
var ErrConfig = errors.New("configuration")

var nodeName = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// Validate refuses what no node could run with, in one line that says what to do.
func (c *Config) Validate() error {
	if !nodeName.MatchString(c.Name) {
		return fmt.Errorf("%w: name %q: use 1 to 32 of a-z, 0-9 and - (--name n1)", ErrConfig, c.Name)
	}
	if c.Cluster == "" {
		return fmt.Errorf("%w: cluster needs a name (default: klatch)", ErrConfig)
	}
	taken := map[string]string{}
	for _, l := range c.listeners() {
		_, port, err := net.SplitHostPort(l.address)
		if number, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil {
			return fmt.Errorf("%w: %s %q is not host:port with a port from 0 to 65535, such as 127.0.0.1:7070", ErrConfig, l.key, l.address)
		} else if other := taken[l.address]; other != "" && number != 0 {
			return fmt.Errorf("%w: %s and %s are both %s: give each its own", ErrConfig, other, l.key, l.address)
		}
		taken[l.address] = l.key
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return fmt.Errorf("%w: tls-cert and tls-key belong together", ErrConfig)
	}
	if c.Session.MaxBytes < 1<<10 || c.Session.MaxBytes > 16<<20 {
		return fmt.Errorf("%w: session.max-bytes %d: use 1024 to %d", ErrConfig, c.Session.MaxBytes, 16<<20)
	}
	for key, limit := range map[string]time.Duration{"session.idle": c.Session.Idle, "session.absolute": c.Session.Absolute} {
		if err := session.CheckLimit(key, limit); err != nil {
			return fmt.Errorf("%w: %w", ErrConfig, err)
		}
	}
	if c.Near.MaxAge < time.Second {
		return fmt.Errorf("%w: near.max-age %s: use at least 1s", ErrConfig, c.Near.MaxAge)
	}
	if c.Near.MaxBytes < 1<<20 {
		return fmt.Errorf("%w: near.max-bytes %d: use at least %d", ErrConfig, c.Near.MaxBytes, 1<<20)
	}
	if c.Coherence.Rate < 0 || c.Coherence.Rate > 1000 {
		return fmt.Errorf("%w: coherence.rate %d: use 0 to 1000", ErrConfig, c.Coherence.Rate)
	}
	if c.DrainGrace < 0 || c.DrainGrace > 10*time.Minute {
		return fmt.Errorf("%w: drain-grace %s: use 0s to 10m", ErrConfig, c.DrainGrace)
	}
	return c.checkExposure()
}

// binding is an address that a node binds, and its configuration key.
type binding struct{ key, address string }

// listeners returns the TCP addresses that this node binds.
func (c *Config) listeners() []binding {
	return append(c.httpListeners(), binding{"gossip", c.Gossip})
}

func (c *Config) httpListeners() []binding {
	all := []binding{{"http", c.HTTP}, {"admin", c.Admin}}
	if c.App != "" {
		all = append(all, binding{"app", c.App})
	}
	return all
}

// checkExposure refuses to listen beyond loopback without TLS, a token and a gossip key, unless told to.
func (c *Config) checkExposure() error {
	if c.Insecure {
		return nil
	}
	for _, l := range c.httpListeners() {
		if missing := c.missingForHTTP(l.key); !isLoopback(l.address) && missing != "" {
			return fmt.Errorf("%w: %s %s is reachable from other machines and lacks %s: set it, listen on 127.0.0.1, or accept the risk with --insecure", ErrConfig, l.key, l.address, missing)
		}
	}
	if !isLoopback(c.Gossip) && c.GossipKeyFile == "" {
		return fmt.Errorf("%w: gossip %s is reachable from other machines and lacks --gossip-key-file: set it, listen on 127.0.0.1, or accept the risk with --insecure", ErrConfig, c.Gossip)
	}
	return nil
}

// missingForHTTP names the first protection that an HTTP listener lacks. The application's callers are
// browsers, which have no API token.
func (c *Config) missingForHTTP(key string) string {
	switch {
	case c.TLSCert == "":
		return "--tls-cert and --tls-key"
	case c.APITokenFile == "" && key != "app":
		return "--api-token-file"
	default:
		return ""
	}
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
