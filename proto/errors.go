package proto

import "errors"

var (
	// ErrCorrupt is returned when bytes are not a well-formed record or message.
	ErrCorrupt = errors.New("corrupt")

	// ErrSchema is returned for a record or message of a schema newer than this release understands.
	// The cure is to upgrade this node.
	ErrSchema = errors.New("written by a newer release")

	// ErrUnknownMessage is returned for a kind of message that a later release has added. It is to be
	// counted and skipped.
	ErrUnknownMessage = errors.New("message of an unknown kind")
)
