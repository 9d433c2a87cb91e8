package netsim_test

import (
	"fmt"
	"time"

	"klatch/cluster/netsim"
)

func Example() {
	network := netsim.New(netsim.Options{Seed: 1, Conditions: netsim.Conditions{Delay: time.Millisecond}})
	defer network.Close()
	a, _ := network.Transport(netsim.Addr(1))
	b, _ := network.Transport(netsim.Addr(2))

	a.WriteTo([]byte("hello"), b.Addr().String())
	packet := <-b.PacketCh()
	fmt.Printf("%s from %s\n", packet.Buf, packet.From)

	network.Cut(a.Addr(), b.Addr())
	a.WriteTo([]byte("are you there?"), b.Addr().String())
	fmt.Println("lost:", network.Total().PacketsLost)
	// Output:
	// hello from 10.0.0.1:7946
	// lost: 1
}
