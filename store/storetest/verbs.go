package storetest

import (
	"bytes"
	"math"
	"strings"

	"klatch/proto"
	"klatch/store"
)

func (s *suite) get() {
	key := s.key("k")
	s.wantsNothing(key)
	cas := s.put(key, "one", hourly(store.Any))
	s.wants(key, "one", cas)
	s.wants(key, "one", cas)
}

func (s *suite) putAny() {
	key := s.key("k")
	first := s.put(key, "one", hourly(store.Any))
	second := s.put(key, "two", hourly(store.Any))
	if first == second {
		s.Errorf("both writes have the CAS %d", first)
	}
	s.wants(key, "two", second)
}

func (s *suite) putAbsent() {
	key := s.key("k")
	first := s.put(key, "one", hourly(store.Absent))
	_, err := s.store.Put(s.ctx, key, []byte("two"), hourly(store.Absent))
	s.wantsError(err, store.ErrConflict)
	s.wants(key, "one", first)

	s.remove(key, first)
	s.wants(key, "three", s.put(key, "three", hourly(store.Absent)))
}

func (s *suite) putExact() {
	key := s.key("k")
	_, err := s.store.Put(s.ctx, key, []byte("none"), hourly(12345))
	s.wantsError(err, store.ErrNotFound)
	s.wantsNothing(key)

	first := s.put(key, "one", hourly(store.Absent))
	second := s.put(key, "two", hourly(first))
	s.wants(key, "two", second)

	_, err = s.store.Put(s.ctx, key, []byte("late"), hourly(first))
	s.wantsError(err, store.ErrConflict)
	_, err = s.store.Put(s.ctx, key, []byte("wild"), hourly(math.MaxUint64-1))
	s.wantsError(err, store.ErrConflict)
	s.wants(key, "two", second)

	s.remove(key, second)
	_, err = s.store.Put(s.ctx, key, []byte("back"), hourly(second))
	s.wantsError(err, store.ErrNotFound)
	s.wantsNothing(key)
}

func (s *suite) delete() {
	key := s.key("k")
	s.wantsError(s.store.Delete(s.ctx, key, store.Any), store.ErrNotFound)
	s.wantsError(s.store.Delete(s.ctx, key, 12345), store.ErrNotFound)

	first := s.put(key, "one", hourly(store.Absent))
	second := s.put(key, "two", hourly(first))
	s.wantsError(s.store.Delete(s.ctx, key, first), store.ErrConflict)
	s.wants(key, "two", second)
	s.remove(key, second)
	s.wantsNothing(key)
	s.wantsError(s.store.Delete(s.ctx, key, second), store.ErrNotFound)

	s.put(key, "three", hourly(store.Any))
	s.remove(key, store.Any)
	s.wantsNothing(key)
}

func (s *suite) remove(key proto.Key, cas store.CAS) {
	s.Helper()
	if err := s.store.Delete(s.ctx, key, cas); err != nil {
		s.Fatalf("delete: %v", err)
	}
}

func (s *suite) invalidCalls() {
	key := s.key("k")
	for _, opts := range []store.PutOptions{{}, {CAS: store.Absent}, {TTL: -2}, {TTL: math.MinInt64}} {
		_, err := s.store.Put(s.ctx, key, []byte("v"), opts)
		s.wantsError(err, store.ErrInvalid)
	}
	s.wantsError(s.store.Delete(s.ctx, key, store.Absent), store.ErrInvalid)
	s.wantsNothing(key)
}

func (s *suite) casNeverRepeats() {
	key, other := s.key("k"), s.key("other")
	seen := map[store.CAS]bool{}
	note := func(cas store.CAS) store.CAS {
		if seen[cas] {
			s.Fatalf("the CAS %d came twice", cas)
		}
		seen[cas] = true
		return cas
	}
	for range 50 {
		cas := note(s.put(key, "same", hourly(store.Absent)))
		note(s.put(key, "same", hourly(cas)))
		cas = note(s.put(key, "same", hourly(store.Any)))
		s.put(other, "same", hourly(store.Any))
		s.remove(key, cas)
	}
	if s.h.Advance == nil {
		return
	}
	for range 10 {
		note(s.put(key, "same", hourly(store.Absent)))
		s.gone(key, hourly(0).TTL)
	}
}

func (s *suite) valuesAreNotShared() {
	key := s.key("k")
	value := []byte("original")
	cas, err := s.store.Put(s.ctx, key, value, hourly(store.Any))
	if err != nil {
		s.Fatal(err)
	}
	copy(value, "CHANGED!")
	s.wants(key, "original", cas)

	rec, err := s.store.Get(s.ctx, key)
	if err != nil {
		s.Fatal(err)
	}
	copy(rec.Value, "CHANGED!")
	_ = append(rec.Value, "and more"...)
	s.wants(key, "original", cas)

	s.put(key, "replaced", hourly(store.Any))
	if !bytes.Equal(rec.Value, []byte("CHANGED!")) {
		s.Errorf("a value that was read became %q", rec.Value)
	}
}

func (s *suite) sizes() {
	key := s.key("k")
	for _, n := range []int{0, 1, 4096, 1 << 20, store.MaxValueBytes} {
		value := ofLength(n)
		s.wants(key, value, s.put(key, value, hourly(store.Any)))
	}
	cas := s.put(key, "small", hourly(store.Any))
	_, err := s.store.Put(s.ctx, key, []byte(ofLength(store.MaxValueBytes+1)), hourly(store.Any))
	s.wantsError(err, store.ErrTooLarge)
	s.wants(key, "small", cas)

	if cas, err = s.store.Put(s.ctx, key, nil, hourly(cas)); err != nil {
		s.Fatalf("a nil value: %v", err)
	}
	s.wants(key, "", cas)
	zeroes := string(make([]byte, 300)) + "\xff\xfe\x00"
	s.wants(key, zeroes, s.put(key, zeroes, hourly(cas)))
}

func (s *suite) oddKeys() {
	room := proto.MaxKeyBytes - len(s.tenant) - len("/d/")
	written := map[string]store.CAS{}
	for _, id := range []string{
		"a", "A", " ", " a", "a ", "a/b", "a//b", "/", "//", "%", "a%", "a%20b", "_", "a_b", "'", `"`, "`", "''", `a"b'c`, `\`, "a\\b",
		"ünïcode", "日本語", "🙂", "e\u0301", "\u00e9", "a\x00b", "a\x00", "a\nb", "\t", "*", "?", "[a]", ";", "--", "$", "\u202e",
		strings.Repeat("x", room), strings.Repeat("é", room/2), strings.Repeat("x", room-1) + "y",
	} {
		key := proto.Key{Tenant: s.tenant, Kind: proto.KindDocument, ID: id}
		written[id] = s.put(key, "value of "+id, hourly(store.Absent))
	}
	for id, cas := range written {
		s.wants(proto.Key{Tenant: s.tenant, Kind: proto.KindDocument, ID: id}, "value of "+id, cas)
	}

	for name, key := range map[string]proto.Key{
		"one byte too long": {Tenant: s.tenant, Kind: proto.KindDocument, ID: strings.Repeat("x", room+1)},
		"no tenant":         {Kind: proto.KindDocument, ID: "x"},
		"no kind":           {Tenant: s.tenant, ID: "x"},
		"no id":             {Tenant: s.tenant, Kind: proto.KindDocument},
	} {
		s.Log(name)
		_, err := s.store.Get(s.ctx, key)
		s.wantsError(err, store.ErrInvalid)
		_, err = s.store.Put(s.ctx, key, []byte("v"), hourly(store.Any))
		s.wantsError(err, store.ErrInvalid)
		s.wantsError(s.store.Delete(s.ctx, key, store.Any), store.ErrInvalid)
	}
}

func (s *suite) keysDoNotMix() {
	keys := []proto.Key{
		{Tenant: s.tenant, Kind: proto.KindDocument, ID: "x"},
		{Tenant: s.tenant, Kind: proto.KindSession, ID: "x"},
		{Tenant: s.tenant + "2", Kind: proto.KindDocument, ID: "x"},
		{Tenant: s.tenant, Kind: proto.KindDocument, ID: "x/d/x"},
	}
	var tokens []store.CAS
	for _, key := range keys {
		tokens = append(tokens, s.put(key, key.Wire(), hourly(store.Absent)))
	}
	for i, key := range keys {
		s.wants(key, key.Wire(), tokens[i])
		s.remove(key, tokens[i])
	}
}
