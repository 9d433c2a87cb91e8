package sessions

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"
)

const (
	maxOperations = 10_000_000 // in a run, so that it ends by itself
	maxThreads    = 10_000     // at once, each of which has a connection
)

// options are the command line.
type options struct {
	base           *url.URL
	parents        int
	children       int
	attributes     int
	size           int
	updatePercent  int
	operationSleep time.Duration
	thinkTime      time.Duration
	iterations     int
	operations     int
	debug          bool
	json           bool
}

const usage = `Usage: klatch bench sessions [options]

Loads the test application of a cluster through a balancer and reports errors and times. Each parent thread
makes a session, lets its children read and update it at the same time, and ends it.

A run has at most 10 million operations, 10000 threads (-t times -ct) at once. The exit code is 0 if all went
well, 1 if there were errors or the run was interrupted, 2 for a wrong option.

Examples:
  klatch bench sessions -b http://127.0.0.1:8002 -t 16 -ct 2 -i 5 -ci 20 -a 20 -s 100 -ts 5
  klatch bench sessions -b http://127.0.0.1:8001 -ci 100 -ur 10 -o json

Options:
`

// parseOptions reads the command line. It returns flag.ErrHelp when it has printed the help.
func parseOptions(args []string, out io.Writer) (options, error) {
	var o options
	var sleepMs, thinkMs int
	var base, form string
	flags := flag.NewFlagSet("sessions", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&base, "b", "http://127.0.0.1:8002", "base `URL` of the balancer or of one application server")
	flags.IntVar(&o.parents, "t", 1, "parent `threads`, each with a session of its own")
	flags.IntVar(&o.children, "ct", 1, "`children` per parent, at work on the same session")
	flags.IntVar(&o.attributes, "a", 10, "`attributes` of a session")
	flags.IntVar(&o.size, "s", 100, "`bytes` of each attribute")
	flags.IntVar(&o.updatePercent, "ur", 50, "`percent` of a child's operations that are updates")
	flags.IntVar(&sleepMs, "os", 0, "`ms` that the application sleeps inside each operation")
	flags.IntVar(&thinkMs, "ts", 0, "`ms` between a child's operations")
	flags.IntVar(&o.iterations, "i", 1, "`sessions` that each parent makes, one after the other")
	flags.IntVar(&o.operations, "ci", 1, "`operations` of each child on a session")
	flags.BoolVar(&o.debug, "d", false, "print a line per operation")
	flags.StringVar(&form, "o", "text", "`form` of the report: text or json")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(out, usage)
			flags.SetOutput(out)
			flags.PrintDefaults()
		}
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	for _, c := range []struct {
		name            string
		value, from, to int
	}{
		{"-t", o.parents, 1, maxThreads},
		{"-ct", o.children, 1, 1_000},
		{"-a", o.attributes, 0, 10_000},
		{"-s", o.size, 0, 1 << 20},
		{"-ur", o.updatePercent, 0, 100},
		{"-os", sleepMs, 0, 60_000},
		{"-ts", thinkMs, 0, 600_000},
		{"-i", o.iterations, 1, maxOperations},
		{"-ci", o.operations, 0, maxOperations},
	} {
		if c.value < c.from || c.value > c.to {
			return o, fmt.Errorf("%s %d: use %d to %d", c.name, c.value, c.from, c.to)
		}
	}
	if threads := o.parents * o.children; threads > maxThreads {
		return o, fmt.Errorf("-t times -ct is %d threads at once: at most %d are allowed", threads, maxThreads)
	}
	if o.attributes == 0 && o.updatePercent > 0 {
		return o, errors.New("-a 0 leaves nothing to update: use -ur 0 with it")
	}
	if total := float64(o.parents) * float64(o.iterations) * (2 + float64(o.children)*float64(o.operations)); total > maxOperations {
		return o, fmt.Errorf("%.0f operations in all: at most %d are allowed", total, maxOperations)
	}
	if form != "text" && form != "json" {
		return o, fmt.Errorf("-o %q: use text or json", form)
	}
	parsed, err := url.Parse(base)
	if err != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Host == "" || parsed.RawQuery != "" || parsed.Fragment != "" {
		return o, fmt.Errorf("-b %q: use a URL such as http://127.0.0.1:8002", base)
	}
	parsed.Path = strings.TrimSuffix(parsed.Path, "/")
	o.base, o.json = parsed, form == "json"
	o.operationSleep = time.Duration(sleepMs) * time.Millisecond
	o.thinkTime = time.Duration(thinkMs) * time.Millisecond
	return o, nil
}
