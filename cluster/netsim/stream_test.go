package netsim_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"klatch/cluster/netsim"
)

func TestStreamCarriesAllInOrder(t *testing.T) {
	sent := make([]byte, 3<<20)
	source := rand.NewChaCha8([32]byte{1})
	source.Read(sent)
	for _, conditions := range []netsim.Conditions{
		{},
		{Delay: time.Millisecond, Jitter: 20 * time.Millisecond},
		{Loss: 0.2, Duplicate: 0.2, Delay: time.Millisecond, Jitter: time.Millisecond},
		{BlockPackets: true},
	} {
		simulate(t, netsim.Options{Seed: 1, Conditions: conditions}, func(t *testing.T, network *netsim.Network) {
			a, b := transport(t, network, one), transport(t, network, two)
			dialled, accepted := connect(t, a, b)
			go func() {
				dialled.Write(sent)
				dialled.Close()
			}()
			got, err := io.ReadAll(accepted)
			if err != nil || !bytes.Equal(got, sent) {
				t.Errorf("%+v: got %d of %d bytes, %v", conditions, len(got), len(sent), err)
			}
			accepted.Close()
			if c := network.Total(); c.StreamsDialled != 1 || c.StreamBytesSent != uint64(len(sent)) || c.StreamBytesReceived != uint64(len(sent)) {
				t.Errorf("the counts are %+v", c)
			}
		})
	}
}

func TestStreamTakesItsDelay(t *testing.T) {
	opts := netsim.Options{Conditions: netsim.Conditions{Delay: 10 * time.Millisecond}}
	simulate(t, opts, func(t *testing.T, network *netsim.Network) {
		a, b := transport(t, network, one), transport(t, network, two)
		begin := time.Now()
		dialled, err := dial(a, two)
		if err != nil || time.Since(begin) != 20*time.Millisecond {
			t.Fatalf("dialled after %v, %v", time.Since(begin), err)
		}
		dialled.Write([]byte("x"))
		accepted := <-b.StreamCh()
		accepted.Read(make([]byte, 1))
		if time.Since(begin) != 30*time.Millisecond {
			t.Errorf("read after %v", time.Since(begin))
		}
		if dialled.RemoteAddr().String() != two.String() || accepted.RemoteAddr().String() != dialled.LocalAddr().String() {
			t.Errorf("%v to %v was accepted as %v", dialled.LocalAddr(), dialled.RemoteAddr(), accepted.RemoteAddr())
		}
	})
}

func TestStreamDeadlines(t *testing.T) {
	simulate(t, netsim.Options{}, func(t *testing.T, network *netsim.Network) {
		a, b := transport(t, network, one), transport(t, network, two)
		dialled, accepted := connect(t, a, b)
		timedOut := func(what string, after time.Duration, do func() error) {
			t.Helper()
			begin := time.Now()
			err := do()
			var timeout net.Error
			if !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(begin) != after {
				t.Errorf("%s: %v after %v", what, err, time.Since(begin))
			}
		}
		read := func() error { _, err := dialled.Read(make([]byte, 1)); return err }

		dialled.SetDeadline(time.Now().Add(time.Second))
		timedOut("read", time.Second, read)
		timedOut("read after the deadline", 0, read)
		dialled.SetWriteDeadline(time.Now().Add(2 * time.Second))
		timedOut("write more than fits", 2*time.Second, func() error { _, err := dialled.Write(make([]byte, 1<<20)); return err })

		dialled.SetReadDeadline(time.Time{})
		go func() {
			time.Sleep(time.Second)
			dialled.SetReadDeadline(time.Now())
		}()
		timedOut("a deadline set while reading", time.Second, read)

		dialled.SetReadDeadline(time.Time{})
		go func() {
			time.Sleep(time.Second)
			accepted.Write([]byte("x"))
		}()
		if err := read(); err != nil {
			t.Errorf("without a deadline: %v", err)
		}
	})
}

func TestStreamThroughACutTimesOutAndOutlivesAShortOne(t *testing.T) {
	opts := netsim.Options{Conditions: netsim.Conditions{Delay: time.Millisecond}}
	simulate(t, opts, func(t *testing.T, network *netsim.Network) {
		a, b := transport(t, network, one), transport(t, network, two)
		dialled, accepted := connect(t, a, b)
		network.Cut(one, two)
		if n, err := dialled.Write([]byte("x")); n != 1 || err != nil {
			t.Fatalf("the write into the cut: %d, %v", n, err)
		}
		accepted.SetDeadline(time.Now().Add(2 * time.Second))
		if _, err := accepted.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read: %v", err)
		}
		if _, err := dial(a, two); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("dial: %v", err)
		}
		// The answer to a dial is lost in a one-way cut, so the other direction cannot be dialled either.
		if _, err := dial(b, one); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("dial against the cut: %v", err)
		}

		network.Heal()
		accepted.SetDeadline(time.Time{})
		if _, err := accepted.Read(make([]byte, 1)); err != nil {
			t.Errorf("read after the heal: %v", err)
		}
		if _, err := dial(a, two); err != nil {
			t.Errorf("dial after the heal: %v", err)
		}
	})
}

func TestStreamGivesUp(t *testing.T) {
	simulate(t, netsim.Options{}, func(t *testing.T, network *netsim.Network) {
		a, b := transport(t, network, one), transport(t, network, two)
		dialled, _ := connect(t, a, b)
		network.CutBoth(one, two)
		dialled.Write([]byte("x"))
		if _, err := dialled.Read(make([]byte, 1)); !errors.Is(err, syscall.ETIMEDOUT) {
			t.Errorf("read: %v", err)
		}
		begin := time.Now()
		if _, err := a.DialTimeout(two.String(), 0); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Minute {
			t.Errorf("dial: %v after %v", err, time.Since(begin))
		}
	})
}

func TestDialIsRefusedWhereNothingListens(t *testing.T) {
	opts := netsim.Options{Conditions: netsim.Conditions{Delay: time.Millisecond}}
	simulate(t, opts, func(t *testing.T, network *netsim.Network) {
		a, b := transport(t, network, one), transport(t, network, two)
		if _, err := dial(a, three); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("nobody there: %v", err)
		}
		waiting, err := dial(a, two)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		b.Shutdown()
		if _, err := waiting.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("not accepted before the shutdown: %v", err)
		}
		if _, err := dial(a, two); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("after the shutdown: %v", err)
		}
		if _, err := dial(b, one); !errors.Is(err, net.ErrClosed) {
			t.Errorf("from the one that was shut down: %v", err)
		}
	})
}

func TestCloseEndsAStream(t *testing.T) {
	simulate(t, netsim.Options{}, func(t *testing.T, network *netsim.Network) {
		a, b := transport(t, network, one), transport(t, network, two)

		dialled, accepted := connect(t, a, b)
		dialled.Write([]byte("bye"))
		dialled.Close()
		if got, err := io.ReadAll(accepted); string(got) != "bye" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		accepted.Write([]byte("too late"))
		time.Sleep(time.Second)
		if _, err := accepted.Write([]byte("too late")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("write to the closed end: %v", err)
		}
		if err := dialled.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed twice: %v", err)
		}

		dialled, accepted = connect(t, a, b)
		dialled.Write([]byte("not read"))
		time.Sleep(time.Second)
		accepted.Close()
		if _, err := dialled.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("closed before all was read: %v", err)
		}
	})
}

func TestCrashResetsStreamsAndAFreezeDoesNot(t *testing.T) {
	simulate(t, netsim.Options{}, func(t *testing.T, network *netsim.Network) {
		a, b := transport(t, network, one), transport(t, network, two)
		dialled, accepted := connect(t, a, b)

		network.Freeze(two)
		dialled.Write([]byte("x"))
		time.Sleep(time.Second)
		network.Thaw(two)
		if _, err := accepted.Read(make([]byte, 1)); err != nil {
			t.Errorf("read after the thaw: %v", err)
		}

		network.Crash(two)
		for _, end := range []net.Conn{dialled, accepted} {
			if _, err := end.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("read after the crash: %v", err)
			}
		}
		if _, err := dial(a, two); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial to the crashed: %v", err)
		}
		if _, err := dial(b, one); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("dial from the crashed: %v", err)
		}
		again := transport(t, network, two)
		connect(t, a, again)
	})
}

func TestCloseOfTheNetworkWakesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := netsim.New(netsim.Options{})
		a, b := transport(t, network, one), transport(t, network, two)
		dialled, _ := connect(t, a, b)
		network.Freeze(three)
		ended := make(chan error, 2)
		go func() { _, err := dialled.Read(make([]byte, 1)); ended <- err }()
		go func() { _, err := dial(a, three); ended <- err }()
		synctest.Wait()
		network.Close()
		network.Close()
		for range 2 {
			if err := <-ended; err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("ended with %v", err)
			}
		}
	})
}
