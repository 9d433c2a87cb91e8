package cbnode_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"klatch/test/cbnode"
)

// TestGarbage checks that a broken client harms nobody but itself.
func TestGarbage(t *testing.T) {
	node := startNode(t, cbnode.Options{})
	c := openCollection(t, node)
	cas := insert(t, c, "k", "v", 0)
	random := rand.New(rand.NewPCG(1, 2))
	for _, magic := range []byte{0x80, 0x08, 0x81, 0x18, 0x82, 0x00} {
		for range 200 {
			packet := make([]byte, 24+random.IntN(40))
			for i := range packet {
				packet[i] = byte(random.Uint32())
			}
			packet[0] = magic
			if random.IntN(2) == 0 { // a true length, and small parts
				copy(packet[8:12], []byte{0, 0, 0, byte(len(packet) - 24)})
				packet[2], packet[3], packet[4] = packet[2]%16, packet[3]%8, packet[4]%8
			}
			socket, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", node.KVPort()))
			if err != nil {
				t.Fatal(err)
			}
			// The node may hang up before all is written or read: both ends of the connection may fail.
			_, _ = socket.Write(packet)
			_ = socket.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, socket)
			socket.Close()
		}
	}
	wants(t, c, "k", "v", cas)
}
