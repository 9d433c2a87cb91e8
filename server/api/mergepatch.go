package api

import (
	"bytes"
	"encoding/json"
	"fmt"

	"klatch/proto"
	"klatch/session"
)

// mergePatch is a JSON merge patch (RFC 7396) of a session's attributes.
type mergePatch map[string]json.RawMessage

// UnmarshalJSON implements json.Unmarshaler.
func (p *mergePatch) UnmarshalJSON(text []byte) error {
	return unmarshalNamed(text, (*map[string]json.RawMessage)(p))
}

// maxPatchDepth bounds objects in objects of a patch. Each level reads again what is below it, so without a bound
// one small request could keep a node busy for long.
const maxPatchDepth = 64

// applyTo patches the attributes of s: null removes one, an object is merged into an object, anything else
// replaces.
func (p mergePatch) applyTo(s *session.Session) error {
	for name, patch := range p {
		if isNull(patch) {
			s.Remove(name)
			continue
		}
		var target json.RawMessage
		if old, ok := s.Get(name); ok && old.Kind == proto.JSON {
			target = old.Data
		}
		merged, err := merge(target, patch, maxPatchDepth)
		if err != nil {
			return err
		}
		s.Set(name, session.JSON(merged))
	}
	return nil
}

// merge is the algorithm of RFC 7396, section 2, on texts, so that numbers stay as they were written. A nil
// target stands for a value that is not there; depth is how many levels it may still go down.
func merge(target, patch json.RawMessage, depth int) (json.RawMessage, error) {
	if !isObject(patch) {
		return patch, nil
	}
	if depth == 0 {
		return nil, fmt.Errorf("%w: a merge patch may nest objects %d deep; replace the attributes by PUT instead", session.ErrInvalid, maxPatchDepth)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(patch, &members); err != nil {
		return nil, err
	}
	merged := map[string]json.RawMessage{}
	if isObject(target) {
		if err := json.Unmarshal(target, &merged); err != nil {
			return nil, err
		}
	}
	for name, member := range members {
		if isNull(member) {
			delete(merged, name)
			continue
		}
		value, err := merge(merged[name], member, depth-1)
		if err != nil {
			return nil, err
		}
		merged[name] = value
	}
	return encodeJSON(merged)
}

func isNull(text json.RawMessage) bool { return string(bytes.TrimSpace(text)) == "null" }

func isObject(text json.RawMessage) bool {
	text = bytes.TrimSpace(text)
	return len(text) > 0 && text[0] == '{'
}
