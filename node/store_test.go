package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

func TestCouchbaseSettingsThatAreRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		config Config
		says   string
	}{
		"password in the URL": {Config{Store: "couchbase://u:hunter2@h/b"}, "KLATCH_STORE_PASSWORD"},
		"no user":             {Config{Store: "couchbase://h/b", StorePassword: "hunter2"}, "KLATCH_STORE_USER"},
		"no password":         {Config{Store: "couchbase://h/b", StoreUser: "u"}, "KLATCH_STORE_PASSWORD"},
		"two passwords":       {Config{Store: "couchbase://h/b", StoreUser: "u", StorePassword: "hunter2", StorePasswordFile: file}, "keep one"},
		"no file":             {Config{Store: "couchbase://h/b", StoreUser: "u", StorePasswordFile: file + "x"}, "store-password-file"},
		"empty file":          {Config{Store: "couchbase://h/b", StoreUser: "u", StorePasswordFile: empty}, "is empty"},
		"unknown parameter":   {Config{Store: "couchbase://h/b?ttl=1s", StoreUser: "u", StorePassword: "hunter2"}, `"ttl"`},
	} {
		t.Run(name, func(t *testing.T) {
			opened, err := openStore(t.Context(), &c.config, time.Now, zap.NewNop())
			if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.says) || opened != nil {
				t.Errorf("%v, want %q", err, c.says)
			}
			if strings.Contains(fmt.Sprint(err), "hunter2") {
				t.Errorf("%v shows the password", err)
			}
		})
	}
}

func TestThePasswordOfTheStoreIsNeverShown(t *testing.T) {
	config := Config{StoreUser: "u", StorePassword: "hunter2"}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if shown := fmt.Sprintf(format, config); strings.Contains(shown, "hunter2") {
			t.Errorf("%s: %s", format, shown)
		}
	}
	for url, want := range map[string]string{
		"couchbase://h1:1,h2:2/b?scope=s":  "couchbase://h1:1,h2:2/b?scope=s",
		"couchbase://u:hunter2@h/b":        "couchbase://…",
		"sqlite://u:hunter2@h/b?p=hunter2": "sqlite://u:xxxxx@h/b?…",
		"cb://u:hunter2@h/b":               "cb://u:xxxxx@h/b",
		"sqlite:data/klatch.db":            "sqlite:data/klatch.db",
	} {
		if got := RedactURL(url); got != want {
			t.Errorf("%s is shown as %s", url, got)
		}
	}
}
