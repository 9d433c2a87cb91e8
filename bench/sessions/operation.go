package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
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

const (
	requestTimeout = 30 * time.Second // besides the sleep inside the operation
	maxAnswer      = 1 << 20          // bytes
	// maxValue bounds the values that go in the URL of an update; a larger one the application makes itself, of
	// the size that the attribute has.
	maxValue = 4096
)

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
func (r *run) perform(ctx context.Context, op operation, j *jar, random *rand.Rand) (reply, error) {
	carried := uint64(0)
	request, err := http.NewRequestWithContext(ctx, methods[op], r.operationURL(op, random), nil)
	if err != nil {
		return reply{}, &failure{"REQUEST", err.Error()}
	}
	if op != create {
		var cookie string
		cookie, carried = j.get()
		request.Header.Set("Cookie", "klatch="+cookie)
	}
	response, text, err := r.exchange(request)
	if err != nil {
		return reply{}, &failure{"TRANSPORT", err.Error()}
	}
	if response.StatusCode/100 != 2 {
		return reply{}, &failure{"STATUS " + strconv.Itoa(response.StatusCode), fmt.Sprintf("%.200s", strings.Join(strings.Fields(string(text)), " "))}
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
	for _, cookie := range response.Cookies() {
		if cookie.Name == "klatch" && op != remove {
			j.put(cookie.Value)
		}
	}
	if want := r.options.attributes; op != remove && answer.Attributes != want {
		return answer, &failure{"ATTRIBUTES", fmt.Sprintf("%s answered %d attributes, want %d", answer.Node, answer.Attributes, want)}
	}
	if value, _ := j.get(); op == create && value == "" {
		return answer, &failure{"COOKIE", answer.Node + " made a session and set no cookie"}
	}
	return answer, nil
}

var errBroke = errors.New("the connection broke after the request was sent")

// exchange sends a request and reads the whole answer. A transport sends a safe request again by itself if a
// connection that was used before breaks without an answer; that would hide what the tool is to find.
func (r *run) exchange(request *http.Request) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(request.Context(), requestTimeout+r.options.operationSleep)
	defer cancel()
	var sent, broke atomic.Bool
	request = request.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			if sent.Load() {
				broke.Store(true)
				cancel()
			}
		},
		WroteRequest: func(wrote httptrace.WroteRequestInfo) {
			if wrote.Err == nil {
				sent.Store(true)
			}
		},
	}))
	response, err := r.client.Do(request)
	if broke.Load() {
		if err == nil {
			response.Body.Close()
		}
		return nil, nil, errBroke
	}
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return response, text, err
}

func (r *run) operationURL(op operation, random *rand.Rand) string {
	query := url.Values{}
	switch op {
	case create:
		query.Set("attributes", strconv.Itoa(r.options.attributes))
		query.Set("size", strconv.Itoa(r.options.size))
	case update:
		query.Set("name", "a"+strconv.Itoa(random.IntN(r.options.attributes)))
		if r.options.size <= maxValue {
			query.Set("value", randomValue(random, r.options.size))
		}
	}
	if ms := r.options.operationSleep.Milliseconds(); ms > 0 {
		query.Set("sleep", strconv.FormatInt(ms, 10))
	}
	return r.options.base.String() + "/app?" + query.Encode()
}

func randomValue(random *rand.Rand, size int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz012345" // 32 of them: five random bits each
	value := make([]byte, size)
	for i := range value {
		value[i] = letters[random.Uint32()>>27]
	}
	return string(value)
}

// timed performs one operation, records it and reports whether it went well.
func (r *run) timed(ctx context.Context, who string, op operation, j *jar, random *rand.Rand) bool {
	begin := time.Now()
	answer, err := r.perform(ctx, op, j, random)
	took := time.Since(begin)
	if err != nil && ctx.Err() != nil {
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
