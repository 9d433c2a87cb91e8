package sessions

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"time"
)

// Exit codes of Main.
const (
	ok     = 0
	failed = 1
	misuse = 2
)

// run is one execution of the tool.
type run struct {
	options options
	client  *http.Client
	stats   *stats

	mu  sync.Mutex // guards out, so that lines stay whole
	out io.Writer
}

// Main runs the tool with its command line and returns its exit code: 0 if all went well, 1 if there were
// errors, 2 for a wrong command line. If ctx ends early, it reports what was done so far.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parseOptions(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return ok
	case err != nil:
		fmt.Fprintf(stderr, "klatch bench sessions: %v (see -h)\n", err)
		return misuse
	}
	threads := opts.parents * opts.children
	transport := &http.Transport{
		MaxIdleConns:        threads,
		MaxIdleConnsPerHost: threads,
		DisableCompression:  true,
	}
	defer transport.CloseIdleConnections()
	r := &run{
		options: opts,
		client:  &http.Client{Transport: transport, Timeout: 30*time.Second + opts.operationSleep},
		stats:   newStats(),
		out:     stdout,
	}
	endProgress := r.showProgress(stderr)
	begin := time.Now()
	r.all(ctx)
	elapsed := time.Since(begin)
	endProgress()

	result := r.stats.report(elapsed, ctx.Err() != nil)
	write := result.writeText
	if opts.json {
		write = result.writeJSON
	}
	if err := write(stdout); err != nil {
		fmt.Fprintln(stderr, "klatch bench sessions:", err)
		return failed
	}
	if result.Errors > 0 || result.Interrupted {
		return failed
	}
	return ok
}

func (r *run) all(ctx context.Context) {
	var parents sync.WaitGroup
	for i := range r.options.parents {
		parents.Go(func() { r.parent(ctx, fmt.Sprintf("parent-%d", i+1), i*r.options.children) })
	}
	parents.Wait()
}

// parent makes sessions one after the other. Its children are numbered from firstChild+1.
func (r *run) parent(ctx context.Context, name string, firstChild int) {
	for range r.options.iterations {
		if ctx.Err() != nil {
			return
		}
		session := &jar{}
		if !r.timed(ctx, name, create, session) {
			continue
		}
		var children sync.WaitGroup
		for i := range r.options.children {
			children.Go(func() {
				r.child(ctx, fmt.Sprintf("%s|child-%d", name, firstChild+i+1), session)
			})
		}
		children.Wait()
		r.timed(ctx, name, remove, session)
	}
}

func (r *run) child(ctx context.Context, name string, session *jar) {
	for i := range r.options.operations {
		if i > 0 && !sleep(ctx, r.options.thinkTime) {
			return
		}
		op := refresh
		if rand.IntN(100) < r.options.updatePercent {
			op = update
		}
		r.timed(ctx, name, op, session)
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *run) line(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, format, args...)
}

// showProgress keeps a line on a terminal up to date until the returned function is called.
func (r *run) showProgress(w io.Writer) (end func()) {
	terminal, isFile := w.(*os.File)
	if !isFile || r.options.debug {
		return func() {}
	}
	if info, err := terminal.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return func() {}
	}
	total := r.options.parents * r.options.iterations * (2 + r.options.children*r.options.operations)
	stop := make(chan struct{})
	var showing sync.WaitGroup
	showing.Go(func() {
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				done, failures := r.stats.progress()
				fmt.Fprintf(w, "\r%d of %d operations, %d errors ", done, total, failures)
			case <-stop:
				fmt.Fprint(w, "\r\033[K")
				return
			}
		}
	})
	return func() {
		close(stop)
		showing.Wait()
	}
}
