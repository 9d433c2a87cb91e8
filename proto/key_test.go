package proto

import (
	"strings"
	"testing"
)

func TestKeyWireFormAndBack(t *testing.T) {
	for _, key := range []Key{
		NewKey("default", KindSession, "abc"),
		NewKey("t", KindDocument, "with/slashes//in it"),
		NewKey("t", KindDocument, "ünïcode"),
		NewKey("t", KindDocument, strings.Repeat("x", MaxKeyBytes)),
	} {
		wire := key.Wire()
		if len(wire) > MaxKeyBytes {
			t.Errorf("%d bytes on the wire", len(wire))
		}
		if back, err := ParseKey(wire); err != nil || back != key {
			t.Errorf("ParseKey(%q) = %v, %v", wire, back, err)
		}
	}
}

func TestIDsThatDoNotFitAreHashedWithoutCollision(t *testing.T) {
	long := strings.Repeat("x", 300)
	hashed := NewKey("t", KindDocument, long)
	if hashed != NewKey("t", KindDocument, long) {
		t.Error("the same long id made two keys")
	}
	if hashed == NewKey("t", KindDocument, long+"x") {
		t.Error("two long ids made one key")
	}
	if forged := NewKey("t", KindDocument, hashed.ID); forged == hashed {
		t.Error("a client can choose the hashed form of another's id")
	}
	if key := NewKey("t", KindDocument, "\xff\xfe"); key.ID[0] != hashMark {
		t.Error("an id that is not UTF-8 was not hashed")
	}
}

func TestKeysDoNotShowSessionIDs(t *testing.T) {
	const id = "a-very-secret-session-id"
	if shown := NewKey("t", KindSession, id).String(); strings.Contains(shown, id) {
		t.Errorf("String() = %q shows the id", shown)
	}
}

func TestMakingAKeyDoesNotAllocate(t *testing.T) {
	id := strings.Repeat("a", 27)
	var key Key
	if n := testing.AllocsPerRun(100, func() { key = NewKey("default", KindSession, id) }); n != 0 {
		t.Errorf("%.0f allocations", n)
	}
	_ = key
}

func FuzzParseKey(f *testing.F) {
	f.Add("default/s/abc")
	f.Add("//")
	f.Fuzz(func(t *testing.T, s string) {
		key, err := ParseKey(s)
		if err == nil && key.Wire() != s {
			t.Errorf("ParseKey(%q).Wire() = %q", s, key.Wire())
		}
	})
}
