package cluster

import "time"

// delayBounds are the upper bounds of the propagation histogram's buckets.
var delayBounds = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	500 * time.Millisecond, time.Second, 2500 * time.Millisecond,
}

// histogram counts delays in buckets. Its owner guards it.
type histogram struct {
	buckets [len(delayBounds)]uint64 // by the first bound that is not below
	count   uint64
	sum     time.Duration
}

func (h *histogram) observe(d time.Duration) {
	h.count++
	h.sum += d
	for i, bound := range delayBounds {
		if d <= bound {
			h.buckets[i]++
			return
		}
	}
}

// Delays is a histogram of delays.
type Delays struct {
	Count   uint64
	Sum     time.Duration
	Buckets map[time.Duration]uint64 // cumulative: how many were at most as long
}

func (h *histogram) delays() Delays {
	d := Delays{Count: h.count, Sum: h.sum, Buckets: make(map[time.Duration]uint64, len(delayBounds))}
	total := uint64(0)
	for i, bound := range delayBounds {
		total += h.buckets[i]
		d.Buckets[bound] = total
	}
	return d
}
