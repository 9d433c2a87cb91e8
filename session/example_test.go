package session_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"

	"klatch/proto"
	"klatch/session"
	"klatch/store/memory"
)

// alone is the news of a node that has no peers. In a cluster, cluster.Cluster takes its place.
type alone struct{}

func (alone) Publish(...proto.Item) {}

func (alone) Confirm(context.Context, ...proto.Item) []string { return nil }

func newManager() *session.Manager {
	m, err := session.New(session.Options{
		Store:  memory.New(memory.Options{}),
		News:   alone{},
		Node:   "n1",
		Writer: 1,
	})
	if err != nil {
		panic(err)
	}
	return m
}

// The middleware loads the session that the cookie names and saves it before the answer leaves.
func ExampleManager_Middleware() {
	m := newManager()
	defer m.Close()

	handler := m.Middleware(session.MiddlewareOptions{PlainHTTP: true})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		current := session.FromContext(r.Context())
		s := current.Session()
		if s == nil {
			var err error
			if s, err = current.Start(session.Draft{}); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		visits, _ := s.Get("visits")
		n, _ := strconv.Atoi(string(visits.Data))
		s.Set("visits", session.Bytes([]byte(strconv.Itoa(n+1))))
		fmt.Fprintf(w, "visit %d", n+1)
	}))

	var cookie string
	for range 3 {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		if cookie != "" {
			request.Header.Set("Cookie", cookie)
		}
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		set := answer.Result().Cookies()[0]
		cookie = set.Name + "=" + set.Value
		fmt.Println(answer.Body)
	}
	// Output:
	// visit 1
	// visit 2
	// visit 3
}

// Update runs a read-modify-write until no other writer comes in between, so that no increment is lost,
// whichever nodes they run on.
func ExampleManager_Update() {
	m := newManager()
	defer m.Close()
	ctx := context.Background()

	s, err := m.Create(ctx, session.Draft{Attributes: map[string]session.Value{"n": session.Bytes([]byte("41"))}})
	if err != nil {
		panic(err)
	}
	updated, err := m.Update(ctx, s.ID(), session.LoadOptions{}, session.CommitOptions{}, func(s *session.Session) error {
		v, _ := s.Get("n")
		n, err := strconv.Atoi(string(v.Data))
		if err != nil {
			return err
		}
		s.Set("n", session.Bytes([]byte(strconv.Itoa(n+1))))
		return nil
	})
	if err != nil {
		panic(err)
	}
	n, _ := updated.Get("n")
	fmt.Println(string(n.Data))
	// Output: 42
}

// Two views of one session that change different attributes both win; a condition refuses the second instead.
func ExampleManager_Commit() {
	m := newManager()
	defer m.Close()
	ctx := context.Background()

	created, err := m.Create(ctx, session.Draft{})
	if err != nil {
		panic(err)
	}
	first, _ := m.Load(ctx, created.ID(), session.LoadOptions{})
	second, _ := m.Load(ctx, created.ID(), session.LoadOptions{})
	first.Set("a", session.JSON([]byte("1")))
	second.Set("b", session.JSON([]byte("2")))
	fmt.Println(m.Commit(ctx, first, session.CommitOptions{}))
	fmt.Println(m.Commit(ctx, second, session.CommitOptions{}), second.Len(), "attributes")

	second.Set("c", session.JSON([]byte("3")))
	err = m.Commit(ctx, second, session.CommitOptions{IfMatch: created.Version()})
	var conflict *session.ConflictError
	fmt.Println(errors.As(err, &conflict) && conflict.Precondition)
	// Output:
	// <nil>
	// <nil> 2 attributes
	// true
}
