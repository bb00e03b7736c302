package job

import (
	"encoding/json"
	"strings"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// OmitBacktraces takes the backtraces out of the job's errors (ojs-core.md
// §14.2), wherever SDKs put them: each member of an error, at any depth, that is
// named as one, in whatever spelling (backtrace, stack, stackTrace, traceback).
// It is no change of the job's state, and it does not reach into messages, which
// are for people (§8.1).
func (j *Job) OmitBacktraces() {
	j.Error, j.Errors, j.ParentErrors = withoutTraces(j.Error), withoutTraces(j.Errors), withoutTraces(j.ParentErrors)
}

// WithoutBacktraces is the failure less what OmitBacktraces would take out of it.
func (f Failure) WithoutBacktraces() Failure {
	f.Backtrace, f.Details, f.Extra = nil, withoutTraces(f.Details), withoutTraces(f.Extra)
	return f
}

// isTrace reports whether a member of that name is a backtrace.
func isTrace(name string) bool {
	name = strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
	for _, word := range [...]string{"backtrace", "stacktrace", "traceback"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return name == "stack" || name == "callstack"
}

// withoutTraces is valid JSON without the members that are backtraces.
func withoutTraces(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || raw[0] != '{' && raw[0] != '[' {
		return raw
	}
	b := rawjson.Writer(append(make([]byte, 0, len(raw)), raw[0]))
	if raw[0] == '[' {
		_ = Elements(raw, func(_ int, v json.RawMessage) error { // it is valid
			b.Element()
			b = append(b, withoutTraces(v)...)
			return nil
		})
		b.EndArray()
		return json.RawMessage(b)
	}
	_ = rawjson.Walk(raw, func(quoted, v json.RawMessage) error { // likewise
		if name := rawjson.Unquote(quoted); !isTrace(name) {
			b.Quoted(name, withoutTraces(v))
		}
		return nil
	})
	return b.Close()
}
