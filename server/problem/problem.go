// Package problem answers HTTP requests that failed with problem documents (RFC 9457). Every document has a
// stable type, urn:klatch:error:NAME, and a detail that says what to do next.
package problem

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"klatch/proto"
	"klatch/session"
	"klatch/store"
)

// Problem is one problem document.
type Problem struct {
	Name    string // the last part of its type
	Status  int
	Title   string        // what is wrong, the same for all of one name
	Detail  string        // what is wrong this time and what to do next
	Current proto.Version // the version that a condition met, if any
	// RetryAfter is in seconds; zero leaves the header out.
	RetryAfter int
}

// ContentType is the media type of problem documents.
const ContentType = "application/problem+json"

// Write answers with the document.
func (p Problem) Write(w http.ResponseWriter) {
	body := map[string]any{
		"type":   "urn:klatch:error:" + p.Name,
		"title":  p.Title,
		"status": p.Status,
		"detail": p.Detail,
	}
	if p.Current != 0 {
		body["currentVersion"] = p.Current.String()
	}
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	w.Header().Set("Content-Type", ContentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(body) // fails only if the client is gone
}

// BadRequest describes a request that is wrong in itself.
func BadRequest(format string, args ...any) Problem {
	return Problem{Name: "bad-request", Status: http.StatusBadRequest, Title: "The request is malformed", Detail: fmt.Sprintf(format, args...)}
}

// BodyTooLarge describes a body over the bound.
func BodyTooLarge(limit int) Problem {
	return Problem{
		Name: "too-large", Status: http.StatusRequestEntityTooLarge, Title: "Too large",
		Detail: fmt.Sprintf("The body is over %d bytes. Nothing was changed. Send less, or raise session.max-bytes.", limit),
	}
}

// BodyTooSlow describes a body that did not arrive in time.
func BodyTooSlow(limit time.Duration) Problem {
	return Problem{Name: "request-timeout", Status: http.StatusRequestTimeout, Title: "The request took too long", Detail: fmt.Sprintf("The body did not arrive within %s. Nothing was changed. Send it again.", limit)}
}

// MalformedQuery describes a query string that cannot be read whole.
func MalformedQuery(err error) Problem {
	return BadRequest("The query string is malformed: %v. Encode it as application/x-www-form-urlencoded.", err)
}

// NotFound describes a path that is not there.
func NotFound(path string) Problem {
	return Problem{Name: "not-found", Status: http.StatusNotFound, Title: "No such resource", Detail: fmt.Sprintf("There is nothing at %.100q. docs/openapi.yaml lists what there is.", path)}
}

// MethodNotAllowed describes a method that a path does not have.
func MethodNotAllowed(method string) Problem {
	return Problem{Name: "method-not-allowed", Status: http.StatusMethodNotAllowed, Title: "Method not allowed", Detail: fmt.Sprintf("%.20q is not a method of this resource; the Allow header lists those that are.", method)}
}

// CrossOrigin describes a request that a browser sent from another site.
func CrossOrigin() Problem {
	return Problem{Name: "cross-origin", Status: http.StatusForbidden, Title: "Cross-origin request refused", Detail: "Browsers may not send this from another origin. Call the API from a server."}
}

// Unauthorized describes a request without the API token.
func Unauthorized() Problem {
	return Problem{Name: "unauthorized", Status: http.StatusUnauthorized, Title: "An API token is needed", Detail: "Send the node's API token as Authorization: Bearer TOKEN."}
}

// Of describes an error of the session or store packages.
func Of(err error) Problem {
	p := Problem{Status: session.Status(err)}
	var conflict *session.ConflictError
	switch {
	case errors.As(err, &conflict):
		p.Current = conflict.Current
		p.Title = "The session has changed"
		if conflict.Precondition {
			p.Name = "precondition-failed"
			p.Detail = "If-Match names another version than the session has. Nothing was changed. Read the session and try again with its ETag."
		} else {
			p.Name = "conflict"
			p.Detail = fmt.Sprintf("Attribute %.64q was changed by another request meanwhile. Nothing was changed. Read the session and decide anew.", conflict.Attribute)
		}
	case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrGone):
		p.Name, p.Title = "session-gone", "No such session"
		p.Detail = "The session was ended, has expired or never was. Start a new one."
	case errors.Is(err, session.ErrTooLarge):
		p.Name, p.Title = "too-large", "Too large"
		p.Detail = err.Error() + ". Nothing was changed. Store less in a session, or raise session.max-bytes."
	case errors.Is(err, session.ErrInvalid):
		p.Name, p.Title = "bad-request", "The request is malformed"
		p.Detail = err.Error()
	case errors.Is(err, session.ErrCorrupt):
		p.Name, p.Title = "session-corrupt", "The stored session is damaged"
		p.Detail = "This session's record cannot be decoded; others are not affected. Delete it and start a new one."
	case errors.Is(err, session.ErrOutcomeUnknown), errors.Is(err, store.ErrAmbiguous):
		p.Name, p.Title, p.RetryAfter = "outcome-unknown", "It is unknown whether the change was made", 1
		p.Detail = "The store's answer was lost. Read the session to see whether the change was made."
	case errors.Is(err, proto.ErrSchema):
		p.Name, p.Title = "newer-schema", "Written by a newer release"
		p.Detail = "A newer release of klatch wrote this session. Upgrade this node."
	default:
		p.Name, p.Title, p.RetryAfter = "store-unavailable", "The store is unavailable", 1
		p.Detail = "The store did not answer in time. Nothing was changed. Try again; if it lasts, see the node's log."
	}
	return p
}
