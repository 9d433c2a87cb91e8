package near

import (
	"fmt"
	"testing"

	"klatch/proto"
	"klatch/store"
	"klatch/store/memory"
)

func BenchmarkGetFromMemory(b *testing.B) {
	backing := memory.New(memory.Options{})
	cache, err := New(Options[*note]{Store: backing, Decode: decodeNote, News: &recorder{}})
	if err != nil {
		b.Fatal(err)
	}
	defer cache.Close()
	keys := make([]proto.Key, 1000)
	value := at(1, "one")
	for i := range keys {
		keys[i] = proto.NewKey("t", proto.KindDocument, fmt.Sprint(i))
		if _, err := cache.Put(b.Context(), keys[i], value, value.encode(), store.PutOptions{TTL: store.Forever}, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, err := cache.Get(b.Context(), keys[i%len(keys)], Want{After: 1}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
