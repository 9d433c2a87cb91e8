package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// console is where the demo says where everything is, and later what happens.
type console struct {
	mu    sync.Mutex // guards both writers, so that messages stay whole
	out   io.Writer
	notes io.Writer
}

// newConsole returns a console whose notes go where the text for people goes, or beside the JSON line.
func newConsole(opts Options) *console {
	c := &console{out: opts.Stdout, notes: opts.Stdout}
	if opts.JSON {
		c.notes = opts.Stderr
	}
	return c
}

// say tells what happens. What cannot be printed is not worth ending the cluster for.
func (c *console) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.notes, format, args...)
}

// announcement is the JSON line.
type announcement struct {
	Sticky    string     `json:"sticky"`
	Nonsticky string     `json:"nonsticky"`
	Nodes     []NodeInfo `json:"nodes"`
}

// announce says where everything is.
func (c *console) announce(opts Options, dir string, nodes []NodeInfo) error {
	a := announcement{
		Sticky:    "http://" + loopback(opts.BasePort+stickyPort),
		Nonsticky: "http://" + loopback(opts.BasePort+nonstickyPort),
		Nodes:     nodes,
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if opts.JSON {
		return json.NewEncoder(c.out).Encode(a)
	}
	_, err := io.WriteString(c.out, a.text(opts, dir))
	return err
}

// text is what people read.
func (a announcement) text(opts Options, dir string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "A klatch cluster of %d nodes is up.\n\n", len(a.Nodes))
	fmt.Fprintf(&text, "  sticky balancer      %s\n  non-sticky balancer  %s\n", a.Sticky, a.Nonsticky)
	for _, n := range a.Nodes {
		fmt.Fprintf(&text, "  %-4s api %s  app %s  admin %s\n", n.Name, n.API, n.App, n.Admin)
	}
	fmt.Fprintf(&text, "  logs and store       %s (n1.log, n2.log, …, klatch.db)\n", dir)
	klatch, port := opts.Binary, ""
	if here, err := os.Getwd(); err == nil {
		klatch = strings.TrimPrefix(klatch, here+"/")
	}
	if opts.BasePort != DefaultBasePort {
		port = fmt.Sprintf(" --base-port %d", opts.BasePort)
	}
	steps := [][2]string{
		{fmt.Sprintf("curl -c jar -b jar -X POST '%s/app?attributes=3'", a.Nonsticky), "make a session"},
		{fmt.Sprintf("curl -c jar -b jar -X PUT '%s/app?name=a0&value=hello'", a.Nonsticky), "change it: see node and version"},
		{fmt.Sprintf("curl -c jar -b jar %s/app", a.Nonsticky), "read it, on any node"},
		{fmt.Sprintf("%s bench sessions -b %s -t 16 -ct 2 -i 5 -ci 20 -ts 5", klatch, a.Nonsticky), "load"},
		{fmt.Sprintf("%s demo kill %s%s", klatch, a.Nodes[len(a.Nodes)-1].Name, port), "a node dies, the sessions live"},
		{fmt.Sprintf("%s demo add%s", klatch, port), "a node joins, live"},
		{fmt.Sprintf("%s members --admin %s", klatch, a.Nodes[0].Admin), "who is there"},
	}
	text.WriteString("\nTry, in another terminal:\n\n")
	for _, step := range steps {
		fmt.Fprintf(&text, "  %-88s # %s\n", step[0], step[1])
	}
	text.WriteString("\nCtrl-C ends everything.\n")
	return text.String()
}
