package cluster

import "errors"

var (
	// ErrInvalid is returned by [Start] for options that no node can have.
	ErrInvalid = errors.New("invalid cluster options")

	// ErrAdvertise is returned by [Start] when the other members could not reach this one under the
	// address it would tell them. The message says what to set.
	ErrAdvertise = errors.New("no address to advertise")

	// ErrUnreachable is returned by [Cluster.Join] when nothing answers at an address, or it cannot be
	// resolved.
	ErrUnreachable = errors.New("not reachable")

	// ErrOtherCluster is returned by [Cluster.Join] when the other side hangs up without a word, which is
	// what a member of a cluster with another label does. Its log names the label it saw.
	ErrOtherCluster = errors.New("the other side hung up, as it does when its cluster label differs")

	// ErrOtherKey is returned by [Cluster.Join] when the gossip keys of the two sides have none in common,
	// or only one side has any.
	ErrOtherKey = errors.New("the gossip keys differ")

	// ErrOtherRelease is returned by [Cluster.Join] when the two sides share no protocol version.
	ErrOtherRelease = errors.New("the releases share no protocol version")

	// ErrRefused is returned by [Cluster.Ask] when the member has answered with an error.
	ErrRefused = errors.New("the member refused")

	// ErrAlive is returned by [Cluster.Forget] for a node that is a live member.
	ErrAlive = errors.New("the node is alive")

	// ErrKeyInUse is returned by [Keyring.Remove] for the key that encrypts.
	ErrKeyInUse = errors.New("the key encrypts the traffic of this node")

	// ErrNoKey is returned for the fingerprint of a key that is not installed.
	ErrNoKey = errors.New("no such key is installed")

	errStranger = errors.New("its name is that of no klatch node")

	// ErrClosed is returned by what needs a running cluster after Close or Leave.
	ErrClosed = errors.New("the cluster is closed")
)
