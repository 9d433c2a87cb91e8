package cbnode

import (
	"sync"
	"time"

	"github.com/couchbase/gocbcore/v10/memd"
)

const (
	// maxValueBytes is the largest document that Couchbase takes.
	maxValueBytes = 20 << 20
	// maxKeyBytes bounds keys in the default collection, and maxKeyBytesNamed in all others, whose ids
	// may take up to four bytes more on the wire.
	maxKeyBytes      = 250
	maxKeyBytesNamed = 246
	// relativeExpiry is the longest expiry that is a number of seconds. Larger ones are Unix times.
	relativeExpiry = 30 * 24 * 60 * 60
	// casOfLocked is the CAS that everyone but the holder of the lock sees.
	casOfLocked = 1<<64 - 1

	defaultLockSeconds, maxLockSeconds = 15, 30
	// sweepEvery is the number of writes between two collections of expired documents.
	sweepEvery = 4096
)

// documentKey is a key in its collection.
type documentKey struct {
	collection uint32
	key        string
}

// document is one revision of a document.
type document struct {
	value []byte
	flags uint32
	cas   uint64
	// expiry is a Unix time by the node's clock, or zero for never.
	expiry int64
	// lockedUntil is the end of a lock, or zero.
	lockedUntil time.Time
	sequence    uint64
}

// documents are the documents of the bucket.
type documents struct {
	now func() time.Time

	// mu guards all below.
	mu       sync.Mutex
	byKey    map[documentKey]document
	lastCAS  uint64
	sequence uint64
}

func newDocuments(now func() time.Time) *documents {
	return &documents{now: now, byKey: map[documentKey]document{}}
}

// live returns the document of key unless it has expired, which it does in the second after its expiry:
// that is how the server compares, so that a document never goes early.
func (d *documents) live(key documentKey, now time.Time) (document, bool) {
	doc, ok := d.byKey[key]
	if ok && doc.expiry != 0 && doc.expiry < now.Unix() {
		delete(d.byKey, key)
		return document{}, false
	}
	return doc, ok
}

// locked says whether a request with this CAS meets somebody else's lock.
func (doc document) locked(now time.Time, cas uint64) bool {
	return now.Before(doc.lockedUntil) && cas != doc.cas
}

// nextCAS returns a CAS that no document ever had. Like the server's it looks like a time in nanoseconds.
func (d *documents) nextCAS(now time.Time) uint64 {
	d.lastCAS = max(d.lastCAS+1, uint64(max(now.UnixNano(), 1)))
	return d.lastCAS
}

// expiryDate turns the expiry of a request into a time by the node's clock. Dates come from the client's
// clock, which is the machine's even where the test owns the node's, so they are carried over.
func (d *documents) expiryDate(expiry uint32, now time.Time) int64 {
	switch {
	case expiry == 0:
		return 0
	case expiry <= relativeExpiry:
		return now.Unix() + int64(expiry)
	default:
		return int64(expiry) + d.aheadOfClients(now)
	}
}

// clientDate is the reverse of expiryDate, for answers.
func (d *documents) clientDate(expiry int64) uint32 {
	if expiry == 0 {
		return 0
	}
	return uint32(expiry - d.aheadOfClients(d.now()))
}

// aheadOfClients is how many seconds the node's clock is ahead of the machine's.
func (d *documents) aheadOfClients(now time.Time) int64 {
	return int64(time.Until(now).Round(time.Second) / time.Second)
}

// get returns the document with the CAS that everyone may see.
func (d *documents) get(key documentKey) (document, memd.StatusCode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	doc, ok := d.live(key, now)
	if !ok {
		return document{}, memd.StatusKeyNotFound
	}
	if doc.locked(now, 0) {
		doc.cas = casOfLocked
	}
	return doc, memd.StatusSuccess
}

// storing is a request to store a document.
type storing struct {
	command        memd.CmdCode
	cas            uint64
	value          []byte
	flags          uint32
	expiry         uint32
	preserveExpiry bool
}

// store does SET, ADD and REPLACE.
func (d *documents) store(key documentKey, s storing) (document, memd.StatusCode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	old, exists := d.live(key, now)
	switch {
	case s.command == memd.CmdAdd && s.cas != 0:
		return document{}, memd.StatusInvalidArgs
	case s.command == memd.CmdAdd && exists:
		return document{}, memd.StatusKeyExists
	case !exists && (s.cas != 0 || s.command == memd.CmdReplace):
		return document{}, memd.StatusKeyNotFound
	case exists && old.locked(now, s.cas):
		return document{}, memd.StatusLocked
	case exists && s.cas != 0 && s.cas != old.cas:
		return document{}, memd.StatusKeyExists
	}
	doc := document{value: s.value, flags: s.flags, expiry: d.expiryDate(s.expiry, now)}
	if exists && s.preserveExpiry {
		doc.expiry = old.expiry
	}
	return d.put(key, doc, now), memd.StatusSuccess
}

// put stores a new revision.
func (d *documents) put(key documentKey, doc document, now time.Time) document {
	d.sequence++
	doc.cas, doc.sequence = d.nextCAS(now), d.sequence
	d.byKey[key] = doc
	if d.sequence%sweepEvery == 0 {
		for each := range d.byKey {
			d.live(each, now)
		}
	}
	return doc
}

// remove does DELETE.
func (d *documents) remove(key documentKey, cas uint64) (document, memd.StatusCode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	old, exists := d.live(key, now)
	switch {
	case !exists:
		return document{}, memd.StatusKeyNotFound
	case old.locked(now, cas):
		return document{}, memd.StatusLocked
	case cas != 0 && cas != old.cas:
		return document{}, memd.StatusKeyExists
	}
	delete(d.byKey, key)
	d.sequence++
	return document{cas: d.nextCAS(now), sequence: d.sequence}, memd.StatusSuccess
}

// touch does TOUCH and GAT: a new expiry, and with it a new CAS.
func (d *documents) touch(key documentKey, expiry uint32) (document, memd.StatusCode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	doc, exists := d.live(key, now)
	switch {
	case !exists:
		return document{}, memd.StatusKeyNotFound
	case doc.locked(now, 0):
		return document{}, memd.StatusLocked
	}
	doc.expiry = d.expiryDate(expiry, now)
	return d.put(key, doc, now), memd.StatusSuccess
}

// lock does GETL: only who knows the CAS that it returns may write until the lock ends.
func (d *documents) lock(key documentKey, seconds uint32) (document, memd.StatusCode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	doc, exists := d.live(key, now)
	switch {
	case !exists:
		return document{}, memd.StatusKeyNotFound
	case doc.locked(now, 0):
		return document{}, memd.StatusLocked
	}
	if seconds == 0 || seconds > maxLockSeconds {
		seconds = defaultLockSeconds
	}
	doc.lockedUntil = now.Add(time.Duration(seconds) * time.Second)
	return d.put(key, doc, now), memd.StatusSuccess
}

// unlock does UNL.
func (d *documents) unlock(key documentKey, cas uint64) memd.StatusCode {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	doc, exists := d.live(key, now)
	switch {
	case !exists:
		return memd.StatusKeyNotFound
	case !now.Before(doc.lockedUntil):
		return memd.StatusNotLocked
	case cas != doc.cas:
		return memd.StatusLocked
	}
	doc.lockedUntil = time.Time{}
	d.byKey[key] = doc
	return memd.StatusSuccess
}

// drop removes all documents of a collection.
func (d *documents) drop(collection uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key := range d.byKey {
		if key.collection == collection {
			delete(d.byKey, key)
		}
	}
}

// count returns the number of live documents.
func (d *documents) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, count := d.now(), 0
	for key := range d.byKey {
		if _, ok := d.live(key, now); ok {
			count++
		}
	}
	return count
}
