package sessions

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
)

func TestDefaults(t *testing.T) {
	got, err := parseOptions(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if got.base.String() != "http://127.0.0.1:8002" {
		t.Errorf("base %s", got.base)
	}
	got.base = nil
	want := options{parents: 1, children: 1, attributes: 10, size: 100, updatePercent: 50, iterations: 1, operations: 1}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTheClassicCommandLine(t *testing.T) {
	got, err := parseOptions(strings.Fields("-b http://balancer:8000/ -t 16 -ct 2 -a 20 -s 100 -ur 30 -os 5 -ts 7 -i 3 -ci 4 -d -o json"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if got.base.String() != "http://balancer:8000" {
		t.Errorf("base %s", got.base)
	}
	got.base = nil
	want := options{
		parents: 16, children: 2, attributes: 20, size: 100, updatePercent: 30, iterations: 3, operations: 4,
		operationSleep: 5 * time.Millisecond, thinkTime: 7 * time.Millisecond, debug: true, json: true,
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestWrongOptionsAreRefusedInOneLine(t *testing.T) {
	for args, says := range map[string]string{
		"-t 0":                           "-t 0: use 1 to 10000",
		"-ct 2000":                       "-ct 2000",
		"-t 10000 -ct 1000 -ci 0":        "threads at once",
		"-a -1":                          "-a -1",
		"-a 0":                           "-ur 0",
		"-s 2000000":                     "-s 2000000",
		"-ur 101":                        "-ur 101: use 0 to 100",
		"-os 70000":                      "-os 70000",
		"-ts -5":                         "-ts -5",
		"-i 0":                           "-i 0",
		"-t 100 -i 1000 -ci 1000":        "operations in all: at most 10000000",
		"-i x":                           "-i",
		"-unknown":                       "-unknown",
		"-o xml":                         "use text or json",
		"-b ftp://host":                  "use a URL such as",
		"-b 127.0.0.1:8002":              "use a URL such as",
		"-b http://127.0.0.1:8002/?a=b":  "use a URL such as",
		"-b http://127.0.0.1:8002/#here": "use a URL such as",
		"more":                           `unexpected argument "more"`,
	} {
		var stdout, stderr bytes.Buffer
		code := Main(t.Context(), strings.Fields(args), &stdout, &stderr)
		if code != misuse || stdout.Len() > 0 || strings.Count(stderr.String(), "\n") != 1 || !strings.Contains(stderr.String(), says) {
			t.Errorf("%s: exit code %d, %q and %q; want one line with %q", args, code, stdout.String(), stderr.String(), says)
		}
	}
}

func TestHelpNamesEveryOptionAndShowsExamples(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := Main(t.Context(), []string{"-h"}, &stdout, &stderr); code != ok || stderr.Len() > 0 {
		t.Errorf("exit code %d, %s", code, stderr.String())
	}
	for _, part := range []string{"Examples:", "-b URL", "-t threads", "-ct children", "-a attributes", "-s bytes", "-ur percent", "-os ms", "-ts ms", "-i sessions", "-ci operations", "-d", "-o form"} {
		if !strings.Contains(stdout.String(), part) {
			t.Errorf("no %q in\n%s", part, stdout.String())
		}
	}
}
