package job_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

// A job that asks for a check gets it, whatever else is in its meta, and no other does.
func TestSelfCheck(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ kind, args, meta, want string }{
		{"a.b", `[]`, ``, ""},
		{"a.reject", `[]`, `{"x":1}`, ""},
		{"a.reject", `[]`, `{"ojs_validate":false}`, ""},
		{"a.reject", `[]`, `{"ojs_validate":"true"}`, ""},
		{"a.reject", `[]`, `{"x":{"ojs_validate":true}}`, ""},
		{"a.b", `[1]`, `{"ojs_validate":true}`, ""},
		{"a.rejected", `[null]`, `{"ojs_validate":true}`, ""},
		{"a.b", "[ \n]", `{"a":"b", "ojs_validate": true}`, "args are empty"},
		{"a.reject.b", `[1]`, `{"ojs_validate":true}`, `a segment of its type is "reject"`},
	} {
		e := job.Envelope{Type: tt.kind, Args: json.RawMessage(tt.args)}
		if tt.meta != "" {
			e.Meta = json.RawMessage(tt.meta)
		}
		c, err := e.Check()
		if err != nil {
			t.Fatal(err)
		}
		err = c.SelfCheck()
		if tt.want == "" {
			if err != nil {
				t.Errorf("%+v: %v", tt, err)
			}
		} else if job.KindOf(err) != job.Rejected || !strings.HasSuffix(err.Error(), tt.want) {
			t.Errorf("%+v: got %v", tt, err)
		}
	}
}
