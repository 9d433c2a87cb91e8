// Package e2e tests whole clusters: real node processes on real sockets, real balancers, real clients. Run it by
// make e2e, which builds the binary and installs HAProxy.
package e2e
