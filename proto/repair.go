package proto

// Range is the sequences First to Last, both included.
type Range struct{ First, Last uint64 }

// RepairRequest asks an origin for batches that have not arrived.
type RepairRequest struct {
	From    Origin // who asks
	To      uint64 // the boot that gave the sequences out
	Missing []Range
	Reply   ReplyPath // by datagram: each batch as it was first sent; otherwise a [RepairReply]
}

// RepairReply brings batches again, as they were sent. What was asked for and is neither in Batches nor in Gone
// did not fit and may be asked for again.
type RepairReply struct {
	Origin  Origin
	Batches [][]byte
	Gone    []Range // sequences of which nothing is kept any more, or nothing ever was
}

// Request is a question to one node that somebody waits to see answered.
type Request struct {
	From   Origin
	ID     uint64 // chosen by the one who asks
	Method string
	Body   []byte
}

// Reply answers the [Request] with the same ID.
type Reply struct {
	From  Origin
	ID    uint64
	Body  []byte
	Error string // not empty: the request failed, and why
}

func (e *encoder) ranges(ranges []Range) {
	e.array(len(ranges))
	for _, r := range ranges {
		e.array(2)
		e.uint(r.First)
		e.uint(r.Last)
	}
}

func (d *decoder) ranges() []Range {
	n := d.array(0)
	ranges := make([]Range, 0, n)
	for range n {
		elements := d.array(2)
		ranges = append(ranges, Range{First: d.uint(), Last: d.uint()})
		d.trailing(elements - 2)
	}
	return ranges
}

func decodeRepairReply(d *decoder) RepairReply {
	reply := RepairReply{Origin: d.origin()}
	n := d.array(0)
	for range n {
		if d.err != nil {
			return RepairReply{}
		}
		reply.Batches = append(reply.Batches, d.bytes())
	}
	reply.Gone = d.ranges()
	return reply
}
