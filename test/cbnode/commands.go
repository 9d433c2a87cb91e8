package cbnode

import (
	"encoding/binary"
	"strconv"

	"github.com/couchbase/gocbcore/v10/memd"
)

// admits says whether the connection may run a command on documents now.
func (c *connection) admits() memd.StatusCode {
	switch {
	case !c.authenticated:
		return memd.StatusAccessError
	case !c.selected:
		return memd.StatusNoBucket
	}
	return memd.StatusSuccess
}

// execute runs a command on documents or collections.
func (n *Node) execute(p *memd.Packet, withTokens bool) reply {
	switch p.Command {
	case memd.CmdCollectionsGetID:
		return n.collectionID(p)
	case memd.CmdCollectionsGetManifest:
		return reply{value: mustJSON(n.manifest.document())}
	}
	key, code := n.documentKey(p)
	if code != memd.StatusSuccess {
		return status(code)
	}
	switch p.Command {
	case memd.CmdGet:
		doc, code := n.documents.get(key)
		return withDocument(doc, code)
	case memd.CmdGetMeta:
		return n.meta(key)
	case memd.CmdSubDocMultiLookup:
		return n.lookup(key, p.Value)
	case memd.CmdSet, memd.CmdAdd, memd.CmdReplace:
		return n.store(key, p, withTokens)
	case memd.CmdDelete:
		if code := durability(p); code != memd.StatusSuccess {
			return status(code)
		}
		doc, code := n.documents.remove(key, p.Cas)
		return n.mutation(doc, code, withTokens)
	case memd.CmdTouch, memd.CmdGAT:
		return n.touch(key, p)
	case memd.CmdGetLocked:
		var seconds uint32
		if len(p.Extras) == 4 {
			seconds = binary.BigEndian.Uint32(p.Extras)
		}
		doc, code := n.documents.lock(key, seconds)
		return withDocument(doc, code)
	case memd.CmdUnlockKey:
		return status(n.documents.unlock(key, p.Cas))
	}
	return status(memd.StatusUnknownCommand)
}

// documentKey checks the key of a request and its collection.
func (n *Node) documentKey(p *memd.Packet) (documentKey, memd.StatusCode) {
	longest := maxKeyBytes
	if p.CollectionID != 0 {
		longest = maxKeyBytesNamed
	}
	switch {
	case len(p.Key) == 0 || len(p.Key) > longest:
		return documentKey{}, memd.StatusInvalidArgs
	case !n.manifest.has(p.CollectionID):
		return documentKey{}, memd.StatusCollectionUnknown
	}
	return documentKey{p.CollectionID, string(p.Key)}, memd.StatusSuccess
}

// durability checks the durability that a write asks for. What one node has is held by the majority.
func durability(p *memd.Packet) memd.StatusCode {
	if frame := p.DurabilityLevelFrame; frame != nil {
		switch frame.DurabilityLevel {
		case memd.DurabilityLevelMajority, memd.DurabilityLevelMajorityAndPersistOnMaster, memd.DurabilityLevelPersistToMajority:
		default:
			return memd.StatusDurabilityInvalidLevel
		}
	}
	return memd.StatusSuccess
}

func (n *Node) store(key documentKey, p *memd.Packet, withTokens bool) reply {
	switch {
	case len(p.Extras) != 8:
		return status(memd.StatusInvalidArgs)
	case len(p.Value) > maxValueBytes:
		return status(memd.StatusTooBig)
	}
	if code := durability(p); code != memd.StatusSuccess {
		return status(code)
	}
	doc, code := n.documents.store(key, storing{
		command: p.Command, cas: p.Cas, value: p.Value,
		flags: binary.BigEndian.Uint32(p.Extras), expiry: binary.BigEndian.Uint32(p.Extras[4:]),
		preserveExpiry: p.PreserveExpiryFrame != nil,
	})
	return n.mutation(doc, code, withTokens)
}

func (n *Node) touch(key documentKey, p *memd.Packet) reply {
	if len(p.Extras) != 4 {
		return status(memd.StatusInvalidArgs)
	}
	doc, code := n.documents.touch(key, binary.BigEndian.Uint32(p.Extras))
	if p.Command == memd.CmdGAT {
		return withDocument(doc, code)
	}
	return reply{status: code, cas: doc.cas}
}

// mutation is the answer to a write, with its mutation token if the client has asked for tokens.
func (n *Node) mutation(doc document, code memd.StatusCode, withTokens bool) reply {
	r := reply{status: code, cas: doc.cas}
	if withTokens && code == memd.StatusSuccess {
		r.extras = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, n.vbucketUUID), doc.sequence)
	}
	return r
}

func withDocument(doc document, code memd.StatusCode) reply {
	if code != memd.StatusSuccess {
		return status(code)
	}
	return reply{cas: doc.cas, extras: binary.BigEndian.AppendUint32(nil, doc.flags), value: doc.value}
}

// meta answers GET_META, by which the client finds out whether a document exists.
func (n *Node) meta(key documentKey) reply {
	doc, code := n.documents.get(key)
	if code != memd.StatusSuccess {
		return status(code)
	}
	extras := binary.BigEndian.AppendUint32(nil, 0) // not deleted
	extras = binary.BigEndian.AppendUint32(extras, doc.flags)
	extras = binary.BigEndian.AppendUint32(extras, n.documents.clientDate(doc.expiry))
	extras = binary.BigEndian.AppendUint64(extras, doc.sequence)
	return reply{cas: doc.cas, extras: append(extras, 0)} // a binary document
}

// lookup answers a sub-document lookup, by which the client reads a document together with its expiry. It
// knows the paths for that and the whole document.
func (n *Node) lookup(key documentKey, specs []byte) reply {
	doc, code := n.documents.get(key)
	if code != memd.StatusSuccess {
		return status(code)
	}
	r := reply{cas: doc.cas}
	for len(specs) > 0 {
		if len(specs) < 4 || len(specs) < 4+int(binary.BigEndian.Uint16(specs[2:])) {
			return status(memd.StatusInvalidArgs)
		}
		command, flags := memd.CmdCode(specs[0]), memd.SubdocFlag(specs[1])
		end := 4 + int(binary.BigEndian.Uint16(specs[2:]))
		path := string(specs[4:end])
		specs = specs[end:]

		one, code := []byte(nil), memd.StatusSuccess
		switch attribute := command == memd.CmdSubDocGet && flags&memd.SubdocFlagXattrPath != 0; {
		case attribute && path == "$document.exptime":
			one = strconv.AppendUint(nil, uint64(n.documents.clientDate(doc.expiry)), 10)
		case attribute && path == "$document.flags":
			one = strconv.AppendUint(nil, uint64(doc.flags), 10)
		case command == memd.CmdGet && path == "":
			one = doc.value
		case attribute:
			code = memd.StatusSubDocPathNotFound
		default:
			code = memd.StatusSubDocNotJSON
		}
		if code != memd.StatusSuccess {
			r.status = memd.StatusSubDocBadMulti
		}
		r.value = binary.BigEndian.AppendUint16(r.value, uint16(code))
		r.value = append(binary.BigEndian.AppendUint32(r.value, uint32(len(one))), one...)
	}
	return r
}
