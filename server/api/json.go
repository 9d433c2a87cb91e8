package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"klatch/server/problem"
	"klatch/session"
)

func (a *API) writeJSON(w http.ResponseWriter, status int, body any) {
	text, err := encodeJSON(body)
	if err != nil {
		a.Logger.Error("encoding an answer", zap.Error(err))
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // fails only if the client is gone
}

// encodeJSON leaves <, > and & as they are, so that attributes come back as they were written.
func encodeJSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}

// readJSON decodes the body into v. If it cannot, it has answered and reports false.
func (a *API) readJSON(w http.ResponseWriter, r *http.Request, v any) bool {
	limit := a.Sessions.MaxBytes()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(limit)))
	if err != nil {
		var tooLarge *http.MaxBytesError
		switch {
		case errors.As(err, &tooLarge):
			problem.BodyTooLarge(limit).Write(w)
		case errors.Is(err, os.ErrDeadlineExceeded):
			problem.BodyTooSlow(requestTimeout).Write(w)
		default:
			problem.BadRequest("The body could not be read: %v.", err).Write(w)
		}
		return false
	}
	if first := bytes.TrimSpace(body); len(first) > 0 && first[0] != '{' {
		problem.BadRequest("The body must be a JSON object.").Write(w)
		return false
	}
	if err := decodeJSON(body, v); err != nil {
		problem.BadRequest("%s", describeJSONError(err)).Write(w)
		return false
	}
	return true
}

// decodeJSON reads exactly one JSON value, without fields that v does not have.
func decodeJSON(text []byte, v any) error {
	if !utf8.Valid(text) {
		return errors.New("the text is not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something after the JSON value")
	}
	return nil
}

func describeJSONError(err error) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.EOF):
		return "The body is empty; send JSON."
	case errors.As(err, &syntax):
		return fmt.Sprintf("The body is not JSON: %v at byte %d.", syntax, syntax.Offset)
	case errors.As(err, &kind):
		where := "The body"
		if kind.Field != "" {
			where = fmt.Sprintf("Field %q", kind.Field)
		}
		return fmt.Sprintf("%s must be %s, not %s.", where, jsonKind(kind.Type.Kind().String()), kind.Value)
	default:
		return fmt.Sprintf("The body is not what is expected: %s.", strings.TrimPrefix(err.Error(), "json: "))
	}
}

func jsonKind(goKind string) string {
	switch goKind {
	case "map", "struct":
		return "an object"
	case "slice", "array":
		return "an array"
	case "string":
		return "a string"
	default:
		return "another type"
	}
}

// duration is a length of time in JSON: "30m", a number of seconds, or "never".
type duration time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (d *duration) UnmarshalJSON(text []byte) error {
	var word string
	var seconds float64
	switch {
	case string(text) == "null":
		return nil
	case json.Unmarshal(text, &word) == nil && word == "never":
		*d = duration(session.Never)
		return nil
	case json.Unmarshal(text, &word) == nil:
		if parsed, err := time.ParseDuration(word); err == nil && parsed >= time.Nanosecond {
			*d = duration(parsed)
			return nil
		}
	case json.Unmarshal(text, &seconds) == nil:
		const shortest, longest = 1e-9, 1e9 // a nanosecond to 31 years
		if seconds >= shortest && seconds <= longest {
			*d = duration(seconds * float64(time.Second))
			return nil
		}
	}
	return fmt.Errorf(`duration %.40s: use a form like "30m", a number of seconds, or "never"`, text)
}

// MarshalJSON implements json.Marshaler. Zero is how records keep "never".
func (d duration) MarshalJSON() ([]byte, error) {
	if d == 0 {
		return []byte(`"never"`), nil
	}
	text := time.Duration(d).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return json.Marshal(text)
}
