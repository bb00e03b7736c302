package handwork

import (
	"encoding/json"
	"fmt"
)

// failed is why an attempt failed, with the type under which it is recorded.
type failed struct {
	kind    string // such as exit_1, signal_kill or http_503
	what    string // for a list of jobs: "exit 1"
	message string
	details map[string]any
	err     error // what else it is; may be nil
}

func (f *failed) Error() string     { return f.message }
func (f *failed) Unwrap() error     { return f.err }
func (f *failed) ErrorType() string { return f.kind }

// ErrorDetails is kept with the job.
func (f *failed) ErrorDetails() json.RawMessage {
	if len(f.details) == 0 {
		return nil
	}
	raw, _ := json.Marshal(f.details) // strings and numbers
	return raw
}

// because is a message and, if there is one, the reason behind it.
func because(message, reason string) string {
	if reason == "" {
		return message
	}
	return fmt.Sprintf("%s: %s", message, reason)
}
