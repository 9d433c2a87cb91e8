package proto

import (
	"errors"
	"reflect"
	"testing"
	"time"
)

func sampleStamps() StampRecord {
	return StampRecord{Epoch: 1 << 40, Floor: 3, Stamps: []ScopeStamp{
		{Scope: "tag:red", Epoch: 4, Raised: time.UnixMilli(1_700_000_000_123)},
		{Scope: "url:/ä", Epoch: 1 << 40, Raised: time.UnixMilli(1_700_000_000_456)},
	}}
}

func TestStampRecordSurvivesTheCodec(t *testing.T) {
	for _, want := range []StampRecord{sampleStamps(), {Stamps: []ScopeStamp{}}} {
		got, err := DecodeStampRecord(want.Encode())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	whole := sampleStamps().Encode()
	for n := range whole {
		if _, err := DecodeStampRecord(whole[:n]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("the first %d bytes: error %v", n, err)
		}
	}
}

func FuzzDecodeStampRecord(f *testing.F) {
	f.Add(sampleStamps().Encode())
	f.Add(StampRecord{}.Encode())
	f.Fuzz(func(t *testing.T, p []byte) {
		record, err := DecodeStampRecord(p)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrSchema) {
				t.Errorf("error %v is neither ErrCorrupt nor ErrSchema", err)
			}
			return
		}
		again, err := DecodeStampRecord(record.Encode())
		if err != nil || !reflect.DeepEqual(again, record) {
			t.Errorf("got %+v, %v, want %+v", again, err, record)
		}
	})
}
