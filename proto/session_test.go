package proto

import (
	"bytes"
	"errors"
	"reflect"
	"runtime"
	"testing"
	"time"
)

func sampleSession() *Session {
	return &Session{
		Version: 12, Writer: 7, Changed: 11,
		Writes:  []Write{{Version: 11, Writer: 3}, {Version: 12, Writer: 7}},
		Created: time.UnixMilli(1_700_000_000_000), LastAccess: time.UnixMilli(1_700_000_001_000),
		Idle: 30 * time.Minute, Absolute: 400 * 24 * time.Hour,
		Principal: "ann", PrincipalEpoch: 4, Route: "n1",
		Lease: &Lease{Token: 12, Holder: "n2", TTL: 30 * time.Second},
		Attributes: map[string]Attribute{
			"cart": {Kind: JSON, Data: []byte(`{"n":1e400}`)},
			"blob": {Kind: Opaque, Data: []byte{0, 1, 0xff}},
			"":     {Kind: Opaque, Data: []byte{}},
		},
	}
}

func TestSessionRecordSurvivesTheCodec(t *testing.T) {
	for name, want := range map[string]*Session{
		"full":  sampleSession(),
		"empty": {Created: time.UnixMilli(0), LastAccess: time.UnixMilli(0), Writes: []Write{}, Attributes: map[string]Attribute{}},
	} {
		got, err := DecodeSession(want.Encode())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}

func TestElementsOfALaterReleaseAreWrittenBackByteForByte(t *testing.T) {
	later := []byte{0x93, 0x01, 0xa1, 'x', 0xc0, 0xcb, 0x40, 0x09, 0x21, 0xfb, 0x54, 0x44, 0x2d, 0x18} // [1,"x",nil], 3.14…
	record := sampleSession()
	record.trailing, record.trailingCount = later, 2
	encoded := record.Encode()

	got, err := DecodeSession(encoded)
	if err != nil {
		t.Fatal(err)
	}
	changed := got.Clone()
	changed.Stamp(13, 9)
	if again := changed.Encode(); !bytes.HasSuffix(again, later) {
		t.Errorf("the record ends in %x, want %x", again[len(again)-len(later):], later)
	}
	if _, err := DecodeSession(changed.Encode()); err != nil {
		t.Error(err)
	}
}

func TestRecordsOfANewerSchemaAreRefused(t *testing.T) {
	encoded := sampleSession().Encode()
	encoded[1] = sessionSchema + 1
	if _, err := DecodeSession(encoded); !errors.Is(err, ErrSchema) {
		t.Errorf("error %v, want ErrSchema", err)
	}
}

func TestDamagedRecordsAreErrorsNotPanics(t *testing.T) {
	encoded := sampleSession().Encode()
	for n := range encoded {
		if _, err := DecodeSession(encoded[:n]); err == nil {
			t.Errorf("the first %d of %d bytes were accepted", n, len(encoded))
		}
	}
	if _, err := DecodeSession(append(encoded, 0xc0)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a byte after the end: %v", err)
	}
	deep := append([]byte{0xdc, 0x00, sessionFields + 1}, encoded[1:]...)
	deep = append(deep, bytes.Repeat([]byte{0x91}, 1<<20)...)
	if _, err := DecodeSession(deep); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a million nested arrays: %v", err)
	}
}

func TestADamagedLengthAllocatesNothing(t *testing.T) {
	whole := sampleSession()
	whole.Attributes = map[string]Attribute{"x": {Data: []byte("data")}}
	encoded := whole.Encode()
	claim := []byte{0xc6, 0xff, 0xff, 0xff, 0xf0} // bytes of almost 4 GiB
	damaged := append(encoded[:len(encoded)-len("\xc4\x04data")], claim...)

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := DecodeSession(damaged)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, ErrCorrupt) {
		t.Errorf("error %v, want ErrCorrupt", err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes were allocated for %d", n, len(damaged))
	}
}

func TestStampKeepsTheLastWrites(t *testing.T) {
	s := &Session{}
	var first []Write
	for v := Version(1); v <= 40; v++ {
		s.Stamp(v, 1)
		if v == MaxWrites {
			first = s.Writes
		}
	}
	if len(s.Writes) != MaxWrites || s.Writes[0].Version != 25 || s.Writes[MaxWrites-1].Version != 40 {
		t.Errorf("writes %v", s.Writes)
	}
	if first[0].Version != 1 {
		t.Error("an earlier list of writes was changed in place")
	}
}

func TestCloneIsIndependent(t *testing.T) {
	original := sampleSession()
	clone := original.Clone()
	clone.Attributes["cart"] = Attribute{}
	clone.Stamp(99, 9)
	if !reflect.DeepEqual(original, sampleSession()) {
		t.Error("changing a clone changed the original")
	}
}

func FuzzDecodeSession(f *testing.F) {
	f.Add(sampleSession().Encode())
	f.Add((&Session{}).Encode())
	f.Fuzz(func(t *testing.T, p []byte) {
		s, err := DecodeSession(p)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrSchema) {
				t.Errorf("error %v is neither ErrCorrupt nor ErrSchema", err)
			}
			return
		}
		again, err := DecodeSession(s.Encode())
		if err != nil {
			t.Fatalf("a decoded record does not survive the codec: %v", err)
		}
		if !reflect.DeepEqual(again, s) {
			t.Errorf("got %+v, want %+v", again, s)
		}
	})
}
