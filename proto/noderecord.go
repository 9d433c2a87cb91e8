package proto

import "fmt"

// NodeRecord is what a node keeps in the store to show that it lives and may be writing.
type NodeRecord struct {
	Boot    uint64
	Address string // of the bus, IP:port
}

// NodeIndex lists the names of all nodes that may have a [NodeRecord].
type NodeIndex struct {
	Names []string
}

const (
	nodeRecordFields = 3
	nodeIndexFields  = 2
	nodeSchema       = 1
)

// NodeKey is the key of a node's record.
func NodeKey(tenant, name string) Key { return Key{Tenant: tenant, Kind: KindNode, ID: name} }

// NodeIndexKey is the key of the index. No node can have its id for a name.
func NodeIndexKey(tenant string) Key { return Key{Tenant: tenant, Kind: KindNode, ID: "#index"} }

// Encode returns the msgpack form.
func (r NodeRecord) Encode() []byte {
	e := newEncoder()
	e.array(nodeRecordFields)
	e.uint(nodeSchema)
	e.uint(r.Boot)
	e.string(r.Address)
	return e.buf.Bytes()
}

// DecodeNodeRecord reads the msgpack form.
func DecodeNodeRecord(p []byte) (NodeRecord, error) {
	d := newDecoder(p)
	fields := d.array(nodeRecordFields)
	d.schema(nodeSchema)
	r := NodeRecord{Boot: d.uint(), Address: d.string()}
	d.trailing(fields - nodeRecordFields)
	if err := d.end(); err != nil {
		return NodeRecord{}, fmt.Errorf("node record: %w", err)
	}
	return r, nil
}

// Encode returns the msgpack form.
func (i NodeIndex) Encode() []byte {
	e := newEncoder()
	e.array(nodeIndexFields)
	e.uint(nodeSchema)
	e.array(len(i.Names))
	for _, name := range i.Names {
		e.string(name)
	}
	return e.buf.Bytes()
}

// DecodeNodeIndex reads the msgpack form.
func DecodeNodeIndex(p []byte) (NodeIndex, error) {
	d := newDecoder(p)
	fields := d.array(nodeIndexFields)
	d.schema(nodeSchema)
	n := d.array(0)
	i := NodeIndex{Names: make([]string, 0, n)}
	for range n {
		i.Names = append(i.Names, d.string())
	}
	d.trailing(fields - nodeIndexFields)
	if err := d.end(); err != nil {
		return NodeIndex{}, fmt.Errorf("node index: %w", err)
	}
	return i, nil
}
