package session

import (
	"bytes"
	"iter"
	"maps"
	"slices"
	"time"

	"klatch/proto"
	"klatch/store/near"
)

// Value is one attribute's content: opaque bytes and how to read them.
type Value = proto.Attribute

// Bytes returns an attribute of opaque bytes.
func Bytes(p []byte) Value { return Value{Kind: proto.Opaque, Data: p} }

// JSON returns an attribute whose content is the given JSON text. It is not checked.
func JSON(text []byte) Value { return Value{Kind: proto.JSON, Data: text} }

// Session is one caller's private view of a session. Changes stay in the view until it is committed. It is
// not safe for concurrent use; the data it hands out is shared and must not be changed.
type Session struct {
	id      string
	record  *proto.Session        // the revision that this is a view of; shared
	base    *near.Copy[*revision] // its copy; nil until a new session is saved
	changes map[string]*Value     // nil value: removed
}

func view(id string, copy *near.Copy[*revision]) *Session {
	return &Session{id: id, record: copy.Value.record, base: copy}
}

// ID returns the session's id. Whoever knows it is that session: do not log it.
func (s *Session) ID() string { return s.id }

// Version returns the version of the content that this view is based on; zero before the first save.
func (s *Session) Version() proto.Version { return s.record.Changed }

// Created returns when the session was made.
func (s *Session) Created() time.Time { return s.record.Created }

// LastAccess returns the last access that was recorded, at most a tenth of the idle limit before the true one.
func (s *Session) LastAccess() time.Time {
	if s.base == nil {
		return s.record.LastAccess
	}
	return time.UnixMilli(s.base.Value.touched.Load())
}

// Idle returns the idle limit; zero means never.
func (s *Session) Idle() time.Duration { return s.record.Idle }

// Absolute returns the absolute limit, counted from Created; zero means never.
func (s *Session) Absolute() time.Duration { return s.record.Absolute }

// Principal returns the user the session is bound to, or the empty string.
func (s *Session) Principal() string { return s.record.Principal }

// Route returns the name of the node that saved the session last.
func (s *Session) Route() string { return s.record.Route }

// Token returns what the client is to hold.
func (s *Session) Token() Token {
	return Token{ID: s.id, Version: s.Version(), Route: s.Route()}
}

// Get returns the attribute of that name.
func (s *Session) Get(name string) (Value, bool) {
	if v, ok := s.changes[name]; ok {
		if v == nil {
			return Value{}, false
		}
		return *v, true
	}
	v, ok := s.record.Attributes[name]
	return v, ok
}

// Set sets an attribute. The session keeps v.Data; do not change it afterwards.
func (s *Session) Set(name string, v Value) { s.change(name, &v) }

// Remove removes an attribute, if there is one.
func (s *Session) Remove(name string) { s.change(name, nil) }

// Replace makes attributes the whole content: what is not among them is removed.
func (s *Session) Replace(attributes map[string]Value) {
	for name := range s.record.Attributes {
		s.Remove(name)
	}
	for name := range s.changes {
		s.Remove(name)
	}
	for name, v := range attributes {
		s.Set(name, v)
	}
}

func (s *Session) change(name string, v *Value) {
	if s.changes == nil {
		s.changes = map[string]*Value{}
	}
	s.changes[name] = v
}

// Len returns the number of attributes.
func (s *Session) Len() int {
	n := len(s.record.Attributes)
	for name, v := range s.changes {
		_, had := s.record.Attributes[name]
		switch {
		case v != nil && !had:
			n++
		case v == nil && had:
			n--
		}
	}
	return n
}

// All ranges over the attributes in the order of their names.
func (s *Session) All() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		all := maps.Clone(s.record.Attributes)
		s.applyTo(all)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if !yield(name, all[name]) {
				return
			}
		}
	}
}

// applyTo makes the view's changes on attributes and reports whether that changed anything.
func (s *Session) applyTo(attributes map[string]Value) bool {
	changed := false
	for name, v := range s.changes {
		old, had := attributes[name]
		switch {
		case v == nil && had:
			delete(attributes, name)
		case v != nil && !(had && same(old, *v)):
			attributes[name] = *v
		default:
			continue
		}
		changed = true
	}
	return changed
}

func same(a, b Value) bool { return a.Kind == b.Kind && bytes.Equal(a.Data, b.Data) }
