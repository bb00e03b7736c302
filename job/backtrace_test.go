package job

import (
	"encoding/json"
	"testing"
)

// Whatever is named as a backtrace goes, at any depth; nothing else does, also
// where a name comes twice (ojs-core.md §14.2).
func TestBacktracesAreTakenOutAtAnyDepth(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ raw, want string }{
		{`{"type":"E","message":"at x (y:1)","backtrace":["x"],"details":{"stack":"x","kept":1}}`, `{"type":"E","message":"at x (y:1)","details":{"kept":1}}`},
		{`{"stackTrace":"x","StackTraceString":"x","error_stack_trace":"x","Traceback":"x","call-stack":"x","st\u0061ck":"x"}`, `{}`},
		{`{"cause":{"name":"A","stack":"x","cause":{"backtrace":[],"b":[1e2]}},"errors":[{"stack":"x"},[{"traceback":"x"}],7]}`,
			`{"cause":{"name":"A","cause":{"b":[1e2]}},"errors":[{},[{}],7]}`},
		{`{"a":1,"a":2,"stack":"x","haystack":3,"openstack":4,"trace_id":5,"a\"b":"\u00e9"}`, `{"a":1,"a":2,"haystack":3,"openstack":4,"trace_id":5,"a\"b":"\u00e9"}`},
		{`{}`, `{}`}, {`"stack"`, `"stack"`}, {`null`, `null`},
	} {
		j := &Job{Status: Status{Error: json.RawMessage(tt.raw), Errors: json.RawMessage(`[` + tt.raw + `]`)}}
		j.OmitBacktraces()
		if string(j.Error) != tt.want || string(j.Errors) != `[`+tt.want+`]` {
			t.Errorf("%s\n got %s, %s\nwant %s", tt.raw, j.Error, j.Errors, tt.want)
		}
		if f := (Failure{Backtrace: []string{"x"}, Details: json.RawMessage(tt.raw)}).WithoutBacktraces(); f.Backtrace != nil || string(f.Details) != tt.want {
			t.Errorf("%s: got %v, %s", tt.raw, f.Backtrace, f.Details)
		}
	}
}
