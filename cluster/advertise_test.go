package cluster

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestAdvertised(t *testing.T) {
	addrs := func(route string, all ...string) interfaces {
		var h interfaces
		h.route, _ = netip.ParseAddr(route)
		for _, a := range all {
			h.all = append(h.all, netip.MustParseAddr(a))
		}
		return h
	}
	tests := []struct {
		name            string
		bind, advertise string
		host            interfaces
		want            string // address, or part of the error
	}{
		{"bound address", "10.0.0.5:7946", "", interfaces{}, "10.0.0.5:7946"},
		{"loopback", "127.0.0.1:0", "", interfaces{}, "127.0.0.1:0"},
		{"explicit", "0.0.0.0:7946", "203.0.113.9:17946", interfaces{}, "203.0.113.9:17946"},
		{"explicit, port of bind", "0.0.0.0:7946", "203.0.113.9:0", interfaces{}, "203.0.113.9:0"},
		{"explicit v6", "[::]:7946", "[fd00::1]:7946", interfaces{}, "[fd00::1]:7946"},
		{"only private", "0.0.0.0:7946", "", addrs("", "127.0.0.1", "10.0.0.5", "203.0.113.9"), "10.0.0.5:7946"},
		{"no host in bind", ":7946", "", addrs("", "10.0.0.5"), "10.0.0.5:7946"},
		{"bridge beside the default route", "0.0.0.0:7946", "", addrs("10.0.0.5", "172.17.0.1", "10.0.0.5"), "10.0.0.5:7946"},

		{"unspecified", "10.0.0.5:7946", "0.0.0.0:7946", interfaces{}, "set the IP address"},
		{"unspecified v6", "10.0.0.5:7946", "[::]:7946", interfaces{}, "set the IP address"},
		{"multicast", "10.0.0.5:7946", "224.0.0.1:7946", interfaces{}, "set the IP address"},
		{"a name", "10.0.0.5:7946", "node-1.example:7946", interfaces{}, "not a name"},
		{"no port", "10.0.0.5:7946", "10.0.0.5", interfaces{}, "IP:port"},
		{"nothing private", "0.0.0.0:7946", "", addrs("203.0.113.9", "127.0.0.1", "203.0.113.9"), "set the advertise address"},
		{"two private, neither routed", "0.0.0.0:7946", "", addrs("203.0.113.9", "172.17.0.1", "10.0.0.5", "203.0.113.9"), "set the advertise address"},
		{"no interface", "[::]:7946", "", interfaces{}, "set the advertise address"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bind, err := parseBind(tt.bind)
			if err != nil {
				t.Fatal(err)
			}
			got, err := advertised(bind, tt.advertise, func() interfaces { return tt.host })
			switch {
			case err == nil && got.String() != tt.want:
				t.Errorf("got %s, want %s", got, tt.want)
			case err != nil && (!errors.Is(err, ErrAdvertise) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got error %q, want %q", err, tt.want)
			}
		})
	}
}

func TestBindMustBeAnAddress(t *testing.T) {
	// memberlist would listen on all interfaces for "localhost".
	for _, bind := range []string{"localhost:7946", "127.0.0.1", "127.0.0.1:x", ""} {
		if _, err := parseBind(bind); !errors.Is(err, ErrInvalid) {
			t.Errorf("bind %q: got %v, want ErrInvalid", bind, err)
		}
	}
}
