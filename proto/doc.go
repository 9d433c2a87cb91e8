// Package proto defines what klatch nodes agree on: versions, keys, records and messages, and their
// msgpack form. It decides nothing; it only names things and turns them into bytes and back.
//
// # Compatibility
//
// Every record and every list inside a message is a msgpack array whose first element is a schema or
// kind number. A release may append elements to an array: older releases keep the unknown trailing
// elements of a record and write them back byte for byte, and skip those of a message, so that nodes of
// two releases can share a cluster. A change that an old release could not live with raises the schema
// number, and old releases refuse it with [ErrSchema].
package proto
