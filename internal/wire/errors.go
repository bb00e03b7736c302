// Package wire holds what travels between client and server: request and
// response bodies, and the one table where a kind of error meets HTTP.
package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/outrider-jobs/outrider/job"
)

// Answer is how one kind of error looks on the wire (contract §1.4).
type Answer struct {
	Kind      job.Kind
	Status    int
	Code      string
	Retryable bool
	Hint      string // what to do next, for a person
}

// answers is the one place where a job.Kind meets HTTP. The server writes with
// it, the client reads with it. Status and Code together name a Kind: the
// specification answers some conflicts with 409 and the code of a 400. Where
// several rows share a status, the first stands for a code that no row has.
var answers = []Answer{
	{job.Invalid, http.StatusBadRequest, "invalid_request", false, "Correct the named field and send the request again."},
	{job.Malformed, http.StatusBadRequest, "invalid_payload", false, "Send one JSON object in UTF-8 as the body."},
	{job.NotFound, http.StatusNotFound, "not_found", false, "Check the id or the path; finished jobs are removed after their retention."},
	{job.Conflict, http.StatusConflict, "conflict", false, "Read it again; its state, or its holder, has changed."},
	{job.Finished, http.StatusConflict, "invalid_request", false, "Nothing is left to cancel: the job has finished."},
	{job.Duplicate, http.StatusConflict, "duplicate", false, "Use the existing job, or send one with another id or another unique key."},
	{job.TooLarge, http.StatusRequestEntityTooLarge, "invalid_payload", false, "Send less, or send a reference instead of the data."},
	{job.NotAllowed, http.StatusMethodNotAllowed, "invalid_request", false, "Use one of the methods in the Allow header."},
	{job.Unauthenticated, http.StatusUnauthorized, "unauthenticated", false, "Send a token of this server: Authorization: Bearer TOKEN. The commands of outrider take it from OJS_AUTH_TOKEN or --token-file."},
	{job.Forbidden, http.StatusForbidden, "permission_denied", false, "Call from this machine under a loopback name, or configure the host name."},
	{job.Unsupported, http.StatusUnprocessableEntity, "unsupported", false, "Leave the feature out, or use a version that has it."},
	{job.BadRetry, http.StatusUnprocessableEntity, "invalid_request", false, "Correct the retry policy; members that are left out take their defaults."},
	{job.Rejected, http.StatusUnprocessableEntity, "x_middleware_rejected", false, "Ask who runs the server what the named middleware wants of a job."},
	{job.SchemaViolation, http.StatusBadRequest, "schema_validation", false, "Correct the args; GET /ojs/v1/schemas/{uri} shows what they must be."},
	{job.QueueClosed, http.StatusUnprocessableEntity, "queue_paused", true, "Send it again when the queue is resumed, or to another queue."},
	{job.QueueFull, http.StatusTooManyRequests, "QUEUE_FULL", true, "Send it again after the time in Retry-After."},
	{job.Unavailable, http.StatusServiceUnavailable, "backend_error", true, "Try again after the time in Retry-After."},
	{job.Internal, http.StatusInternalServerError, "backend_error", true, "Look for the request id in the server's log."},
}

// ErrStalled is the cause of an Unavailable whose caller stopped sending its body.
var ErrStalled = errors.New("no bytes of it came for too long")

// AnswerTo is the row for an error; an error that is no *job.Error is Internal.
func AnswerTo(err error) Answer {
	k := job.KindOf(err)
	if errors.Is(err, ErrStalled) {
		return Answer{k, http.StatusRequestTimeout, "timeout", true, "Send the body again, without a pause in it."}
	}
	if errors.Is(err, ErrNotEnded) {
		return Answer{k, http.StatusRequestTimeout, "timeout", true, "Ask again: the job goes on, whoever waits for it."}
	}
	for _, a := range answers {
		if a.Kind == k {
			return a
		}
	}
	return answers[len(answers)-1]
}

// KindOf is the kind that a status and a code stand for. If the table does not have
// the pair, the status decides.
func KindOf(status int, code string) job.Kind {
	for _, a := range answers {
		if a.Status == status && a.Code == code {
			return a.Kind
		}
	}
	for _, a := range answers {
		if a.Status == status && a.Kind != job.QueueFull { // other codes of its status are of other limits
			return a.Kind
		}
	}
	switch {
	case status >= 500, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout:
		return job.Unavailable
	}
	return job.Invalid
}

// Docs is the page that every error refers to.
const Docs = "https://openjobspec.org/spec/v1/ojs-core"

type errorBody struct {
	Error errorObject `json:"error"`
}

type errorObject struct {
	Code      string         `json:"code"`
	Type      string         `json:"type,omitempty"`
	Message   string         `json:"message"`
	Retryable *bool          `json:"retryable"` // nil where another server does not say
	Details   map[string]any `json:"details,omitempty"`
	Hint      string         `json:"hint"`
	DocsURL   string         `json:"docs_url"`
	DocURL    string         `json:"doc_url"`
	RequestID string         `json:"request_id,omitempty"`

	// Of a queue that is full these stand beside the details, too (contract §4.13).
	Queue    any `json:"queue,omitempty"`
	Depth    any `json:"depth,omitempty"`
	Bound    any `json:"bound,omitempty"`
	Strategy any `json:"strategy,omitempty"`
}

// outside is the text of an error for a caller. That of an Internal error stays in the
// server, and so do those of the causes of an Unavailable one.
func outside(err error) string {
	var e *job.Error
	switch kind := job.KindOf(err); {
	case kind == job.Internal || !errors.As(err, &e):
		return "internal error"
	case kind == job.Unavailable:
		return e.Outside()
	}
	return e.Message
}

// EncodeError is the status and the body for an error (contract §1.3).
func EncodeError(err error, requestID string) (status int, body []byte) {
	a := AnswerTo(err)
	o := errorObject{Code: a.Code, Message: outside(err), Retryable: &a.Retryable, Hint: a.Hint,
		DocsURL: Docs, DocURL: Docs, RequestID: requestID}
	var e *job.Error
	if a.Kind != job.Internal && errors.As(err, &e) {
		o.Details = e.Details
		if hint, ok := e.Details["hint"].(string); ok { // a hint of its own is more precise than that of its kind
			o.Hint = hint
		}
	}
	if d := o.Details; a.Kind == job.QueueFull {
		o.Queue, o.Depth, o.Bound, o.Strategy = d["queue"], d["depth"], d["bound"], d["strategy"]
	}
	if a.Kind == job.Invalid || a.Kind == job.BadRetry || a.Kind == job.SchemaViolation {
		o.Type = "validation_error"
	}
	body, merr := json.Marshal(errorBody{o})
	if merr != nil { // a detail that is no JSON
		o.Details = nil
		body, _ = json.Marshal(errorBody{o})
	}
	return a.Status, body
}

// DecodeError is the *job.Error that a status and a body stand for. Whole numbers in
// its Details are ints, as they are in the process that made them. A body without the
// code and the message of contract §1.3, or with an unknown code and no retryable,
// comes from a proxy or from another server: it is Unavailable, whatever its status,
// or TooLarge, Unauthenticated or Forbidden, and its cause is [job.ErrForeign].
func DecodeError(status int, body []byte) error {
	var b errorBody
	if json.Unmarshal(body, &b) != nil {
		return Foreign(status)
	}
	return errorOf(status, b)
}

// errorOf is DecodeError for a body that was read.
func errorOf(status int, b errorBody) error {
	if b.Error.Message == "" || b.Error.Code == "" || !knownCode(b.Error.Code) && b.Error.Retryable == nil {
		return Foreign(status)
	}
	for k, v := range b.Error.Details {
		if f, ok := v.(float64); ok && f == math.Trunc(f) && math.Abs(f) <= 1<<53 {
			b.Error.Details[k] = int(f)
		}
	}
	kind := KindOf(status, b.Error.Code)
	if again := b.Error.Retryable; again != nil && *again && status < 500 && kind != job.QueueFull && kind != job.QueueClosed {
		kind = job.Unavailable // the server itself says so
	}
	return &job.Error{Kind: kind, Message: b.Error.Message, Details: b.Error.Details}
}

// knownCode reports whether a code is of contract §1.4.
func knownCode(code string) bool {
	switch code {
	case "schema_validation", "rate_limited", "timeout":
		return true
	}
	return strings.HasPrefix(code, "x_") || slices.ContainsFunc(answers, func(a Answer) bool { return a.Code == code })
}

// Foreign is the error for an answer that does not come from a job server. Its Details
// have the status.
func Foreign(status int) error {
	kind := KindOf(status, "")
	switch kind {
	case job.TooLarge, job.Unauthenticated, job.Forbidden, job.Internal:
	default:
		kind = job.Unavailable
	}
	return &job.Error{Kind: kind, Err: job.ErrForeign, Details: map[string]any{"status": status},
		Message: fmt.Sprintf("the answer %d %s does not come from a job server, but from a proxy or another server at this address", status, http.StatusText(status))}
}
