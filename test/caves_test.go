package test

import (
	"testing"
	"time"

	"klatch/store"
	"klatch/store/couchbase"
	"klatch/store/storetest"
	"klatch/test/caves"
)

// gocaves does not share our beliefs about the protocol. It is slow under load, and was seen to give one CAS twice.
func TestConformanceOnSomebodyElsesServer(t *testing.T) {
	url := caves.Start(t)
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) store.Store {
			o, err := couchbase.ParseURL(url + "?kv-timeout=5s&start-wait=30s")
			if err != nil {
				t.Fatal(err)
			}
			o.User, o.Password = "Administrator", "password"
			return open(t, o)
		},
		Rounding:   2 * time.Second,
		RepeatsCAS: true,
	})
}
