package cbnode_test

import (
	"testing"

	"github.com/couchbase/gocb/v2"

	"klatch/test/cbnode"
)

func TestStoreVerbs(t *testing.T) {
	c := openCollection(t, startNode(t, cbnode.Options{}))

	first := insert(t, c, "k", "one", 0)
	wants(t, c, "k", "one", first)
	_, err := c.Insert("k", []byte("two"), &gocb.InsertOptions{Transcoder: raw})
	wantsError(t, err, gocb.ErrDocumentExists)

	second, err := replace(c, "k", "two", first)
	if err != nil {
		t.Fatal(err)
	}
	wants(t, c, "k", "two", second)
	_, err = replace(c, "k", "three", first)
	wantsError(t, err, gocb.ErrCasMismatch)
	_, err = replace(c, "missing", "v", 0)
	wantsError(t, err, gocb.ErrDocumentNotFound)
	_, err = replace(c, "missing", "v", first)
	wantsError(t, err, gocb.ErrDocumentNotFound)

	_, err = c.Remove("k", &gocb.RemoveOptions{Cas: first})
	wantsError(t, err, gocb.ErrCasMismatch)
	if _, err = c.Remove("k", &gocb.RemoveOptions{Cas: second}); err != nil {
		t.Fatal(err)
	}
	_, err = c.Remove("k", nil)
	wantsError(t, err, gocb.ErrDocumentNotFound)
	_, _, err = get(c, "k")
	wantsError(t, err, gocb.ErrDocumentNotFound)
}
