package cbnode

import (
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

// incarnation is the node between a start and a stop: what must end with it.
type incarnation struct {
	node *Node
	// ctx ends when the node stops.
	ctx    context.Context
	cancel context.CancelFunc
	kv     net.Listener
	mgmt   *http.Server
	// goroutines are all that the incarnation started, those of the connections of mgmt included.
	goroutines sync.WaitGroup

	// mu guards sockets, which is nil once the node stops.
	mu      sync.Mutex
	sockets map[net.Conn]bool
}

func start(n *Node) (*incarnation, error) {
	kv, err := net.Listen("tcp", fmt.Sprintf("%s:%d", loopback, n.options.KVPort))
	if err != nil {
		return nil, err
	}
	mgmt, err := net.Listen("tcp", fmt.Sprintf("%s:%d", loopback, n.options.MgmtPort))
	if err != nil {
		kv.Close()
		return nil, err
	}
	run := &incarnation{node: n, kv: kv, sockets: map[net.Conn]bool{}}
	run.ctx, run.cancel = context.WithCancel(context.Background())
	run.mgmt = &http.Server{
		Handler:     n.mgmt(),
		BaseContext: func(net.Listener) context.Context { return run.ctx },
		ErrorLog:    log.New(io.Discard, "", 0),
		// Close does not wait for connections, so they are counted. The first state is reported by Serve
		// itself, whose goroutine is still counted then.
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				run.goroutines.Add(1)
			case http.StateClosed, http.StateHijacked:
				run.goroutines.Done()
			}
		},
	}
	run.goroutines.Go(run.accept)
	// Serve only returns because of stop.
	run.goroutines.Go(func() { _ = run.mgmt.Serve(mgmt) })
	return run, nil
}

// accept serves connections until the listener closes.
func (run *incarnation) accept() {
	for {
		socket, err := run.kv.Accept()
		if err != nil {
			return
		}
		if !run.track(socket) {
			socket.Close()
			return
		}
		run.goroutines.Go(func() {
			defer run.forget(socket)
			c, reader := newConnection(run.node, run, socket)
			c.serve(reader)
		})
	}
}

func (run *incarnation) track(socket net.Conn) bool {
	run.mu.Lock()
	defer run.mu.Unlock()
	if run.sockets == nil {
		return false
	}
	run.sockets[socket] = true
	return true
}

func (run *incarnation) forget(socket net.Conn) {
	socket.Close()
	run.mu.Lock()
	defer run.mu.Unlock()
	delete(run.sockets, socket)
}

// disconnect closes all connections of the document port.
func (run *incarnation) disconnect() {
	run.mu.Lock()
	defer run.mu.Unlock()
	for socket := range run.sockets {
		socket.Close()
	}
}

// stop ends everything and waits for it.
func (run *incarnation) stop() {
	run.cancel()
	run.kv.Close()
	run.mgmt.Close()
	run.mu.Lock()
	for socket := range run.sockets {
		socket.Close()
	}
	run.sockets = nil
	run.mu.Unlock()
	run.goroutines.Wait()
}

// pause waits for d. It reports false if the node stopped first.
func (run *incarnation) pause(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-run.ctx.Done():
		return false
	}
}

// ChoosePort returns a loopback port that is free now. It is below the ports that the kernel gives to
// outgoing connections, so that none of these can take it while a node is stopped.
func ChoosePort() (int, error) {
	const first, count, attempts = 20_000, 12_000, 100
	for range attempts {
		port := first + rand.IntN(count)
		listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", loopback, port))
		if err != nil {
			continue
		}
		return port, listener.Close()
	}
	return 0, fmt.Errorf("cbnode: no free port in %d attempts", attempts)
}
