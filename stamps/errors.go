package stamps

import "errors"

var (
	// ErrInvalid is returned by Raise for no scope, too many, or one that is too long.
	ErrInvalid = errors.New("invalid scopes")

	// ErrBusy is returned by Raise while too many raises of the tenant wait for the store. Nothing was stamped;
	// try again later.
	ErrBusy = errors.New("too many purges wait for the store")

	// ErrClosed is returned after Close.
	ErrClosed = errors.New("the register of stamps is closed")
)
