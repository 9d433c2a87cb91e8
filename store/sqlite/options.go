package sqlite

import (
	"fmt"
	"runtime"
	"time"

	"go.uber.org/zap"

	"klatch/store"
)

// Synchronous says how hard a commit presses its data onto the disk.
type Synchronous string

const (
	// Full waits for the disk at every commit: an acknowledged write survives the loss of power.
	Full Synchronous = "full"
	// Normal waits only when the log is copied into the file: an acknowledged write survives the death of
	// the process, but the last ones before a loss of power may be undone.
	Normal Synchronous = "normal"
)

// Options configure a Store. Only Path is required.
type Options struct {
	// Path is the file. It is created, for its owner alone, with the directory that it lies in.
	Path string

	// Now is the clock that decides what has expired. The default is time.Now.
	Now func() time.Time

	// Logger takes what no caller is told, such as a sweep that failed. The default logs nothing.
	Logger *zap.Logger

	// Synchronous is Full by default.
	Synchronous Synchronous

	// Readers is how many reads run at once, each on a connection of its own. The default is GOMAXPROCS,
	// but at least 2.
	Readers int

	// BusyTimeout bounds how long an operation waits for other processes that hold the file before it
	// fails with store.ErrUnavailable. The default is 5 s.
	BusyTimeout time.Duration

	// SweepInterval is the time between two sweeps that delete expired records. They are invisible anyhow;
	// sweeping only frees the room. The default is 1 min.
	SweepInterval time.Duration
}

func (o Options) withDefaults() (Options, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Synchronous == "" {
		o.Synchronous = Full
	}
	if o.Readers == 0 {
		o.Readers = max(2, runtime.GOMAXPROCS(0))
	}
	if o.BusyTimeout == 0 {
		o.BusyTimeout = 5 * time.Second
	}
	if o.SweepInterval == 0 {
		o.SweepInterval = time.Minute
	}
	switch {
	case o.Path == "":
		return o, fmt.Errorf("%w: sqlite: no path given: set Options.Path", store.ErrInvalid)
	case o.Synchronous != Full && o.Synchronous != Normal:
		return o, fmt.Errorf("%w: sqlite: synchronous is %q: use %q or %q", store.ErrInvalid, o.Synchronous, Full, Normal)
	case o.Readers < 0, o.BusyTimeout < 0, o.SweepInterval < 0:
		return o, fmt.Errorf("%w: sqlite: readers, busy time-out and sweep interval cannot be negative", store.ErrInvalid)
	}
	return o, nil
}
