package session

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"klatch/internal/task"
	"klatch/proto"
	"klatch/store"
	"klatch/store/near"
)

// DefaultTenant is the tenant of a manager that is told no other.
const DefaultTenant = "default"

// Never is the limit of a session that does not end by itself.
const Never time.Duration = -1

// Options configure a [Manager]. Store, News, Node and Writer are required.
type Options struct {
	Store  store.Store
	News   near.Publisher
	Node   string // this node's name: the route of the sessions it saves
	Writer uint64 // this boot of the node: new at each start

	Tenant   string        // default DefaultTenant
	Idle     time.Duration // idle limit of new sessions. Default 30 m; Never for none
	Absolute time.Duration // absolute limit of new sessions. Default Never
	Conflict Conflict      // what a commit does by default. Default Merge
	MaxBytes int           // of one stored session. Default 1 MiB
	Near     Near
	Trusted  func(now time.Time) bool // see near.Options. Default: always

	Clock *proto.Clock     // the node's versions. Default a clock of its own over Now
	Now   func() time.Time // default time.Now
	Rand  io.Reader        // of ids. Default crypto/rand
}

// Near bounds the near cache of a manager; see near.Options.
type Near struct {
	MaxBytes uint64
	MaxAge   time.Duration
}

// Conflict says what a commit does about an attribute that somebody else changed after the view was loaded.
type Conflict uint8

const (
	// DefaultConflict takes the manager's own setting.
	DefaultConflict Conflict = iota
	// Merge lets the last writer win on that attribute. Other attributes keep both writers' changes.
	Merge
	// Strict refuses with a ConflictError and writes nothing.
	Strict
)

// ParseConflict reads the name that configuration and the HTTP API use.
func ParseConflict(s string) (Conflict, error) {
	switch s {
	case "merge":
		return Merge, nil
	case "strict":
		return Strict, nil
	default:
		return 0, fmt.Errorf("%w: unknown conflict mode %.32q: use merge or strict", ErrInvalid, s)
	}
}

// Manager keeps the sessions of one tenant on one node. It is safe for concurrent use.
type Manager struct {
	opts Options
	near *near.Cache[*revision]

	touching chan struct{} // a place for each access that is recorded in the background
	tasks    task.Group    // these

	unrecorded unrecorded
}

// New returns a manager. Close ends it.
func New(opts Options) (*Manager, error) {
	if opts.Store == nil || opts.News == nil || opts.Node == "" || opts.Writer == 0 {
		return nil, fmt.Errorf("%w: Store, News, Node and Writer are required", ErrInvalid)
	}
	if opts.Tenant == "" {
		opts.Tenant = DefaultTenant
	}
	if opts.Idle == 0 {
		opts.Idle = 30 * time.Minute
	}
	if opts.Absolute == 0 {
		opts.Absolute = Never
	}
	if opts.Conflict == DefaultConflict {
		opts.Conflict = Merge
	}
	if opts.MaxBytes == 0 {
		opts.MaxBytes = 1 << 20
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Clock == nil {
		opts.Clock = proto.NewClock(opts.Now)
	}
	if opts.Rand == nil {
		opts.Rand = rand.Reader
	}
	m := &Manager{opts: opts, touching: make(chan struct{}, maxTouches)}
	cache, err := near.New(near.Options[*revision]{
		Store:    opts.Store,
		Decode:   m.decode,
		News:     opts.News,
		MaxBytes: opts.Near.MaxBytes,
		MaxAge:   opts.Near.MaxAge,
		Trusted:  opts.Trusted,
		Now:      opts.Now,
	})
	if err != nil {
		return nil, err
	}
	m.near = cache
	return m, nil
}

// Close waits until the accesses under way are recorded, tries those again that the store has not taken, and ends the
// manager's reads. Its error says how many sessions may end early because their last access is not recorded.
func (m *Manager) Close() error {
	m.tasks.Close()
	err := m.flush()
	m.near.Close()
	return err
}

// MaxBytes returns the size limit of one stored session.
func (m *Manager) MaxBytes() int { return m.opts.MaxBytes }

// Stats returns the counts of the near cache.
func (m *Manager) Stats() near.Stats { return m.near.Stats() }

// Apply takes news from a peer. News of other tenants and kinds is not for this manager and is ignored.
func (m *Manager) Apply(item proto.Item) {
	switch it := item.(type) {
	case proto.Invalidate:
		if m.owns(it.Key) {
			m.opts.Clock.Observe(it.Version)
			m.near.Apply(it)
		}
	case proto.Touched:
		if m.owns(it.Key) {
			if copy, ok := m.near.Peek(it.Key); ok {
				copy.Value.noteTouch(it.LastAccess)
			}
		}
	}
}

// Fence makes every copy be checked against the store before its next use.
func (m *Manager) Fence() { m.near.Fence() }

func (m *Manager) owns(key proto.Key) bool {
	return key.Kind == proto.KindSession && key.Tenant == m.opts.Tenant
}

func (m *Manager) key(id string) proto.Key {
	return proto.Key{Tenant: m.opts.Tenant, Kind: proto.KindSession, ID: id}
}

func (m *Manager) decode(_ proto.Key, value []byte) (*revision, error) {
	record, err := proto.DecodeSession(value)
	if errors.Is(err, proto.ErrCorrupt) {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if err != nil {
		return nil, err
	}
	m.opts.Clock.Observe(record.Version)
	return newRevision(record, len(value)), nil
}
