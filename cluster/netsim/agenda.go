package netsim

import (
	"cmp"
	"container/heap"
	"time"
)

// appointment is something that happens at a time.
type appointment struct {
	at  time.Time
	tie uint64 // of the link
	seq uint64
	do  func(now time.Time) // called with the network's lock held
}

// agenda is a heap of appointments, the first one on top.
type agenda []appointment

func (a agenda) Len() int      { return len(a) }
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a agenda) Less(i, j int) bool {
	return cmp.Or(a[i].at.Compare(a[j].at), cmp.Compare(a[i].tie, a[j].tie), cmp.Compare(a[i].seq, a[j].seq)) < 0
}

// Push implements heap.Interface.
func (a *agenda) Push(x any) { *a = append(*a, x.(appointment)) }

// Pop implements heap.Interface.
func (a *agenda) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	(*a)[last] = appointment{} // lets go of the packet
	*a = (*a)[:last]
	return x
}

// at makes an appointment. The network's lock is held.
func (n *Network) at(when time.Time, tie uint64, do func(now time.Time)) {
	if n.closed {
		return
	}
	n.made++
	heap.Push(&n.due, appointment{at: when, tie: tie, seq: n.made, do: do})
	if n.due[0].seq == n.made {
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
}

// run keeps the appointments, one after the other.
func (n *Network) run() {
	next := time.NewTimer(time.Hour)
	defer next.Stop()
	for {
		if wait, ok := n.keep(); ok {
			next.Reset(wait)
		}
		select {
		case <-n.stop:
			return
		case <-n.wake:
		case <-next.C:
		}
	}
}

// keep does what is due, and returns how long it is until the next appointment, if there is any.
func (n *Network) keep() (wait time.Duration, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.due) > 0 {
		now := time.Now()
		if wait := n.due[0].at.Sub(now); wait > 0 {
			return wait, true
		}
		heap.Pop(&n.due).(appointment).do(now)
	}
	return 0, false
}
