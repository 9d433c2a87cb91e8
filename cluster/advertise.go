package cluster

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// parseBind reads an address to listen on. It takes no host names: memberlist would listen on all
// interfaces for a name that is not an IP address.
func parseBind(s string) (netip.AddrPort, error) {
	if strings.HasPrefix(s, ":") {
		s = "0.0.0.0" + s
	}
	bind, err := netip.ParseAddrPort(s)
	if err != nil {
		return bind, fmt.Errorf("%w: bind address %q is not IP:port, for example 0.0.0.0:7946", ErrInvalid, s)
	}
	return bind, nil
}

// advertised decides under which address the other members can reach this one. The port is 0 if it is the
// one that will be bound.
func advertised(bind netip.AddrPort, advertise string, host func() interfaces) (netip.AddrPort, error) {
	if advertise != "" {
		addr, err := netip.ParseAddrPort(advertise)
		switch {
		case err != nil:
			return addr, fmt.Errorf("%w: %q is not IP:port; set the IP address by which other nodes reach this one, not a name", ErrAdvertise, advertise)
		case addr.Addr().IsUnspecified() || addr.Addr().IsMulticast():
			return addr, fmt.Errorf("%w: nobody can connect to %s; set the IP address by which other nodes reach this one", ErrAdvertise, addr.Addr())
		}
		return addr, nil
	}
	if !bind.Addr().IsUnspecified() {
		return bind, nil
	}
	addr, err := host().private()
	return netip.AddrPortFrom(addr, bind.Port()), err
}

// interfaces are the addresses of a host.
type interfaces struct {
	all   []netip.Addr
	route netip.Addr // the source address of packets that leave by the default route; invalid if none
}

// private returns the host's one private address or, of several, the one on the default route: container
// bridges have private addresses too, and the same one on every host.
func (h interfaces) private() (netip.Addr, error) {
	var candidates []netip.Addr
	for _, addr := range h.all {
		if addr.IsPrivate() {
			candidates = append(candidates, addr)
		}
	}
	switch {
	case slices.Contains(candidates, h.route):
		return h.route, nil
	case len(candidates) == 1:
		return candidates[0], nil
	case len(candidates) == 0:
		return netip.Addr{}, fmt.Errorf("%w: bound to all interfaces, and none has a private address; set the advertise address to IP:port by which other nodes reach this one", ErrAdvertise)
	default:
		return netip.Addr{}, fmt.Errorf("%w: bound to all interfaces, and %v are private, none on the default route; set the advertise address to the one by which other nodes reach this one", ErrAdvertise, candidates)
	}
}

// hostInterfaces asks the operating system. What it cannot tell is left out.
func hostInterfaces() interfaces {
	var h interfaces
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			h.all = append(h.all, prefix.Addr().Unmap())
		}
	}
	// Connecting a UDP socket sends nothing; it only chooses the source address. The destination is from
	// a range kept for documentation (RFC 5737).
	if conn, err := net.Dial("udp4", "192.0.2.1:9"); err == nil {
		h.route = conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
		conn.Close()
	}
	return h
}
