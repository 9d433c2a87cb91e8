package proto

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

var (
	origin  = Origin{Node: "n1", Boot: 1 << 60}
	sampled = []Item{
		Invalidate{Key: NewKey("default", KindSession, "abc"), Version: 42},
		Invalidate{Key: NewKey("default", KindSession, "def"), Dead: true},
		Touched{Key: NewKey("default", KindSession, "abc"), LastAccess: time.UnixMilli(1_700_000_000_000)},
		Stamp{Tenant: "default", Scope: "tag:a", Epoch: 8},
	}
)

// everyMessage is one of each kind but the batch, which has no encoding of its own.
var everyMessage = []Message{
	Mark{Origin: origin, Last: 9, To: 7, Sent: 1 << 50, Echo: 1<<50 - 1, Held: 3 * time.Millisecond, Applied: 4, Reply: ReplyStream},
	Farewell{Origin: origin, Last: 9},
	State{Points: []Point{{Origin: origin, Last: 3}}, Items: []Item{Stamp{Tenant: "default", Scope: "tag:a", Epoch: 8}}},
	RepairRequest{From: origin, To: 5, Missing: []Range{{1, 3}, {7, 7}}, Reply: ReplyDatagram},
	RepairReply{Origin: origin, Batches: [][]byte{{1, 2}, {3}}, Gone: []Range{{4, 5}}},
	Request{From: origin, ID: 8, Method: "keyring", Body: []byte{9}},
	Reply{From: origin, ID: 8, Body: []byte{9}, Error: "no"},
}

func encodeItems(items []Item) [][]byte {
	var encoded [][]byte
	for _, item := range items {
		encoded = append(encoded, EncodeItem(item))
	}
	return encoded
}

func TestMessagesSurviveTheCodec(t *testing.T) {
	batch, packed := PackBatch(origin, 9, encodeItems(sampled), false, MaxMessageBytes)
	if packed != len(sampled) {
		t.Fatalf("packed %d of %d items", packed, len(sampled))
	}
	if got, err := DecodeMessage(batch); err != nil || !reflect.DeepEqual(got, Batch{Origin: origin, Seq: 9, Items: sampled}) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, want := range everyMessage {
		if got, err := DecodeMessage(EncodeMessage(want)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
}

func TestBatchesStayWithinTheirBound(t *testing.T) {
	item := EncodeItem(Invalidate{Key: NewKey("default", KindDocument, strings.Repeat("k", 240)), Version: MaxVersion})
	long := Origin{Node: strings.Repeat("n", 32), Boot: 1<<64 - 1}
	items := slicesRepeat(item, 100)
	sent := 0
	for len(items) > 0 {
		message, packed := PackBatch(long, 1<<63, items, true, MaxMessageBytes)
		if len(message) > MaxMessageBytes {
			t.Fatalf("a batch of %d items takes %d bytes", packed, len(message))
		}
		items = items[packed:]
		sent += packed
	}
	if sent != 100 {
		t.Errorf("%d items were packed", sent)
	}
}

func slicesRepeat(p []byte, n int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = p
	}
	return all
}

func TestItemsOfALaterReleaseAreSkippedAndCounted(t *testing.T) {
	unknown := []byte{0x93, 0x63, 0xa1, 'x', 0x92, 0x01, 0x02} // [99, "x", [1, 2]]
	longer := append([]byte{0x95}, EncodeItem(sampled[0])[1:]...)
	longer = append(longer, 0xa1, 'y') // Invalidate with an element more
	message, _ := PackBatch(origin, 1, [][]byte{unknown, longer}, false, MaxMessageBytes)
	got, err := DecodeMessage(message)
	if err != nil {
		t.Fatal(err)
	}
	want := Batch{Origin: origin, Seq: 1, Items: sampled[:1], Unknown: 1}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestMessagesOfALaterReleaseAreKnownAsSuch(t *testing.T) {
	if _, err := DecodeMessage([]byte{WireVersion, 0x92, 0x63, 0x01}); !errors.Is(err, ErrUnknownMessage) {
		t.Errorf("an unknown kind: %v", err)
	}
	if _, err := DecodeMessage([]byte{WireVersion + 1, 0x90}); !errors.Is(err, ErrSchema) {
		t.Errorf("an unknown wire version: %v", err)
	}
}

func FuzzDecodeMessage(f *testing.F) {
	batch, _ := PackBatch(origin, 9, encodeItems(sampled), false, MaxMessageBytes)
	f.Add(batch)
	for _, message := range everyMessage {
		f.Add(EncodeMessage(message))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		message, err := DecodeMessage(p)
		if err != nil {
			return
		}
		if batch, ok := message.(Batch); ok {
			again, _ := PackBatch(batch.Origin, batch.Seq, encodeItems(batch.Items), batch.Confirm, 1<<30)
			batch.Unknown = 0
			decoded, err := DecodeMessage(again)
			if err != nil || !reflect.DeepEqual(decoded, batch) {
				t.Errorf("got %+v, %v, want %+v", decoded, err, batch)
			}
			return
		}
		if again := EncodeMessage(message); !bytes.Equal(again, EncodeMessage(must2(DecodeMessage(again)))) {
			t.Errorf("%+v does not survive the codec", message)
		}
	})
}

func must2(m Message, err error) Message {
	if err != nil {
		panic(err)
	}
	return m
}

func TestNodeMetaSurvivesTheCodecWithinItsBound(t *testing.T) {
	want := NodeMeta{Release: "v1.2.3-rc.1", HTTP: "[2001:db8::1234:5678]:7070", Admin: "192.168.100.200:7071", State: Draining, Started: 1_700_000_000_000}
	encoded := want.Encode()
	if len(encoded) > MaxNodeMetaBytes {
		t.Errorf("%d bytes", len(encoded))
	}
	if got, err := DecodeNodeMeta(encoded); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
}

func FuzzDecodeNodeMeta(f *testing.F) {
	f.Add(NodeMeta{Release: "v1", State: Ready}.Encode())
	f.Fuzz(func(t *testing.T, p []byte) {
		meta, err := DecodeNodeMeta(p)
		if err != nil {
			return
		}
		if again, err := DecodeNodeMeta(meta.Encode()); err != nil || again != meta {
			t.Errorf("got %+v, %v, want %+v", again, err, meta)
		}
	})
}
