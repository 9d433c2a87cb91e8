// Package data stands in for a package that the released module of gocaves lacks: upstream generates it and
// does not check it in. It holds our own, shorter version of the one file that is asked for, the map by
// which clients understand the status codes of the key/value protocol.
//
// The module has the path of the missing package, so that a replace in test/go.mod can put it there.
package data

import "fmt"

// errorMap has the statuses that our tests meet.
const errorMap = `{"version": 1, "revision": 2, "errors": {
	"0":  {"name": "SUCCESS", "desc": "success", "attrs": ["success"]},
	"1":  {"name": "KEY_ENOENT", "desc": "no such key", "attrs": ["item-only"]},
	"2":  {"name": "KEY_EEXISTS", "desc": "the key exists, or has another CAS", "attrs": ["item-only"]},
	"3":  {"name": "E2BIG", "desc": "the value is too big", "attrs": ["item-only", "invalid-input"]},
	"4":  {"name": "EINVAL", "desc": "invalid arguments", "attrs": ["internal", "invalid-input"]},
	"8":  {"name": "NO_BUCKET", "desc": "no bucket is selected", "attrs": ["conn-state-invalidated"]},
	"9":  {"name": "LOCKED", "desc": "the document is locked", "attrs": ["item-locked", "item-only", "retry-now"]},
	"20": {"name": "AUTH_ERROR", "desc": "authentication failed", "attrs": ["conn-state-invalidated", "auth"]},
	"24": {"name": "EACCESS", "desc": "no access", "attrs": ["support"]},
	"81": {"name": "UNKNOWN_COMMAND", "desc": "unknown command", "attrs": ["support"]},
	"86": {"name": "TMPFAIL", "desc": "temporary failure", "attrs": ["temp", "retry-later"]},
	"88": {"name": "UNKNOWN_COLLECTION", "desc": "no such collection", "attrs": ["item-only"]},
	"8c": {"name": "UNKNOWN_SCOPE", "desc": "no such scope", "attrs": ["item-only"]}
}}`

// Asset returns the file of this name.
func Asset(name string) ([]byte, error) {
	if name != "err_map70.json" {
		return nil, fmt.Errorf("there is no asset %q", name)
	}
	return []byte(errorMap), nil
}
