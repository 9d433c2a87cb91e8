package couchbase

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"klatch/store"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string]Options{
		"couchbase://h/b":                         {Hosts: []string{"h"}, Bucket: "b"},
		"couchbase://h/b/":                        {Hosts: []string{"h"}, Bucket: "b"},
		"couchbases://h1,h2:11999/b":              {Hosts: []string{"h1", "h2:11999"}, Bucket: "b", TLS: true},
		"couchbase://127.0.0.1:11210/default":     {Hosts: []string{"127.0.0.1:11210"}, Bucket: "default"},
		"couchbase://[::1]:11210,[fe80::1]/b%2Ec": {Hosts: []string{"[::1]:11210", "[fe80::1]"}, Bucket: "b.c"},
		"couchbase://h/b?scope=s&collection=c&durability=majority&kv-timeout=250ms": {
			Hosts: []string{"h"}, Bucket: "b", Scope: "s", Collection: "c", Durability: Majority, KVTimeout: 250 * time.Millisecond,
		},
		"couchbases://h/b?ca-file=/etc/ca.pem&network=external&durable-timeout=3s&connect-timeout=4s&start-wait=1s&probe-interval=1s&connections=2&breaker=9": {
			Hosts: []string{"h"}, Bucket: "b", TLS: true, CAFile: "/etc/ca.pem", Network: "external",
			DurableTimeout: 3 * time.Second, ConnectTimeout: 4 * time.Second, StartWait: time.Second,
			ProbeInterval: time.Second, Connections: 2, BreakerThreshold: 9,
		},
	} {
		got, err := ParseURL(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
			continue
		}
		got.User, got.Password, got.CAFile = "u", "p", ""
		if _, err := got.withDefaults(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestURLsThatAreRefused(t *testing.T) {
	for text, why := range map[string]string{
		"memory:":                               "couchbase://HOST/BUCKET",
		"couchbase:h/b":                         "couchbase://HOST/BUCKET",
		"couchbase://":                          "couchbase://HOST/BUCKET",
		"couchbase://h":                         "no bucket",
		"couchbase://h?scope=s":                 "no bucket",
		"couchbase://h/b?kv-timeot=1s":          `unknown parameter "kv-timeot"`,
		"couchbase://h/b?kv-timeout=soon":       "kv-timeout=soon",
		"couchbase://h/b?kv-timeout=-1s":        "kv-timeout=-1s",
		"couchbase://h/b?breaker=0":             "breaker=0",
		"couchbase://h/b?scope=a&scope=b":       `"scope" needs one value`,
		"couchbase://h/b?scope=":                `"scope" needs one value`,
		"couchbase://h/b?a;b":                   "question mark",
		"couchbase://h/b?durability=some":       `durability "some"`,
		"couchbase://h/b?durable-timeout=1s":    "durable-timeout",
		"couchbase://h/b?connections=65":        "connections 65",
		"couchbase://h/b?scope=_system":         `scope "_system"`,
		"couchbase://h/b?collection=a.b":        `collection "a.b"`,
		"couchbase://h/b?network=lan":           `network "lan"`,
		"couchbase://h/b?ca-file=/etc/ca.pem":   "couchbases://",
		"couchbase://h:0/b":                     "port",
		"couchbase://h:x/b":                     "port",
		"couchbase://h1,,h2/b":                  `host ""`,
		"couchbase://::1/b":                     "",
		"couchbase:///b":                        `host ""`,
		"couchbase://h/b/c":                     "bucket",
		"couchbase://u:secret@h/b":              "KLATCH_STORE_PASSWORD",
		"couchbase://u:sec?ret@h/b":             "KLATCH_STORE_PASSWORD",
		"couchbase://u:sec/ret@h/b":             "KLATCH_STORE_PASSWORD",
		"couchbase://h/b?password=secret":       "KLATCH_STORE_PASSWORD",
		"couchbase://h/b?user=u&scope=secret@x": "KLATCH_STORE_PASSWORD",
	} {
		o, err := ParseURL(text)
		if err == nil {
			o.User, o.Password = "u", "p"
			_, err = o.withDefaults()
		}
		if text == "couchbase://::1/b" {
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", text, err, why)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error shows the password: %v", text, err)
		}
	}
}

func TestUserAndPasswordAreRequired(t *testing.T) {
	for _, o := range []Options{{User: "u"}, {Password: "p"}} {
		o.Hosts, o.Bucket = []string{"h"}, "b"
		if _, err := o.withDefaults(); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "KLATCH_STORE_USER") {
			t.Errorf("%v", err)
		}
	}
}

func TestOptionsNeverShowThePassword(t *testing.T) {
	const url = "couchbases://h1,h2:1/b?scope=s&collection=c&durability=majority"
	o, err := ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.User, o.Password = "u", "hunter2"
	for _, format := range []string{"%v", "%+v", "%s", "%#v", "%q"} {
		shown := fmt.Sprintf(format, o)
		if strings.Contains(shown, o.Password) || !strings.Contains(shown, url) {
			t.Errorf("%s: %s", format, shown)
		}
	}
}

func TestCAFileMustHoldACertificate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca.pem")
	o := Options{Hosts: []string{"h"}, Bucket: "b", User: "u", Password: "p", TLS: true, CAFile: path}
	if _, err := Open(t.Context(), o); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
	if err := os.WriteFile(path, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("with nonsense in it: %v", err)
	}
}
