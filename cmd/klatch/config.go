package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"klatch/node"
	"klatch/session"
)

const (
	envPrefix        = "KLATCH_"
	storePasswordEnv = "KLATCH_STORE_PASSWORD"
)

// defineSettings defines what a node can be told. The names of the flags are the keys of the configuration
// file, and, in capitals and with underscores, of the environment.
func defineSettings(flags *pflag.FlagSet) {
	flags.String("name", defaultName(), "this node's `name`, unique in the cluster: 1 to 32 of a-z, 0-9 and -")
	flags.String("http", "127.0.0.1:7070", "`address` of the HTTP API")
	flags.String("admin", "127.0.0.1:7071", "`address` of the admin API")
	flags.String("app", "", "`address` of the test application (default: none)")
	flags.String("gossip", "127.0.0.1:7946", "`address` of the cluster's own traffic, TCP and UDP")
	flags.String("advertise", "", "gossip `address` that peers are told, if they cannot use --gossip")
	flags.StringSlice("join", nil, "gossip `addresses` of other nodes: host:port,…; DNS names are resolved again and again")
	flags.String("cluster", "klatch", "`name` of the cluster; nodes of other clusters are refused")
	flags.String("store", "sqlite:klatch-data/klatch.db", "`URL` of the store: sqlite:PATH, couchbase://HOST,…/BUCKET?… (couchbases:// for TLS) or memory:")
	flags.String("store-user", "", "`user` of the store; the password comes from KLATCH_STORE_PASSWORD or --store-password-file, never from the URL")
	flags.String("store-password-file", "", "`file` with the password of the store")
	flags.String("gossip-key-file", "", "`file` of base64 keys for gossip: the first encrypts, all decrypt")
	flags.String("api-token-file", "", "`file` with the token that callers of the API must send")
	flags.String("tls-cert", "", "PEM `file` with the certificate of the listeners, read again when it changes")
	flags.String("tls-key", "", "PEM `file` with its key")
	flags.Bool("insecure", false, "allow addresses beyond loopback without TLS, an API token or a gossip key")
	flags.String("session.idle", "30m", "idle limit of new sessions: a `duration` or never")
	flags.String("session.absolute", "never", "absolute limit of new sessions: a `duration` or never")
	flags.String("session.conflict", "merge", "what two writers of one attribute get, by `mode`: merge (the last wins) or strict (the second is refused)")
	flags.Int("session.max-bytes", 1<<20, "size limit of one session in `bytes`")
	flags.Int("near.max-bytes", 256<<20, "memory of the near cache in `bytes`")
	flags.Int("coherence.rate", 0, "copies in memory that are compared with the store each `second`; see klatch check")
	flags.Duration("near.max-age", time.Minute, "`age` at which a copy is checked against the store")
	flags.Duration("drain-grace", 3*time.Second, "`time` that a draining node serves on after it has said not-ready")
	flags.String("log-level", "info", "`level`: debug, info, warn or error")
	flags.String("log-format", "console", "`format`: console or json")
}

// defaultName makes a node name out of the host's.
func defaultName() string {
	host, _ := os.Hostname() // without one the fallback below is as good
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		default:
			return -1
		}
	}, strings.ToLower(strings.SplitN(host, ".", 2)[0]))
	if name == "" {
		return "node"
	}
	return name[:min(len(name), 32)]
}

// loadSettings merges flags over environment over file over defaults. An unknown key is an error.
func loadSettings(flags *pflag.FlagSet, path string, environ []string) (*koanf.Koanf, error) {
	known := map[string]string{} // by the name in the environment
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "config" && f.Name != "print-config" && f.Name != "help" {
			known[envPrefix+strings.NewReplacer(".", "_", "-", "_").Replace(strings.ToUpper(f.Name))] = f.Name
		}
	})
	settings := koanf.New(".")
	if path != "" {
		if err := settings.Load(file.Provider(path), yaml.Parser()); err != nil {
			return nil, usageError{fmt.Errorf("--config %s: %s", path, strings.Join(strings.Fields(err.Error()), " "))}
		}
		for _, key := range settings.Keys() {
			if f := flags.Lookup(key); f == nil || known[envName(key)] == "" {
				return nil, usageError{fmt.Errorf("--config %s: unknown key %q%s", path, key, suggest(key, known))}
			}
		}
	}
	fromEnv := map[string]any{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, envPrefix) || notSettings[name] {
			continue
		}
		key, ok := known[name]
		if !ok {
			return nil, usageError{fmt.Errorf("environment: unknown %s%s", name, suggest(name, known))}
		}
		fromEnv[key] = typed(flags.Lookup(key).Value.Type(), value)
	}
	if err := settings.Load(confmap.Provider(fromEnv, "."), nil); err != nil {
		return nil, err
	}
	if err := settings.Load(posflag.Provider(flags, ".", settings), nil); err != nil {
		return nil, err
	}
	settings.Delete("config")
	settings.Delete("print-config")
	settings.Delete("help")
	return settings, nil
}

// typed gives a value of the environment the type of its setting. What has not the right form stays as it is, and
// is refused where it is read.
func typed(kind, text string) any {
	switch kind {
	case "stringSlice":
		return strings.Split(text, ",")
	case "int":
		if n, err := strconv.Atoi(text); err == nil {
			return n
		}
	case "bool":
		if b, err := strconv.ParseBool(text); err == nil {
			return b
		}
	}
	return text
}

// notSettings are variables with the prefix that are not keys of the configuration.
var notSettings = map[string]bool{
	"KLATCH_PARENT_FD": true, // from klatch demo to its nodes
	"KLATCH_API_TOKEN": true, // for the commands that call a node
	storePasswordEnv:   true, // a secret, which --print-config must not show
}

func envName(key string) string {
	return envPrefix + strings.NewReplacer(".", "_", "-", "_").Replace(strings.ToUpper(key))
}

// suggest names the known key that is nearest to an unknown one, if any is near.
func suggest(unknown string, known map[string]string) string {
	best, distance := "", 4
	for env, key := range known {
		candidate := key
		if strings.HasPrefix(unknown, envPrefix) {
			candidate = env
		}
		if d := editDistance(unknown, candidate); d < distance || d == distance && candidate < best {
			best, distance = candidate, d
		}
	}
	if best == "" {
		return " (klatch serve --help lists the keys)"
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// editDistance is Levenshtein's.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// nodeConfig turns the merged settings into a node's configuration.
func nodeConfig(settings *koanf.Koanf) (node.Config, error) {
	config := node.Config{
		Name:      settings.String("name"),
		HTTP:      settings.String("http"),
		Admin:     settings.String("admin"),
		App:       settings.String("app"),
		Gossip:    settings.String("gossip"),
		Advertise: settings.String("advertise"),
		Join:      settings.Strings("join"),
		Cluster:   settings.String("cluster"),
		Store:     settings.String("store"),
		StoreUser: settings.String("store-user"),

		StorePasswordFile: settings.String("store-password-file"),

		GossipKeyFile: settings.String("gossip-key-file"),
		APITokenFile:  settings.String("api-token-file"),
		TLSCert:       settings.String("tls-cert"),
		TLSKey:        settings.String("tls-key"),
	}
	read := settingsReader{settings: settings}
	config.Insecure = read.bool("insecure")
	config.Session.Idle = read.limit("session.idle")
	config.Session.Absolute = read.limit("session.absolute")
	config.Session.MaxBytes = read.int("session.max-bytes")
	config.Near.MaxBytes = uint64(max(read.int("near.max-bytes"), 0))
	config.Coherence.Rate = read.int("coherence.rate")
	config.Near.MaxAge = read.duration("near.max-age")
	config.DrainGrace = read.duration("drain-grace")
	conflict, err := session.ParseConflict(settings.String("session.conflict"))
	if err != nil {
		read.fail("session.conflict", "use merge or strict")
	}
	config.Session.Conflict = conflict
	return config, read.err
}
