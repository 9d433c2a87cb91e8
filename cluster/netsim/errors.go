package netsim

import "errors"

var (
	// ErrInvalid is returned for an address that is not IP:port.
	ErrInvalid = errors.New("not an address of a simulated node")

	// ErrInUse is returned by [Network.Transport] while an earlier transport of that address is neither
	// shut down nor crashed.
	ErrInUse = errors.New("the simulated address is in use")

	// ErrClosed is returned by what needs the network after [Network.Close].
	ErrClosed = errors.New("the simulated network is closed")
)
