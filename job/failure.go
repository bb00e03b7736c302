package job

import (
	"bytes"
	"encoding/json"
	"time"
)

// Failure is what a worker reports with FAIL (ojs-core.md §8, ojs-retry.md §7.3).
type Failure struct {
	Type      string // empty: error_class or type of Details, else the code, else "Error" (contract §2.7)
	Message   string
	Code      string // RETRY, DISCARD, DEAD_LETTER or FAIL decide; others are for people
	Retryable *bool  // false makes the failure final
	Details   json.RawMessage
	Backtrace []string        // the one member that is cut: 50 frames and 10,000 characters stay
	Extra     json.RawMessage // a JSON object of further members of the error, given back as they came
	Requeue   bool            // give the job back untouched, as often as the server allows; nothing else counts then
	// Undelivered, together with Requeue, is the word of a server that the job never
	// reached its worker: it may go back as often as that happens. Nobody sends it.
	Undelivered bool
	RetryAfter  *time.Duration // instead of the computed backoff, still capped
}

// errorMembers are the members of a stored error that have a field of their own,
// or are the server's to set.
var errorMembers = map[string]bool{"type": true, "message": true, "code": true, "retryable": true, "details": true,
	"backtrace": true, "attempt": true, "occurred_at": true, "timestamp": true}

// KnownErrorMember reports whether a member of an error object means something
// here: all others are kept in a failure's Extra.
func KnownErrorMember(name string) bool { return errorMembers[name] }

// Validate checks what a Go program put into a failure, and takes the space
// around its JSON away. Details or Extra that are
// no JSON are Malformed; an Extra that is no object, or holds what has a field of
// its own, is Invalid; an error that is longer than MaxErrorBytes is TooLarge.
func (f *Failure) Validate() error {
	if f.Requeue {
		return nil
	}
	for _, raw := range [...]*json.RawMessage{&f.Details, &f.Extra} {
		if *raw != nil {
			if err := CheckJSON(*raw); err != nil {
				return err
			}
			*raw = bytes.TrimSpace(*raw)
		}
	}
	if f.Extra != nil {
		if err := Members(f.Extra, func(name string, _ json.RawMessage) error {
			if errorMembers[name] {
				return invalid(Invalid, "error", "holds %q among its further members, which has its own field or is the server's", name)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return f.bounded()
}

// bounded refuses an error that a job cannot keep whole, 25 times. The backtrace
// does not count: that is cut.
func (f *Failure) bounded() error {
	n := len(f.Type) + len(f.Message) + len(f.Code) + len(f.Details) + len(f.Extra)
	if n <= MaxErrorBytes || f.Requeue {
		return nil
	}
	return tooLarge("the error, without its backtrace,", n, MaxErrorBytes)
}

// ErrorType is the type under which a failure is recorded (contract §2.7).
func (f Failure) ErrorType() string {
	code := f.Code
	if responseCodes[code] {
		code = ""
	}
	for _, s := range []string{f.Type, detail(f.Details, "error_class"), detail(f.Details, "type"), code} {
		if s != "" {
			return s
		}
	}
	return "Error"
}
