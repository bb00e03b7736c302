package job

import (
	"strings"
	"testing"
)

// TestTheCustomIDAtEitherLevel: a member of the envelope or of its options, in
// both spellings (contract §2.2, §2.6); the option wins, and it is kept once.
func TestTheCustomIDAtEitherLevel(t *testing.T) {
	for members, want := range map[string]string{
		`"job_id":"a"`: "a", `"jobId":"a"`: "a", `"options":{"job_id":"a"}`: "a", `"options":{"jobId":"a"}`: "a",
		`"job_id":"a","options":{"job_id":"b"}`: "b", `"jobId":"a","options":{"job_id":null}`: "a", `"job_id":null`: "",
		`"job_id":"a","jobId":"a"`: "a", `"custom_job_id":"a"`: "a", `"x":1`: "",
	} {
		e, err := parseEnvelope([]byte(`{"type":"a.b","args":[],` + members + `}`))
		if err != nil || e.CustomID != want || strings.Contains(string(e.Extra), "job") {
			t.Errorf("%s: got %q, %v, beside %s", members, e.CustomID, err, e.Extra)
			continue
		}
		if again, err := parseEnvelope(appendPush(e)); err != nil || again.CustomID != want {
			t.Errorf("%s: it comes back as %q, %v", members, again.CustomID, err)
		}
	}
	for _, bad := range []string{`""`, `7`, `"` + strings.Repeat("x", maxCustomID+1) + `"`} {
		for _, members := range []string{`"job_id":` + bad, `"jobId":` + bad} {
			if _, err := parseEnvelope([]byte(`{"type":"a.b","args":[],` + members + `}`)); KindOf(err) != Invalid || err == nil || !strings.Contains(err.Error(), "job") {
				t.Errorf("%s: got %v", members, err)
			}
		}
	}
	if _, err := parseEnvelope([]byte(`{"type":"a.b","args":[],"job_id":"a","jobId":"b"}`)); KindOf(err) != Invalid || err == nil {
		t.Errorf("two ids: got %v", err)
	}
	for _, members := range []string{`"job_id":"a"`, `"jobId":"a"`, `"custom_job_id":"a"`} {
		s := CronSpec{Name: "n", Expression: "@daily", Template: []byte(`{"type":"a.b","args":[],` + members + `}`)}
		if _, err := s.Validate(); KindOf(err) != Invalid || err == nil {
			t.Errorf("a template with %s: got %v", members, err)
		}
	}
}
