package stamps

import (
	"sync"

	"klatch/proto"
)

// maxRecent bounds what is told to every peer that exchanges its state with this one: some twenty kilobytes.
const maxRecent = 256

// recent keeps the latest stamps.
type recent struct {
	mu     sync.Mutex // guards all below
	stamps [maxRecent]proto.Item
	n      int // how many there were ever
}

func (r *recent) add(stamp proto.Stamp) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stamps[r.n%maxRecent] = stamp
	r.n++
}

func (r *recent) items() []proto.Item {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]proto.Item(nil), r.stamps[:min(r.n, maxRecent)]...)
}
