package memory

import (
	"container/heap"
	"time"
)

// notQueued is the index of an entry that never expires.
const notQueued = -1

// expiries are the entries that expire, soonest first, as a heap. Every entry knows its place, so that
// writing a record again moves it instead of adding to the heap.
type expiries []*entry

func (q expiries) Len() int           { return len(q) }
func (q expiries) Less(i, j int) bool { return q[i].expires.Before(q[j].expires) }

func (q expiries) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *expiries) Push(x any) {
	e := x.(*entry)
	e.index = len(*q)
	*q = append(*q, e)
}

// Pop implements heap.Interface.
func (q *expiries) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	e.index = notQueued
	return e
}

// set puts e where its time of expiry belongs.
func (q *expiries) set(e *entry) {
	switch {
	case e.expires.IsZero():
		q.drop(e)
	case e.index == notQueued:
		heap.Push(q, e)
	default:
		heap.Fix(q, e.index)
	}
}

func (q *expiries) drop(e *entry) {
	if e.index != notQueued {
		heap.Remove(q, e.index)
	}
}

// collectAtOnce bounds what one write collects. It is more than one, so that collecting outruns writing.
const collectAtOnce = 4

// collect removes a few expired records. Every write pays for it, so that the store needs no goroutine
// and holds no more expired records than writes can outrun. The caller holds mu.
func (s *Store) collect(now time.Time) {
	for range collectAtOnce {
		if len(s.expiries) == 0 || s.expiries[0].live(now) {
			return
		}
		s.remove(s.expiries[0])
	}
}

// remove forgets e. The caller holds mu.
func (s *Store) remove(e *entry) {
	s.expiries.drop(e)
	delete(s.records, e.key)
}
