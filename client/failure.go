package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// Discard makes err final: the job is discarded, whatever its retry policy
// says, and is no dead letter. A handler returns it.
func Discard(err error) error { return steer(err, steering{code: "DISCARD"}) }

// DeadLetter makes err final: the job goes to the dead letter queue, whatever
// its retry policy says.
func DeadLetter(err error) error { return steer(err, steering{code: "DEAD_LETTER"}) }

// NonRetryable says that another attempt would fail, too. The job's policy says
// what happens then: discarded or dead letter.
func NonRetryable(err error) error { return steer(err, steering{final: true}) }

// RetryAfter asks for the next attempt after d instead of the computed backoff.
// The policy still limits the number of attempts and the longest delay.
func RetryAfter(err error, d time.Duration) error { return steer(err, steering{after: &d}) }

// steering is an error that also says what is to become of the job.
type steering struct {
	err   error
	code  string
	final bool
	after *time.Duration
}

func steer(err error, s steering) error {
	if s.err = err; err == nil {
		s.err = errors.New("the handler gave no reason")
	}
	return &s
}

func (s *steering) Error() string { return s.err.Error() }
func (s *steering) Unwrap() error { return s.err }

// ErrorTyper is an error that names its own type in the job's record, such as
// "smtp.refused", where a job's non_retryable_errors can match it. For other
// errors the Go type is taken: "net.OpError".
type ErrorTyper interface {
	error
	ErrorType() string
}

// ErrorDetailer is an error with details for the job's record: any JSON, or nil.
type ErrorDetailer interface {
	error
	ErrorDetails() json.RawMessage
}

// Codes of failures (contract §1.4).
const (
	codeHandler  = "handler_error"
	codeNotFound = "handler_not_found"
	codeTimeout  = "timeout"
)

// Limits of what a failure may hold.
const (
	maxFrames  = 50
	maxBacklog = 10_000                // characters of a backtrace
	maxMessage = job.MaxErrorBytes / 2 // bytes
)

// failureOf is what FAIL says of a handler's error.
func failureOf(err error) job.Failure {
	f := job.Failure{Type: typeOf(err), Message: message(err), Code: codeHandler}
	if errors.Is(err, errUnhandled) || errors.Is(err, errOverrun) {
		f.Code = f.Type
	}
	var p *panicked
	if errors.As(err, &p) {
		f.Backtrace = p.frames
	}
	var detailed ErrorDetailer
	if errors.As(err, &detailed) {
		f.Details = detailed.ErrorDetails()
	}
	var s *steering
	if errors.As(err, &s) {
		if s.code != "" {
			f.Code = s.code
		}
		if s.final {
			f.Retryable = new(bool)
		}
		f.RetryAfter = s.after
	}
	return f
}

// typeOf names the type of an error: as it names itself, or the first Go type
// in its chain that says more than "some error with a text".
func typeOf(err error) string {
	var typed ErrorTyper
	if errors.As(err, &typed) {
		return typed.ErrorType()
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		name := strings.TrimLeft(reflect.TypeOf(e).String(), "*")
		switch name {
		case "client.steering", "fmt.wrapError", "fmt.wrapErrors", "errors.errorString", "errors.joinError":
			continue
		}
		return name
	}
	return "Error"
}

// panicked is the error of a handler that panicked.
type panicked struct {
	value  any
	frames []string
}

func (p *panicked) Error() string     { return fmt.Sprint(p.value) }
func (p *panicked) ErrorType() string { return "panic" }

// newPanic is called in the deferred function that recovered value.
func newPanic(value any) *panicked {
	pc := make([]uintptr, 128)
	frames := runtime.CallersFrames(pc[:runtime.Callers(2, pc)])
	p, left, inside := &panicked{value: value}, maxBacklog, false
	for {
		f, more := frames.Next()
		line := fmt.Sprintf("%s (%s:%d)", f.Function, f.File, f.Line)
		switch {
		case f.Function == "runtime.gopanic":
			inside, p.frames, left = true, nil, maxBacklog // all before it is our own recovery
		case inside && strings.HasPrefix(f.Function, "runtime."):
		case inside && left > 0 && len(p.frames) < maxFrames:
			line = cut(line, left)
			left -= len(line)
			p.frames = append(p.frames, line)
		}
		if !more {
			return p
		}
	}
}

// message is the text of an error. If it is longer than a job can keep it is cut, and
// says so at its end.
func message(err error) string {
	s := err.Error()
	if len(s) <= maxMessage {
		return s
	}
	return fmt.Sprintf("%s … (cut by the worker: the message has %d bytes)", cut(s, maxMessage), len(s))
}

// cut is at most n bytes of the start of s, as valid UTF-8.
func cut(s string, n int) string {
	return strings.ToValidUTF8(s[:min(len(s), n)], "")
}
