package history

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
)

// History is what clients asked and were answered, in the order of the start.
type History []Operation

// Dump writes one line of JSON for each operation.
func (h History) Dump(w io.Writer) error {
	buffered := bufio.NewWriter(w)
	encoder := json.NewEncoder(buffered)
	for _, o := range h {
		if err := encoder.Encode(o); err != nil {
			return fmt.Errorf("dump operation %d: %w", o.ID, err)
		}
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("dump the history: %w", err)
	}
	return nil
}

// Load reads what Dump wrote. A field that this release does not know is an error, since what it says could not
// be checked.
func Load(r io.Reader) (History, error) {
	decoder := json.NewDecoder(r)
	decoder.DisallowUnknownFields()
	var h History
	for {
		var o Operation
		err := decoder.Decode(&o)
		if err == io.EOF {
			return h, nil
		}
		if err != nil {
			return nil, fmt.Errorf("load operation %d of the history: %w", len(h), err)
		}
		h = append(h, o)
	}
}

// Where returns the operations that keep wants. What some checkers conclude from an operation that is missing,
// such as a delete, would be wrong: leave out reads only.
func (h History) Where(keep func(Operation) bool) History {
	var kept History
	for _, o := range h {
		if keep(o) {
			kept = append(kept, o)
		}
	}
	return kept
}

// ByKey ranges over the keys in order, with the operations of each.
func (h History) ByKey() iter.Seq2[string, History] {
	return h.by(func(o Operation) string { return o.Key })
}

// ByClient ranges over the clients in order, with the operations of each.
func (h History) ByClient() iter.Seq2[string, History] {
	return h.by(func(o Operation) string { return o.Client })
}

func (h History) by(name func(Operation) string) iter.Seq2[string, History] {
	return func(yield func(string, History) bool) {
		parts := map[string]History{}
		for _, o := range h {
			parts[name(o)] = append(parts[name(o)], o)
		}
		for _, name := range slices.Sorted(maps.Keys(parts)) {
			if !yield(name, parts[name]) {
				return
			}
		}
	}
}
