package keyring

import "errors"

var (
	// ErrInvalid is returned for a change that no cluster could make.
	ErrInvalid = errors.New("keyring")

	// ErrRefused is returned for a change that would shut a node out, or that is not possible as things are. The
	// message says why and what to do first.
	ErrRefused = errors.New("refused")
)
