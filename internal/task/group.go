// Package task runs goroutines whose owner waits for their end.
package task

import "sync"

// Group is a set of goroutines that belong to one owner. The zero value is ready to use.
type Group struct {
	mu      sync.Mutex // guards closed, and Go against Close
	closed  bool
	running sync.WaitGroup
}

// Go runs f in a goroutine and reports true, or does nothing and reports false after Close.
func (g *Group) Go(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running.Go(f)
	return true
}

// Close lets no further goroutine begin, and waits for those that run.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.running.Wait()
}
