package sessions

import (
	"fmt"
	"sync"
	"testing"
)

func TestTheJarKeepsTheHighestVersion(t *testing.T) {
	for name, c := range map[string]struct {
		answers []string
		want    string
		version uint64
	}{
		"in order":                {[]string{"id~7.n1", "id~8.n1"}, "id~8.n1", 8},
		"out of order":            {[]string{"id~8.n1", "id~7.n2"}, "id~8.n1", 8},
		"as numbers, not as text": {[]string{"id~9.n1", "id~10.n1"}, "id~10.n1", 10},
		"the route has moved":     {[]string{"id~8.n1", "id~8.n2"}, "id~8.n2", 8},
		"no version":              {[]string{"id.n1"}, "id.n1", 0},
		"no version after one":    {[]string{"id~8.n1", "id.n1"}, "id~8.n1", 8},
		"no route":                {[]string{"id~8"}, "id~8", 8},
		"the largest":             {[]string{"id~18446744073709551615.n1"}, "id~18446744073709551615.n1", 1<<64 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			var j jar
			for _, a := range c.answers {
				j.put(a)
			}
			if value, version := j.get(); value != c.want || version != c.version {
				t.Errorf("got %s with version %d, want %s with %d", value, version, c.want, c.version)
			}
		})
	}
}

func TestTheJarIsSharedByChildren(t *testing.T) {
	var j jar
	var children sync.WaitGroup
	for i := range 8 {
		children.Go(func() {
			for v := range 1000 {
				j.put(fmt.Sprintf("id~%d.n1", v*8+i))
				j.get()
			}
		})
	}
	children.Wait()
	if _, version := j.get(); version != 7999 {
		t.Errorf("version %d, want 7999", version)
	}
}
