package job

import (
	"bytes"
	"encoding/json"
)

// traces are the members of an error, and of its details, under which SDKs send
// backtraces.
var traces = map[string]bool{"backtrace": true, "stack": true, "stacktrace": true, "stack_trace": true, "traceback": true}

// OmitBacktraces takes the backtraces out of the job's errors (ojs-core.md
// §14.2): the member backtrace, and stack, stacktrace, stack_trace and traceback
// besides it, in each error and in its details. It is no change of the job's
// state, and it does not reach into messages.
func (j *Job) OmitBacktraces() {
	j.Error = withoutTraces(j.Error)
	if !suspicious(j.Errors) {
		return
	}
	b := []byte{'['}
	// What this package wrote it can read.
	_ = Elements(j.Errors, func(i int, v json.RawMessage) error {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, withoutTraces(v)...)
		return nil
	})
	j.Errors = append(b, ']')
}

// suspicious reports whether raw may hold a backtrace. Names may be escaped.
func suspicious(raw []byte) bool {
	return bytes.Contains(raw, []byte("trace")) || bytes.Contains(raw, []byte("stack")) || bytes.Contains(raw, []byte(`\u`))
}

// withoutTraces is an error object, or its details, without the members that are
// backtraces.
func withoutTraces(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || raw[0] != '{' || !suspicious(raw) {
		return raw
	}
	b := append(make([]byte, 0, len(raw)), '{')
	// What is stored has been checked.
	_ = Members(raw, func(name string, v json.RawMessage) error {
		switch {
		case traces[name]:
			return nil
		case name == "details":
			v = withoutTraces(v)
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(AppendString(b, name), ':'), v...)
		return nil
	})
	return append(b, '}')
}
