package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"

	"go.uber.org/zap"
)

// lostPerRound bounds the vanished members that one round looks for, since each may cost a time-out.
const lostPerRound = 3

// joiner joins seeds and vanished members, again and again.
type joiner struct {
	seeds    []string
	interval time.Duration
	resolver Resolver
	rand     *rand.Rand
	roster   *roster
	log      *zap.Logger
	// join exchanges the full state with the node at an address.
	join func(addr netip.AddrPort) error

	outcomes map[string]string // of each seed's last attempt, to log changes only
	searched chan struct{}     // closed after the first round
}

// eagerPause is the first pause while a seed is not joined. Nodes that are started together find each other in
// a moment, whichever listens first; for a seed that stays away the pause doubles up to the interval.
const eagerPause = 250 * time.Millisecond

func (j *joiner) run(ctx context.Context) {
	eager := eagerPause
	for first := true; ; first = false {
		pause := j.interval
		if j.round(ctx) {
			eager = eagerPause
		} else {
			pause = min(eager, j.interval)
			eager = min(2*eager, j.interval)
		}
		if first {
			close(j.searched)
		}
		wait := time.NewTimer(j.jitter(pause))
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
	}
}

// jitter makes a pause longer or shorter by up to a fifth, so that nodes started together drift apart.
func (j *joiner) jitter(pause time.Duration) time.Duration {
	return time.Duration(float64(pause) * (0.8 + 0.4*j.rand.Float64()))
}

// round reports whether all seeds are joined.
func (j *joiner) round(ctx context.Context) (joined bool) {
	joined = true
	for _, seed := range j.seeds {
		n, err := j.joinSeed(ctx, seed)
		if ctx.Err() != nil {
			return false
		}
		j.report(seed, n, err)
		joined = joined && err == nil
	}
	lost := j.roster.lost()
	j.rand.Shuffle(len(lost), func(a, b int) { lost[a], lost[b] = lost[b], lost[a] })
	for _, addr := range lost[:min(len(lost), lostPerRound)] {
		if ctx.Err() != nil {
			return false
		}
		if err := j.join(addr); err == nil {
			j.log.Info("vanished member found again", zap.Stringer("address", addr))
		}
	}
	return joined
}

// joinSeed returns how many addresses of the seed are members now. The error is nil if any is.
func (j *joiner) joinSeed(ctx context.Context, seed string) (int, error) {
	addrs, err := resolve(ctx, j.resolver, seed)
	if err != nil {
		return 0, err
	}
	n := 0
	var failed error
	for _, addr := range addrs {
		switch {
		case ctx.Err() != nil:
			return n, ctx.Err()
		case j.roster.has(addr):
			n++
		default:
			if err := j.join(addr); err != nil {
				failed = errors.Join(failed, err)
			} else {
				n++
			}
		}
	}
	if n > 0 {
		return n, nil
	}
	return 0, failed
}

// report logs the first outcome of a seed and each change, but not that nothing has changed.
func (j *joiner) report(seed string, n int, err error) {
	outcome := outcomeOf(err)
	if j.outcomes[seed] == outcome {
		return
	}
	j.outcomes[seed] = outcome
	if err != nil {
		j.log.Warn("seed not joined; the node goes on without it and tries again for ever",
			zap.String("seed", seed), zap.Duration("every", j.interval), zap.Error(err))
		return
	}
	j.log.Info("seed joined", zap.String("seed", seed), zap.Int("addresses", n))
}

// outcomeOf names a kind of outcome without what changes from one attempt to the next, such as ports.
func outcomeOf(err error) string {
	if err == nil {
		return "joined"
	}
	for _, kind := range []error{ErrOtherKey, ErrOtherCluster, ErrOtherRelease} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return ErrUnreachable.Error()
}

// resolve returns all addresses of host:port, looked up anew if it is a DNS name.
func resolve(ctx context.Context, resolver Resolver, seed string) ([]netip.AddrPort, error) {
	host, port, err := splitSeed(seed)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	ips := []netip.Addr{}
	if ip, err := netip.ParseAddr(host); err == nil {
		ips = append(ips, ip)
	} else if ips, err = resolver.LookupNetIP(ctx, "ip", host); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	addrs := make([]netip.AddrPort, 0, len(ips))
	for _, ip := range ips {
		addrs = append(addrs, netip.AddrPortFrom(ip.Unmap(), port))
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("%w: %s has no address", ErrUnreachable, host)
	}
	return addrs, nil
}

// joinError gives memberlist's error the sentinel that says what is wrong. memberlist flattens its causes
// into text, so only the text is left to look at.
func joinError(addr netip.AddrPort, err error) error {
	text := err.Error()
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(text, part) {
				return true
			}
		}
		return false
	}
	kind := ErrUnreachable
	switch {
	case has("could decrypt", "encryption is configured", "state is encrypted"):
		kind = ErrOtherKey
	case has("EOF", "connection reset", "broken pipe"):
		kind = ErrOtherCluster
	case has("is incompatible"):
		kind = ErrOtherRelease
	}
	return fmt.Errorf("join %s: %w (%s)", addr, kind, strings.Join(strings.Fields(text), " "))
}
