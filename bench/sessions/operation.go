package sessions

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// operation is what a thread does to its session.
type operation string

const (
	create  operation = "CREATE"
	refresh operation = "REFRESH"
	update  operation = "UPDATE"
	remove  operation = "DELETE"
)

var allOperations = []operation{create, refresh, update, remove}

var methods = map[operation]string{
	create: http.MethodPost, refresh: http.MethodGet, update: http.MethodPut, remove: http.MethodDelete,
}

// failure is an operation that went wrong, by kind.
type failure struct {
	kind   string
	detail string
}

func (f *failure) Error() string { return f.kind + ": " + f.detail }

// kindStale is the failure of a session that went back in time.
const kindStale = "STALE"

// reply is what the application answers.
type reply struct {
	Node       string `json:"node"`
	Session    string `json:"session"`
	Version    string `json:"version"`
	Attributes int    `json:"attributes"`
}

// perform sends one operation on the session of j and checks the answer.
func (r *run) perform(ctx context.Context, op operation, j *jar) (reply, error) {
	carried := uint64(0)
	request, err := http.NewRequestWithContext(ctx, methods[op], r.operationURL(op), nil)
	if err != nil {
		return reply{}, &failure{"REQUEST", err.Error()}
	}
	if op != create {
		var cookie string
		cookie, carried = j.get()
		request.Header.Set("Cookie", "klatch="+cookie)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return reply{}, &failure{"TRANSPORT", err.Error()}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return reply{}, &failure{"TRANSPORT", err.Error()}
	}
	if response.StatusCode/100 != 2 {
		return reply{}, &failure{"STATUS " + strconv.Itoa(response.StatusCode), fmt.Sprintf("%.200s", text)}
	}
	var answer reply
	if err := json.Unmarshal(text, &answer); err != nil {
		return reply{}, &failure{"BODY", err.Error()}
	}
	version, err := strconv.ParseUint(answer.Version, 10, 64)
	if err != nil {
		return answer, &failure{"BODY", err.Error()}
	}
	if version < carried {
		return answer, &failure{kindStale, fmt.Sprintf("%s answered version %d to a request with version %d", answer.Node, version, carried)}
	}
	if want := r.options.attributes; op != remove && answer.Attributes != want {
		return answer, &failure{"ATTRIBUTES", fmt.Sprintf("%s answered %d attributes, want %d", answer.Node, answer.Attributes, want)}
	}
	for _, cookie := range response.Cookies() {
		if cookie.Name == "klatch" && op != remove {
			j.put(cookie.Value)
		}
	}
	if value, _ := j.get(); op == create && value == "" {
		return answer, &failure{"COOKIE", answer.Node + " made a session and set no cookie"}
	}
	return answer, nil
}

func (r *run) operationURL(op operation) string {
	query := url.Values{}
	switch op {
	case create:
		query.Set("attributes", strconv.Itoa(r.options.attributes))
		query.Set("size", strconv.Itoa(r.options.size))
	case update:
		if r.options.attributes > 0 {
			query.Set("name", "a"+strconv.Itoa(rand.IntN(r.options.attributes)))
		}
	}
	if ms := r.options.operationSleep.Milliseconds(); ms > 0 {
		query.Set("sleep", strconv.FormatInt(ms, 10))
	}
	return r.options.base.String() + "/app?" + query.Encode()
}

// timed performs one operation, records it and reports whether it went well.
func (r *run) timed(ctx context.Context, who string, op operation, j *jar) bool {
	begin := time.Now()
	answer, err := r.perform(ctx, op, j)
	took := time.Since(begin)
	if ctx.Err() != nil {
		return false // ended by hand: what it cut off is no failure
	}
	r.stats.record(op, took, err)
	if r.options.debug {
		result := fmt.Sprintf("%s:%s", answer.Node, answer.Session)
		if err != nil {
			result = err.Error()
		}
		r.line("%s (%s): %s res=%s time=%d\n", begin.Format("15:04:05.000"), who, op, result, took.Milliseconds())
	}
	return err == nil
}
