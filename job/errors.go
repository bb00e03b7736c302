package job

import (
	"errors"
	"fmt"
	"strings"
)

// Kind says what sort of failure an error is. Callers branch on Kind, never on text.
type Kind int

// The kinds of failure. [Internal] is the zero value: everything unforeseen.
const (
	Internal        Kind = iota
	Malformed            // the body is not JSON, or not an object
	Invalid              // a value breaks a rule of the specification
	BadRetry             // the retry policy breaks ojs-retry.md §11
	NotFound             // there is no such thing
	Conflict             // the state, or the holder, does not allow it
	Finished             // CANCEL of a job that completed or was discarded
	Duplicate            // the id, or the unique key, is taken
	TooLarge             // a body, a batch or a result passes its limit
	NotAllowed           // the resource exists, the verb does not
	Unauthenticated      // the caller has not shown who it is, with a token that is known
	Forbidden            // the caller may not ask this at all
	Unsupported          // a version or a feature that this server has not
	Rejected             // a middleware refused the job
	SchemaViolation      // args are not what their registered schema says
	QueueFull            // a PUSH to a queue that holds as many jobs as it may; send again later
	QueueClosed          // a PUSH to a queue that is draining; send again later
	Unavailable          // the store cannot answer now; ask again later
)

// ErrForeign is the cause of an error that was answered, but by no job server: by
// a proxy in front of it, or by what else has its address. It says nothing about
// what was asked, and the same may be asked again.
var ErrForeign = errors.New("the answer is none of a job server")

// Error is the one error type of the project. Message is for a person: what
// happened, to what, why, and what to do next. Details goes to the wire as an
// object. Err is the cause, if there is one; for [Internal] errors neither it
// nor the message ever leaves the process, and for [Unavailable] ones the text of
// the cause does not: see [Error.Outside].
type Error struct {
	Kind    Kind
	Message string
	Details map[string]any
	Err     error
	Public  string // instead of Message outside of the process, where that names files; empty: Message does
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Outside is the message as callers in other processes may read it: without the
// texts of causes that are not the project's own, such as those of a database or of
// the operating system, which name files and more. The log has them.
func (e *Error) Outside() string {
	if e.Public != "" {
		return e.Public
	}
	told := e.Message
	for cause := e.Err; cause != nil; cause = errors.Unwrap(cause) {
		text, own := cause.Error(), ""
		if inner, ok := cause.(*Error); ok {
			own = inner.Outside()
		}
		if own == "" {
			told = strings.ReplaceAll(told, ": "+text, "")
		}
		told = strings.ReplaceAll(told, text, own)
		if own != "" {
			break // it has looked at its own causes
		}
	}
	if told == "" {
		return "the server cannot answer this now; its log says why"
	}
	return told
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error of kind k; %w keeps a cause.
func Errorf(k Kind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: k, Message: err.Error(), Err: errors.Unwrap(err)}
}

// With sets the Details of an Error that was just made, and returns it.
func (e *Error) With(details map[string]any) *Error {
	e.Details = details
	return e
}

// KindOf is the kind of the first *Error in err's chain, and Internal if there is none.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Internal
}

// invalid is a violation of a rule about one field. The message holds the
// field's name, as clients expect it (contract §1.3).
func invalid(k Kind, field, format string, args ...any) *Error {
	e := Errorf(k, "%s %s", field, fmt.Sprintf(format, args...))
	e.Details = map[string]any{"field": field}
	if k == BadRetry {
		e.Message += " (validation.retry_policy_invalid)"
		e.Details["error_type"] = "validation.retry_policy_invalid"
	}
	return e
}

// DetailsOf are the Details of the first *Error in err's chain, nil if there are none.
func DetailsOf(err error) map[string]any {
	var e *Error
	if errors.As(err, &e) {
		return e.Details
	}
	return nil
}
