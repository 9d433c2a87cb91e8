package demo

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// DefaultBasePort is where the demo's ports begin.
const DefaultBasePort = 8000

// The demo's own ports, above the base.
const (
	controlPort = iota
	stickyPort
	nonstickyPort
	ownPorts
)

// layout are a node's addresses: ten ports for each node above the base, of which four are used.
type layout struct{ api, app, admin, gossip string }

func layoutOf(basePort, number int) layout {
	port := basePort + 10*number
	return layout{api: loopback(port), app: loopback(port + 1), admin: loopback(port + 2), gossip: loopback(port + 3)}
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// bind takes the demo's own ports.
func bind(basePort int) (sockets []net.Listener, err error) {
	for offset := range ownPorts {
		socket, err := listen(loopback(basePort + offset))
		if err != nil {
			closeAll(sockets)
			return nil, err
		}
		sockets = append(sockets, socket)
	}
	return sockets, nil
}

func closeAll(sockets []net.Listener) {
	for _, socket := range sockets {
		socket.Close()
	}
}

// free reports the first of a node's ports that another process has. Gossip needs both TCP and UDP.
func (l layout) free() error {
	for _, address := range []string{l.api, l.app, l.admin, l.gossip} {
		socket, err := listen(address)
		if err != nil {
			return err
		}
		socket.Close()
	}
	datagrams, err := net.ListenPacket("udp", l.gossip)
	if err != nil {
		return explain(l.gossip, err)
	}
	return datagrams.Close()
}

func listen(address string) (net.Listener, error) {
	socket, err := net.Listen("tcp", address)
	if err != nil {
		return nil, explain(address, err)
	}
	return socket, nil
}

func explain(address string, err error) error {
	_, port, _ := net.SplitHostPort(address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("port %s is in use: end what listens there (another demo?), or choose other ports by --base-port", port)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("port %s is not allowed to this user: choose other ports by --base-port", port)
	}
	return err
}
