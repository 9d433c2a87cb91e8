package cluster

import (
	"reflect"
	"testing"

	"klatch/proto"
)

func TestRingGivesWhatItHasAndSaysWhatIsGone(t *testing.T) {
	tests := []struct {
		name    string
		fill    func(r *ring)
		ask     []proto.Range
		batches []uint64
		gone    []proto.Range
	}{
		{"one", packs(3), spans(2, 2), []uint64{2}, nil},
		{"several ranges", packs(5), spans(1, 2, 4, 4), []uint64{1, 2, 4}, nil},
		{"never given out", packs(3), spans(3, 9), []uint64{3}, nil},
		{"everything", packs(3), spans(0, 1<<64-1), []uint64{1, 2, 3}, nil},
		{"upside down", packs(3), spans(3, 1), nil, nil},
		{"nothing was sent", func(*ring) {}, spans(1, 5), nil, nil},
		{"skipped", func(r *ring) { packs(1)(r); r.skip(); r.skip(); packs(1)(r) }, spans(1, 4), []uint64{1, 4}, spans(2, 3)},
		{"skipped at the end", func(r *ring) { packs(1)(r); r.skip(); r.skip() }, spans(1, 3), []uint64{1}, spans(2, 3)},
		{"skipped alone", func(r *ring) { r.skip() }, spans(1, 1), nil, spans(1, 1)},
		{"overrun", packs(maxRecent + 2), spans(1, 3), []uint64{3}, spans(1, 2)},
		{"overrun by skips", func(r *ring) {
			packs(2)(r)
			for range 2 * maxRecent {
				r.skip()
			}
			packs(1)(r)
		}, spans(1, 2, 2*maxRecent+2, 2*maxRecent+3), []uint64{2*maxRecent + 3}, spans(1, 2, 2*maxRecent+2, 2*maxRecent+2)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ring := newRing(alice)
			tt.fill(ring)
			messages, gone := ring.collect(tt.ask, 1<<20)
			var batches []uint64
			for _, message := range messages {
				m, err := proto.DecodeMessage(message)
				if err != nil {
					t.Fatal(err)
				}
				batches = append(batches, m.(proto.Batch).Seq)
			}
			if !reflect.DeepEqual(batches, tt.batches) || !reflect.DeepEqual(gone, tt.gone) {
				t.Errorf("batches %v gone %v, want %v and %v", batches, gone, tt.batches, tt.gone)
			}
		})
	}
}

// spans makes ranges out of pairs of numbers.
func spans(numbers ...uint64) []proto.Range {
	var ranges []proto.Range
	for i := 0; i < len(numbers); i += 2 {
		ranges = append(ranges, proto.Range{First: numbers[i], Last: numbers[i+1]})
	}
	return ranges
}

func packs(n int) func(*ring) {
	return func(r *ring) {
		for range n {
			r.pack([][]byte{proto.EncodeItem(invalidate("x"))}, false)
		}
	}
}

func TestRingIsBounded(t *testing.T) {
	r := newRing(alice)
	item := proto.EncodeItem(proto.Stamp{Scope: string(make([]byte, 4000))})
	for range 2 * maxRecent {
		r.pack([][]byte{item}, false)
	}
	kept, size := 0, 0
	for _, slot := range r.slots {
		if slot.message != nil {
			kept, size = kept+1, size+len(slot.message)
		}
	}
	if size > maxRecentBytes || size != r.bytes || kept == 0 {
		t.Errorf("%d batches of %d bytes are kept, %d are counted, at most %d should be", kept, size, r.bytes, maxRecentBytes)
	}
	if batches, _ := r.collect([]proto.Range{{First: 1, Last: 1 << 40}}, maxReplyBytes); len(batches) == 0 || len(batches)*4000 > maxReplyBytes {
		t.Errorf("%d batches in one reply", len(batches))
	}
}
