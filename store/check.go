package store

import (
	"fmt"
	"strings"

	"klatch/proto"
)

// CheckPut refuses what every driver must refuse before sending: a missing TTL, a key or a value over the bound.
func CheckPut(key proto.Key, value []byte, opts PutOptions) error {
	switch {
	case opts.TTL == 0 || opts.TTL < Forever:
		return fmt.Errorf("%w: put %s: TTL must be positive or Forever", ErrInvalid, key)
	case len(value) > MaxValueBytes:
		return fmt.Errorf("%w: put %s: %d bytes, at most %d are allowed", ErrTooLarge, key, len(value), MaxValueBytes)
	}
	return CheckKey(key)
}

// CheckDelete refuses a delete that no store could carry out.
func CheckDelete(key proto.Key, cas CAS) error {
	if cas == Absent {
		return fmt.Errorf("%w: delete %s: Absent is no condition of a delete", ErrInvalid, key)
	}
	return CheckKey(key)
}

// CheckKey refuses a key whose wire form is over the bound or lacks a part.
func CheckKey(key proto.Key) error {
	if key.Tenant == "" || key.Kind == 0 || key.ID == "" {
		return fmt.Errorf("%w: key %s lacks a tenant, a kind or an id", ErrInvalid, key)
	}
	if strings.Contains(key.Tenant, "/") || len(key.Tenant) > proto.MaxTenantBytes {
		return fmt.Errorf("%w: tenant %.80q: at most %d bytes without a slash", ErrInvalid, key.Tenant, proto.MaxTenantBytes)
	}
	if n := len(key.Tenant) + len("/k/") + len(key.ID); n > proto.MaxKeyBytes {
		return fmt.Errorf("%w: key of %d bytes, at most %d are allowed", ErrInvalid, n, proto.MaxKeyBytes)
	}
	return nil
}
