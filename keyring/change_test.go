package keyring

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

const (
	oldKey = "0000aaaa11112222"
	newKey = "0000bbbb33334444"
)

func TestAChangeThatNoClusterCouldMakeIsInvalid(t *testing.T) {
	for name, c := range map[string]Change{
		"no step":                 {},
		"another step":            {Step: "replace", Fingerprint: oldKey},
		"no key":                  {Step: Install},
		"a key of another size":   {Step: Install, Key: bytes.Repeat([]byte{1}, 31)},
		"no fingerprint":          {Step: Use},
		"too short a fingerprint": {Step: Remove, Fingerprint: oldKey[:5]},
	} {
		if err := c.check(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{"", "c2hvcnQ=", "not base64", strings.Repeat("A", 43)} {
		if _, err := ParseKey(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("the key %q: %v", text, err)
		}
	}
}

func TestAFingerprintIsCompletedIfOneKeyAloneBeginsWithIt(t *testing.T) {
	nodes := []Node{
		{Name: "n1", Keys: []string{oldKey, newKey}, Saved: []string{oldKey}},
		{Name: "n2", Keys: []string{oldKey}, Saved: []string{oldKey}},
		{Name: "n3", Problem: "it is not heard"},
	}
	for part, want := range map[string]string{oldKey: oldKey, "0000AA": oldKey, "0000bbbb": newKey, "0000": "", "ffffff": ""} {
		got, err := complete(part, nodes)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s is completed to %q, %v; want %q", part, got, err, want)
		}
	}
}

func TestTheGuardNamesTheNodeThatWouldBeShutOut(t *testing.T) {
	both := []string{oldKey, newKey}
	whole := Node{Name: "n1", Keys: both, Saved: both}
	turned := Node{Name: "n1", Keys: []string{newKey, oldKey}, Saved: []string{newKey, oldKey}}
	use, remove := Change{Step: Use, Fingerprint: newKey}, Change{Step: Remove, Fingerprint: oldKey}
	for name, tt := range map[string]struct {
		change Change
		nodes  []Node
		unseen []string
		says   string // empty: nothing is refused
	}{
		"install is harmless":            {Change{Step: Install}, []Node{whole}, []string{"n9"}, ""},
		"all have the key":               {use, []Node{whole, whole}, nil, ""},
		"a node is not heard":            {use, []Node{whole}, []string{"n9"}, "klatch forget n9"},
		"a node does not answer":         {use, []Node{whole, {Name: "n2", Problem: "timeout"}}, nil, "keys of n2 are not known: timeout"},
		"a node lacks the key":           {use, []Node{whole, {Name: "n2", Keys: both[:1], Saved: both}}, nil, "n2 does not have the key"},
		"a file lacks the key":           {use, []Node{whole, {Name: "n2", Keys: both, Saved: both[:1]}}, nil, "key file of n2 lacks"},
		"all encrypt by another key":     {remove, []Node{turned, turned}, nil, ""},
		"its file may be ahead":          {remove, []Node{turned, {Name: "n2", Keys: turned.Keys, Saved: []string{newKey}}}, nil, ""},
		"a node encrypts by the key":     {remove, []Node{turned, {Name: "n2", Keys: both, Saved: turned.Saved}}, nil, "n2 encrypts by this key"},
		"a file begins with another key": {remove, []Node{turned, {Name: "n2", Keys: turned.Keys, Saved: both}}, nil, "key file of n2 does not begin with"},
		"a file cannot be read":          {remove, []Node{turned, {Name: "n2", Keys: turned.Keys}}, nil, "key file of n2 does not begin with"},
	} {
		err := tt.change.guard(tt.nodes, tt.unseen)
		switch {
		case tt.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.says != "" && (!errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%s: %v, want a refusal with %q", name, err, tt.says)
		}
	}
}
