//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// klatch runs one command in dir and returns its exit code and its output.
func klatch(t *testing.T, dir string, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), binary, args...)
	command.Dir = dir
	command.Env = append(os.Environ(), env...)
	command.WaitDelay = time.Second
	var out, errOut strings.Builder
	command.Stdout, command.Stderr = &out, &errOut
	timer := time.AfterFunc(patience, func() { _ = command.Process.Kill() })
	defer timer.Stop()
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return command.ProcessState.ExitCode(), out.String(), errOut.String()
}

func TestMistakesGetOneClearLineAndTheRightExitCode(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("file", "")
	write("junk.db", strings.Repeat("junk", 1000))
	typo := write("typo.yaml", "session:\n  idel: 5m\n")
	broken := write("broken.yaml", "a: [")
	badKey := write("badkey", "c2hvcnQ=\n")
	badToken := write("badtoken", "short\n")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free := freeAddress(t)
	serve := func(args ...string) []string {
		return append([]string{"serve", "--name", "n1", "--http", freeAddress(t), "--admin", freeAddress(t), "--gossip", freeAddress(t), "--store", "memory:"}, args...)
	}

	for name, c := range map[string]struct {
		args []string
		env  []string
		code int
		says []string
	}{
		"unknown command":      {args: []string{"serv"}, code: 2, says: []string{`unknown command "serv"`, "serve"}},
		"unknown flag":         {args: serve("--nme", "x"), code: 2, says: []string{"--nme", "--help"}},
		"surplus argument":     {args: serve("x"), code: 2, says: []string{"no arguments"}},
		"missing argument":     {args: []string{"session", "get"}, code: 2, says: []string{"usage:"}},
		"unknown output":       {args: []string{"members", "-o", "yaml"}, code: 2, says: []string{"text or json"}},
		"bad name":             {args: serve("--name", "A B"), code: 2, says: []string{"a-z"}},
		"bad address":          {args: serve("--http", "nowhere"), code: 2, says: []string{"host:port"}},
		"bad duration":         {args: serve("--session.idle", "soon"), code: 2, says: []string{"session.idle", "30m"}},
		"too short":            {args: serve("--session.idle", "1ms"), code: 2, says: []string{"1s"}},
		"bad conflict mode":    {args: serve("--session.conflict", "x"), code: 2, says: []string{"merge or strict"}},
		"unknown store":        {args: serve("--store", "redis://x"), code: 2, says: []string{"redis", "sqlite:PATH"}},
		"key mistyped in file": {args: serve("--config", typo), code: 2, says: []string{`"session.idel"`, `"session.idle"`}},
		"file is not YAML":     {args: serve("--config", broken), code: 2, says: []string{broken}},
		"no such file":         {args: serve("--config", filepath.Join(dir, "none")), code: 2, says: []string{"no such file"}},
		"key mistyped in env":  {args: serve(), env: []string{"KLATCH_NAEM=x"}, code: 2, says: []string{"KLATCH_NAEM", "KLATCH_NAME"}},
		"exposed http":         {args: serve("--http", "0.0.0.0:0"), code: 2, says: []string{"--tls-cert", "--insecure"}},
		"exposed gossip":       {args: serve("--gossip", "0.0.0.0:0"), code: 2, says: []string{"--gossip-key-file", "--insecure"}},
		"gossip key too short": {args: serve("--gossip-key-file", badKey), code: 2, says: []string{"16, 24 or 32"}},
		"API token too short":  {args: serve("--api-token-file", badToken), code: 2, says: []string{"16 characters"}},
		"lone certificate":     {args: serve("--tls-cert", "x"), code: 2, says: []string{"tls-key"}},
		"port in use":          {args: serve("--http", taken.Addr().String()), code: 1, says: []string{"--http " + taken.Addr().String(), "in use"}},
		"gossip port in use":   {args: serve("--gossip", taken.Addr().String()), code: 1, says: []string{taken.Addr().String(), "in use"}},
		"directory is a file":  {args: serve("--store", "sqlite:file/klatch.db"), code: 1, says: []string{"file/klatch.db", "not writable"}},
		"not a database":       {args: serve("--store", "sqlite:junk.db"), code: 1, says: []string{"junk.db", "not a klatch store"}},
		"seed is no address":   {args: serve("--join", "nowhere"), code: 2, says: []string{"host:port"}},
		"no node there":        {args: []string{"status", "--admin", "http://" + free}, code: 1, says: []string{"no node answers", "klatch serve"}},
		"no demo there":        {args: []string{"demo", "kill", "n1", "--base-port", strings.TrimPrefix(free, "127.0.0.1:")}, code: 1, says: []string{"no demo runs", "klatch demo"}},
		"demo of no nodes":     {args: []string{"demo", "--nodes", "0"}, code: 2, says: []string{"--nodes 0"}},
		"bench: bad option":    {args: []string{"bench", "sessions", "-t", "0"}, code: 2, says: []string{"-t 0"}},
		"bench: nobody there":  {args: []string{"bench", "sessions", "-b", "http://" + free}, code: 1},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := klatch(t, dir, c.env, c.args...)
			if code != c.code {
				t.Errorf("exit code %d, want %d: %s", code, c.code, stderr)
			}
			for _, text := range c.says {
				if !strings.Contains(stderr, text) {
					t.Errorf("the message lacks %q: %s", text, stderr)
				}
			}
			if c.says != nil && strings.Count(stderr, "\n") != 1 || strings.Contains(stderr, "goroutine") {
				t.Errorf("not one line: %s", stderr)
			}
		})
	}
}

func TestASettingIsTakenFromFlagThenEnvironmentThenFileThenDefault(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "klatch.yaml")
	if err := os.WriteFile(config, []byte("name: file\ncluster: file\nsession:\n  idle: 1h\njoin: [a:1, b:2]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := klatch(t, dir, []string{"KLATCH_NAME=env", "KLATCH_CLUSTER=env", "KLATCH_SESSION_MAX_BYTES=5000"}, "serve", "--config", config, "--name", "flag", "--print-config")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, line := range []string{"name: flag", "cluster: env", "idle: 1h", "max-bytes: 5000", "absolute: never", "- a:1"} {
		if !strings.Contains(stdout, line) {
			t.Errorf("the configuration lacks %q:\n%s", line, stdout)
		}
	}
}

func TestADeadSeedKeepsNoNodeFromServing(t *testing.T) {
	n := startNodes(t, 1, "--join", freeAddress(t))[0]
	n.create(`{}`)
	log, err := os.ReadFile(n.log)
	if err != nil || strings.Count(string(log), "seed not joined") != 1 {
		t.Errorf("%v, the log says:\n%s", err, log)
	}
}

func TestTheOperatorsCommands(t *testing.T) {
	cluster := startNodes(t, 2)
	admin := []string{"--admin", "http://" + cluster[0].admin}
	run := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := klatch(t, t.TempDir(), nil, append(args, admin...)...)
		if code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, stderr)
		}
		return stdout
	}
	_, created := cluster[1].create(`{"x":1}`)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"status"}, "2 of 2 members are ready"},
		{[]string{"members"}, "n2"},
		{[]string{"session", "get", created.session.ID}, `"x": 1`},
		{[]string{"join", cluster[1].gossip}, "joined"},
		{[]string{"session", "delete", created.session.ID}, "deleted"},
	} {
		if out := run(c.args...); !strings.Contains(out, c.says) {
			t.Errorf("%v says %s", c.args, out)
		}
		if out := run(append(c.args, "-o", "json")...); !json.Valid([]byte(out)) {
			t.Errorf("%v -o json says %s", c.args, out)
		}
	}
	cluster[1].do("GET", "/v1/sessions/"+created.session.ID, "", notFound)
	run("drain")
	select {
	case <-cluster[0].ended:
	case <-time.After(patience):
		t.Error("the drained node did not end")
	}
	cluster[1].waitMembers(1)
}
