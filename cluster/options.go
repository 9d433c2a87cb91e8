package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/zap"

	"klatch/proto"
)

// Handler is told what comes in. Both methods are called from one goroutine, the bus's own, so they must
// not block for long; news that waits behind them is late, and too much of it is dropped and costs a fence.
type Handler interface {
	// Apply takes one piece of news that the node called from has sent. The same news may come twice.
	Apply(from string, item proto.Item)
	// Fence says that news may have been missed, committed at any time before this call. The reason is
	// one of the Fence constants.
	Fence(reason string)
}

// Resolver finds the addresses of a DNS name. [net.Resolver] is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options configure a [Cluster]. Name, Boot and Handler are required.
type Options struct {
	// Name is this node's name, unique in the cluster: 1 to 32 of a-z, 0-9 and '-'.
	Name string
	// Boot is a random number, new at each start of the node. Not 0.
	Boot uint64
	// Handler takes the news.
	Handler Handler

	// Label is the name of the cluster. Nodes of different labels never talk to each other, so that two
	// clusters on recycled addresses cannot merge. Default "klatch"; at most 64 bytes.
	Label string
	// Bind is the IP address and port to listen on, both UDP and TCP. Port 0 takes a free one. Default
	// 127.0.0.1:7946.
	Bind string
	// Advertise is the IP address and port that other members are told; port 0 means that of Bind. Default:
	// the address of Bind or, if that is unspecified, this host's private address.
	Advertise string
	// Seeds are members to join, as host:port; a DNS name stands for all its addresses. Default: none,
	// the node waits to be joined.
	Seeds []string
	// Keys encrypt and authenticate all traffic with AES-GCM: 16, 24 or 32 bytes each. The first one
	// encrypts, each may decrypt. Default: none, the traffic is plain.
	Keys [][]byte
	// Meta is what the node tells of itself. State 0 means [proto.Joining]; Started is filled in.
	Meta proto.NodeMeta
	// Records says that [Cluster.Present] will report the node records in the store, so that a member that
	// vanished is believed gone only when its record has lapsed.
	Records bool
	// Recent returns the news that goes with every full exchange of states, because it must reach everybody
	// however long ago it was said; about a thousand items at most. It must not block. Default: none.
	Recent func() []proto.Item
	// Answer answers the requests of members; see [Cluster.Ask]. Default: they are refused.
	Answer Answer

	// RejoinInterval is the time between two attempts to join the seeds and lately vanished members; each
	// is longer or shorter by up to a fifth. Default 15 s.
	RejoinInterval time.Duration
	// SyncInterval is the time between two full exchanges of membership and marks with a random member.
	// Default 5 s.
	SyncInterval time.Duration
	// ProbeInterval is the time between two probes for dead members. One that does not answer is declared
	// dead after about five of them. Default 1 s.
	ProbeInterval time.Duration

	// Logger takes the log. Default: none is written.
	Logger *zap.Logger
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Rand spreads the attempts to join. Default: seeded from Boot.
	Rand rand.Source
	// Resolver resolves DNS names. Default [net.DefaultResolver].
	Resolver Resolver
	// Transport replaces the network; Bind is then ignored. Default: UDP and TCP on Bind.
	Transport memberlist.Transport
}

const (
	defaultLabel = "klatch"
	defaultBind  = "127.0.0.1:7946"

	// maxLabelBytes leaves room for a full batch, its checksum and its encryption in one Ethernet frame.
	maxLabelBytes = 64
)

var nodeName = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// complete fills in the defaults and refuses what cannot work.
func (o Options) complete() (Options, error) {
	o.Label = orDefault(o.Label, defaultLabel)
	o.Bind = orDefault(o.Bind, defaultBind)
	o.RejoinInterval = orDefault(o.RejoinInterval, 15*time.Second)
	o.SyncInterval = orDefault(o.SyncInterval, 5*time.Second)
	o.ProbeInterval = orDefault(o.ProbeInterval, time.Second)
	o.Meta.State = orDefault(o.Meta.State, proto.Joining)
	o.Logger = orDefault(o.Logger, zap.NewNop())
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.NewPCG(o.Boot, 0)
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}

	switch {
	case !nodeName.MatchString(o.Name):
		return o, fmt.Errorf("%w: node name %q must be 1 to 32 of a-z, 0-9 and '-'", ErrInvalid, o.Name)
	case o.Boot == 0:
		return o, fmt.Errorf("%w: Boot must be a random number, new at each start", ErrInvalid)
	case o.Handler == nil:
		return o, fmt.Errorf("%w: Handler is required", ErrInvalid)
	case len(o.Label) > maxLabelBytes:
		return o, fmt.Errorf("%w: the cluster label is %d bytes long, at most %d are allowed", ErrInvalid, len(o.Label), maxLabelBytes)
	case o.RejoinInterval < 0 || o.SyncInterval < 0 || o.ProbeInterval < 0:
		return o, fmt.Errorf("%w: intervals must be positive", ErrInvalid)
	case len(o.Meta.Encode()) > proto.MaxNodeMetaBytes:
		return o, fmt.Errorf("%w: release and addresses of the node need %d bytes together, at most %d fit", ErrInvalid, len(o.Meta.Encode()), proto.MaxNodeMetaBytes)
	}
	for _, seed := range o.Seeds {
		if _, _, err := splitSeed(seed); err != nil {
			return o, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	return o, nil
}

func orDefault[T comparable](value, byDefault T) T {
	var zero T
	if value == zero {
		return byDefault
	}
	return value
}

func splitSeed(seed string) (host string, port uint16, err error) {
	host, digits, err := net.SplitHostPort(seed)
	n, convErr := strconv.ParseUint(digits, 10, 16)
	if err != nil || convErr != nil || host == "" || n == 0 {
		return "", 0, fmt.Errorf("%q is not host:port, for example klatch-1:7946", seed)
	}
	return host, uint16(n), nil
}
