package demo

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
)

// heldBody is the client's body, kept whole for the next node as long as nothing of it was read: a transport
// closes the body of a request even if it could not connect.
type heldBody struct {
	io.ReadCloser
	touched atomic.Bool
}

func (b *heldBody) Read(p []byte) (int, error) {
	b.touched.Store(true)
	return b.ReadCloser.Read(p)
}

func (b *heldBody) Close() error {
	if !b.touched.Load() {
		return nil // ReverseProxy closes it in the end
	}
	return b.ReadCloser.Close()
}

// isDialError reports whether the connection was never made, so that nothing was sent.
func isDialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// isTimeout reports whether the node is too slow. The next would be no faster, and the client has waited enough.
func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func isSafe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}
