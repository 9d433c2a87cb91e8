package storetest

import (
	"time"

	"klatch/store"
)

const day = 24 * time.Hour

func (s *suite) expiry() {
	key, forever := s.key("k"), s.key("forever")
	kept := s.put(forever, "kept", store.PutOptions{TTL: store.Forever})
	for _, ttl := range []time.Duration{time.Second, 20 * time.Millisecond} {
		began := time.Now()
		s.put(key, "short", store.PutOptions{CAS: store.Absent, TTL: ttl})
		s.gone(key, ttl)
		// The driver rounds to milliseconds, and its clock and ours may be read a moment apart.
		if lived := time.Since(began); s.h.Advance == nil && lived < ttl-2*time.Millisecond {
			s.Errorf("a record to live for %s was gone after %s", ttl, lived)
		}
	}
	s.wants(forever, "kept", kept)

	if s.h.Advance == nil {
		return
	}
	cas := s.put(key, "exact", store.PutOptions{TTL: 1500 * time.Millisecond})
	s.h.Advance(1499 * time.Millisecond)
	s.wants(key, "exact", cas)
	s.h.Advance(time.Millisecond + s.h.Rounding)
	s.wantsNothing(key)
}

// expiredIsAbsent checks that every verb sees an expired record as none.
func (s *suite) expiredIsAbsent() {
	key := s.key("k")
	const ttl = time.Second
	expired := func() store.CAS {
		cas := s.put(key, "old", store.PutOptions{CAS: store.Absent, TTL: ttl})
		s.gone(key, ttl)
		return cas
	}

	cas := expired()
	_, err := s.store.Put(s.ctx, key, []byte("new"), hourly(cas))
	s.wantsError(err, store.ErrNotFound)
	s.wantsError(s.store.Delete(s.ctx, key, cas), store.ErrNotFound)
	s.wantsError(s.store.Delete(s.ctx, key, store.Any), store.ErrNotFound)

	fresh := s.put(key, "new", hourly(store.Absent))
	if fresh == cas {
		s.Errorf("the CAS %d came twice", cas)
	}
	s.wants(key, "new", fresh)
	s.remove(key, fresh)

	expired()
	s.wants(key, "new", s.put(key, "new", hourly(store.Any)))
}

// writingRenewsTTL checks that the TTL of the last write is the one that counts, longer or shorter.
func (s *suite) writingRenewsTTL() {
	const short = time.Second
	longer, kept, shorter := s.key("longer"), s.key("kept"), s.key("shorter")
	s.put(longer, "v", store.PutOptions{TTL: short})
	s.put(kept, "v", store.PutOptions{TTL: short})
	s.put(shorter, "v", store.PutOptions{TTL: store.Forever})
	longerCAS := s.put(longer, "w", store.PutOptions{TTL: time.Hour})
	keptCAS := s.put(kept, "w", store.PutOptions{TTL: store.Forever})
	s.put(shorter, "w", store.PutOptions{TTL: short})
	s.gone(shorter, short)
	s.wants(longer, "w", longerCAS)
	s.wants(kept, "w", keptCAS)
}

// longTTLs are where drivers go wrong: Couchbase takes an expiry of more than 30 days for a date.
func (s *suite) longTTLs() {
	for name, ttl := range map[string]time.Duration{
		"29 days": 29 * day, "30 days": 30 * day, "30 days and 1 s": 30*day + time.Second, "31 days": 31 * day,
		"400 days": 400 * day, "forever": store.Forever,
	} {
		key := s.key(name)
		cas := s.put(key, name, store.PutOptions{CAS: store.Absent, TTL: ttl})
		s.wants(key, name, cas)
		cas = s.put(key, name, store.PutOptions{CAS: cas, TTL: ttl})
		s.wants(key, name, cas)
		if s.h.Advance == nil {
			continue
		}
		if ttl == store.Forever {
			s.h.Advance(10_000 * day)
			s.wants(key, name, cas)
			continue
		}
		s.h.Advance(ttl - time.Second)
		s.wants(key, name, cas)
		s.gone(key, time.Second)
	}
}
