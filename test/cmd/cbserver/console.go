package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"klatch/test/cbnode"
)

const help = `freeze                 hang: keep connections, answer nothing
thaw                   go on, with what waits first
stop                   close the ports; keep the documents
start                  open them again
disconnect             close all connections
fault NAME [PERCENT [BEFORE AFTER]]
                       do that to so many of the writes, by default 100;
                       names: none, drop-answer, drop-request, close-after, close-before, refuse;
                       BEFORE and AFTER delay applying and answering, for example 50ms 1s
documents              how many documents there are
help                   this`

// console carries out commands, one at a time.
type console struct {
	node *cbnode.Node
	// mu is held while a command runs.
	mu sync.Mutex
}

// answer carries out a command and returns what to say: ok, an answer, or "error: " and why.
func (c *console) answer(line string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	words := strings.Fields(line)
	if len(words) == 0 {
		return "error: no command; try help"
	}
	switch words[0] {
	case "freeze":
		c.node.Freeze()
	case "thaw":
		c.node.Thaw()
	case "stop":
		c.node.Stop()
	case "start":
		if err := c.node.Restart(); err != nil {
			return "error: " + err.Error()
		}
	case "disconnect":
		c.node.Disconnect()
	case "fault":
		hook, err := parseFault(words[1:])
		if err != nil {
			return "error: " + err.Error()
		}
		c.node.SetHook(hook)
	case "documents":
		return strconv.Itoa(c.node.Documents())
	case "help":
		return help
	default:
		return fmt.Sprintf("error: no command %q; try help", words[0])
	}
	return "ok"
}

// parseFault returns the hook of a fault command.
func parseFault(words []string) (cbnode.Hook, error) {
	if len(words) != 1 && len(words) != 2 && len(words) != 4 {
		return nil, fmt.Errorf("fault takes a name, then maybe a percentage, then maybe two durations")
	}
	fault, ok := cbnode.ParseFault(words[0])
	if !ok {
		return nil, fmt.Errorf("no fault %q; try help", words[0])
	}
	action, percent := cbnode.Action{Fault: fault}, 100.0
	var err error
	if len(words) > 1 {
		if percent, err = strconv.ParseFloat(words[1], 64); err != nil {
			return nil, err
		}
	}
	if len(words) > 2 {
		if action.Before, err = time.ParseDuration(words[2]); err != nil {
			return nil, err
		}
		if action.After, err = time.ParseDuration(words[3]); err != nil {
			return nil, err
		}
	}
	return cbnode.OnWrites(func(cbnode.Request) cbnode.Action {
		if rand.Float64()*100 >= percent {
			return cbnode.Action{}
		}
		return action
	}), nil
}
