package cbnode

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/couchbase/gocbcore/v10/memd"
)

// firstCollectionID is where the ids of created collections start, as on the server, which keeps the small
// ones to itself.
const firstCollectionID = 8

// defaultName is the name of the scope and of its collection that are always there.
const defaultName = "_default"

// manifest is the list of scopes and collections of the bucket.
type manifest struct {
	// mu guards all below.
	mu sync.Mutex
	// uid counts the changes.
	uid    uint64
	nextID uint32
	scopes []*scope
}

// scope is a named set of collections.
type scope struct {
	id          uint32
	name        string
	collections []collection
}

type collection struct {
	id   uint32
	name string
}

func newManifest() *manifest {
	return &manifest{nextID: firstCollectionID, scopes: []*scope{{name: defaultName, collections: []collection{{name: defaultName}}}}}
}

// manifestError is a refusal in the server's words, by which clients recognise it, and with its HTTP status.
type manifestError struct {
	status int
	text   string
}

func (e manifestError) Error() string { return e.text }

func refused(status int, format string, arguments ...any) error {
	return manifestError{status, fmt.Sprintf(format, arguments...)}
}

func (m *manifest) find(name string) *scope {
	for _, s := range m.scopes {
		if s.name == name {
			return s
		}
	}
	return nil
}

func (s *scope) find(name string) int {
	for i, c := range s.collections {
		if c.name == name {
			return i
		}
	}
	return -1
}

func noScope(name string) error {
	return refused(http.StatusNotFound, "Scope with name %q is not found", name)
}

// id returns the id of a collection and the manifest's uid, or the status that says what is missing.
func (m *manifest) id(scopeName, name string) (uint32, uint64, memd.StatusCode) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.find(scopeName)
	if s == nil {
		return 0, m.uid, memd.StatusScopeUnknown
	}
	i := s.find(name)
	if i < 0 {
		return 0, m.uid, memd.StatusCollectionUnknown
	}
	return s.collections[i].id, m.uid, memd.StatusSuccess
}

// has says whether there is a collection with this id.
func (m *manifest) has(id uint32) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.scopes {
		for _, c := range s.collections {
			if c.id == id {
				return true
			}
		}
	}
	return false
}

func (m *manifest) createScope(name string) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.find(name) != nil {
		return 0, refused(http.StatusBadRequest, "Scope with name %q already exists", name)
	}
	m.scopes = append(m.scopes, &scope{id: m.nextID, name: name})
	m.nextID++
	m.uid++
	return m.uid, nil
}

func (m *manifest) createCollection(scopeName, name string) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.find(scopeName)
	if s == nil {
		return 0, noScope(scopeName)
	}
	if s.find(name) >= 0 {
		return 0, refused(http.StatusBadRequest, "Collection with name %q in scope %q already exists", name, scopeName)
	}
	s.collections = append(s.collections, collection{id: m.nextID, name: name})
	m.nextID++
	m.uid++
	return m.uid, nil
}

// dropCollection also returns the id of the dropped collection, whose documents go with it.
func (m *manifest) dropCollection(scopeName, name string) (uint64, uint32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.find(scopeName)
	if s == nil {
		return 0, 0, noScope(scopeName)
	}
	i := s.find(name)
	if i < 0 {
		return 0, 0, refused(http.StatusNotFound, "Collection with name %q in scope %q is not found", name, scopeName)
	}
	id := s.collections[i].id
	s.collections = append(s.collections[:i:i], s.collections[i+1:]...)
	m.uid++
	return m.uid, id, nil
}

// dropScope also returns the ids of the collections that went with it.
func (m *manifest) dropScope(name string) (uint64, []uint32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if name == defaultName {
		return 0, nil, refused(http.StatusBadRequest, "Deleting _default scope is not allowed")
	}
	for i, s := range m.scopes {
		if s.name != name {
			continue
		}
		var ids []uint32
		for _, c := range s.collections {
			ids = append(ids, c.id)
		}
		m.scopes = append(m.scopes[:i:i], m.scopes[i+1:]...)
		m.uid++
		return m.uid, ids, nil
	}
	return 0, nil, noScope(name)
}

// manifestJSON is the manifest as the server writes it. All its numbers are in hexadecimal.
type manifestJSON struct {
	UID    string      `json:"uid"`
	Scopes []scopeJSON `json:"scopes"`
}

type scopeJSON struct {
	UID         string           `json:"uid"`
	Name        string           `json:"name"`
	Collections []collectionJSON `json:"collections"`
}

type collectionJSON struct {
	UID  string `json:"uid"`
	Name string `json:"name"`
}

func hexadecimal[N uint32 | uint64](n N) string { return fmt.Sprintf("%x", n) }

func (m *manifest) document() manifestJSON {
	m.mu.Lock()
	defer m.mu.Unlock()
	doc := manifestJSON{UID: hexadecimal(m.uid)}
	for _, s := range m.scopes {
		one := scopeJSON{UID: hexadecimal(s.id), Name: s.name, Collections: []collectionJSON{}}
		for _, c := range s.collections {
			one.Collections = append(one.Collections, collectionJSON{UID: hexadecimal(c.id), Name: c.name})
		}
		doc.Scopes = append(doc.Scopes, one)
	}
	return doc
}
