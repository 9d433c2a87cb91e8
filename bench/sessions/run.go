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

	"klatch/internal/clock"
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
	seed    uint64 // of the threads' choices

	mu    sync.Mutex // guards debug, so that lines stay whole
	debug io.Writer
}

// Main runs the tool with its command line and returns its exit code: 0 if all went well, 1 if there were
// errors or ctx ended early, 2 for a wrong command line. If ctx ends early, it reports what was done so far.
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
		// Below the idle limits of servers and balancers: the tool closes first, so a request does not meet a
		// connection that is being closed.
		IdleConnTimeout: 30 * time.Second,
	}
	defer transport.CloseIdleConnections()
	r := &run{
		options: opts,
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		stats: newStats(),
		seed:  rand.Uint64(),
		debug: stdout,
	}
	if opts.json {
		r.debug = stderr // stdout is for the one object
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
	for iteration := range r.options.iterations {
		if ctx.Err() != nil {
			return
		}
		session := &jar{}
		if r.timed(ctx, name, create, session, nil) {
			var children sync.WaitGroup
			for i := range r.options.children {
				number := firstChild + i + 1
				random := rand.New(rand.NewPCG(r.seed, uint64(number)<<32|uint64(iteration)))
				children.Go(func() { r.child(ctx, fmt.Sprintf("%s|child-%d", name, number), session, random) })
			}
			children.Wait()
		}
		if value, _ := session.get(); value != "" { // also one that was made, but not as it should be
			r.timed(ctx, name, remove, session, nil)
		}
	}
}

func (r *run) child(ctx context.Context, name string, session *jar, random *rand.Rand) {
	for i := range r.options.operations {
		if i > 0 && clock.Sleep(ctx, r.options.thinkTime) != nil {
			return
		}
		op := refresh
		if random.IntN(100) < r.options.updatePercent {
			op = update
		}
		r.timed(ctx, name, op, session, random)
	}
}

func (r *run) line(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.debug, format, args...)
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
