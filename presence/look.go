package presence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"klatch/internal/clock"
	"klatch/proto"
	"klatch/store"
)

// look reads the index and the records of the nodes that are not heard, and reports who is alive.
func (p *Presence) look() error {
	began := p.opts.Now()
	names, _, err := p.index(p.ctx)
	if err != nil {
		return err
	}
	alive := []proto.Origin{p.opts.Self}
	var stale []string
	for _, name := range names {
		if name == p.opts.Self.Node {
			continue
		}
		if boot, ok := p.opts.Heard(name); ok {
			alive = append(alive, proto.Origin{Node: name, Boot: boot})
			delete(p.seen, name)
			delete(p.missing, name)
			continue
		}
		origin, ok, err := p.sight(name)
		switch {
		case err != nil:
			return err
		case ok:
			alive = append(alive, origin)
		case p.longMissing(name):
			stale = append(stale, name)
		}
	}
	p.opts.Report(began, alive)
	if slices.Contains(names, p.opts.Self.Node) && len(stale) == 0 {
		return nil
	}
	return p.list(stale)
}

// list adds this node's name to the index and takes those out that have had no record for long.
func (p *Presence) list(stale []string) error {
	p.leaving.Lock()
	defer p.leaving.Unlock()
	if p.gone {
		return nil
	}
	err := p.edit(p.ctx, func(names []string) []string {
		for _, name := range stale {
			names = without(names, name)
		}
		return append(without(names, p.opts.Self.Node), p.opts.Self.Node)
	})
	if err != nil {
		return err
	}
	for _, name := range stale {
		delete(p.missing, name)
		delete(p.seen, name)
	}
	return nil
}

// sight looks at a node's record and reports false if there is none that is being renewed.
func (p *Presence) sight(name string) (proto.Origin, bool, error) {
	now := p.opts.Now()
	ctx, cancel := context.WithTimeout(p.ctx, storeTimeout)
	defer cancel()
	record, err := p.opts.Store.Get(ctx, proto.NodeKey(p.opts.Tenant, name))
	if errors.Is(err, store.ErrNotFound) {
		delete(p.seen, name)
		return proto.Origin{}, false, nil
	}
	if err != nil {
		return proto.Origin{}, false, fmt.Errorf("read the record of node %s: %w", name, err)
	}
	decoded, err := proto.DecodeNodeRecord(record.Value)
	if err != nil {
		return proto.Origin{}, false, err
	}
	last, ok := p.seen[name]
	if !ok || last.cas != record.CAS {
		last = sighting{record.CAS, now}
		p.seen[name] = last
	}
	if clock.Elapsed(last.since, now) > lapseAfter {
		return proto.Origin{}, false, nil
	}
	delete(p.missing, name)
	return proto.Origin{Node: name, Boot: decoded.Boot}, true, nil
}

// longMissing reports whether a listed name has had no record for long.
func (p *Presence) longMissing(name string) bool {
	now := p.opts.Now()
	since, ok := p.missing[name]
	if !ok {
		p.missing[name] = now
		return false
	}
	return now.Sub(since) > forgetAfter
}

// index returns the names listed, and the revision of the list.
func (p *Presence) index(ctx context.Context) (names []string, cas store.CAS, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	record, err := p.opts.Store.Get(ctx, proto.NodeIndexKey(p.opts.Tenant))
	if errors.Is(err, store.ErrNotFound) {
		return nil, store.Absent, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read the index of nodes: %w", err)
	}
	index, err := proto.DecodeNodeIndex(record.Value)
	if err != nil {
		return nil, 0, err
	}
	return index.Names, record.CAS, nil
}

// edit changes the index by compare-and-swap, until it succeeds, nothing is to be changed, or ctx ends.
func (p *Presence) edit(ctx context.Context, change func(names []string) []string) error {
	pause := 5 * time.Millisecond
	for {
		names, cas, err := p.index(ctx)
		if err != nil {
			return err
		}
		next := change(slices.Clone(names))
		slices.Sort(next)
		if slices.Equal(next, names) {
			return nil
		}
		err = p.putIndex(ctx, next, cas)
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("change the index of nodes: %w", ctx.Err())
		case <-time.After(pause):
			pause = min(2*pause, 100*time.Millisecond)
		}
	}
}

func (p *Presence) putIndex(ctx context.Context, names []string, cas store.CAS) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	options := store.PutOptions{CAS: cas, TTL: store.Forever}
	if _, err := p.opts.Store.Put(ctx, proto.NodeIndexKey(p.opts.Tenant), proto.NodeIndex{Names: names}.Encode(), options); err != nil {
		return fmt.Errorf("change the index of nodes: %w", err)
	}
	return nil
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(names, func(n string) bool { return n == name })
}
