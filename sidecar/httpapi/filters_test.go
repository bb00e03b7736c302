package httpapi

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestUnknownFiltersOfLists goes through all routes: whatever looks at its limit
// is a list, and refuses a parameter that it does not know by its name. What
// clients send to every list is taken by every list.
func TestUnknownFiltersOfLists(t *testing.T) {
	named := strings.NewReplacer(":id", string(idOne), ":name", "mail", ":key", strings.Repeat("0", 64))
	lists := 0
	for _, r := range Routes() {
		path := named.Replace(r.Path)
		if r.Method != "GET" || r.Stream || serve(New(world(), quiet()), "GET", path+"?limit=0", "").Code != 400 {
			continue
		}
		lists++
		for _, query := range []string{"filtre=mail", "quue=mail", "limit=1&Limit=1", "_=1"} {
			f := world()
			w := serve(New(f, quiet()), "GET", path+"?"+query, "")
			e := failureOf(t, w.Body)
			name, _, _ := strings.Cut(strings.TrimPrefix(query, "limit=1&"), "=")
			if w.Code != 400 || e.Code != "invalid_request" || e.Details["field"] != name || !strings.Contains(e.Message, name) || f.calls.Load() != 0 {
				t.Errorf("GET %s?%s: got %d %+v, %d calls", path, query, w.Code, e, f.calls.Load())
			}
		}
		for _, query := range []string{"page=1&per_page=5", "sort=created_at&order=desc", "limit=5&offset=0&cursor="} {
			if w := serve(New(world(), quiet()), "GET", path+"?"+query, ""); w.Code != 200 {
				t.Errorf("GET %s?%s: got %d %s", path, query, w.Code, w.Body)
			}
		}
	}
	if lists < 12 {
		t.Errorf("%d routes are lists", lists)
	}
}

// TestUnknownFiltersAreSuggested: the answer says what was probably meant.
func TestUnknownFiltersAreSuggested(t *testing.T) {
	for target, want := range map[string]string{
		"/ojs/v1/jobs?stat=active": "did you mean state?", "/ojs/v1/jobs?quue=mail": "did you mean queue?", "/ojs/v1/jobs?colour=red": "there are state, queue, type, since, until, limit",
		"/ojs/v1/dead-letter?errortype=x": "did you mean error_type?", "/ojs/v1/events?job=x": "there are types", "/ojs/v1/events?jobid=x": "did you mean job_id?",
		"/ojs/v1/cron?enable=true": "did you mean enabled?", "/ojs/v1/unique-jobs?states=active": "did you mean state?",
	} {
		if e := failureOf(t, serve(New(world(), quiet()), "GET", target, "").Body); !strings.Contains(e.Message, want) {
			t.Errorf("GET %s: %s", target, e.Message)
		}
	}
	e := failureOf(t, serve(New(world(), quiet()), "POST", "/ojs/v1/cron?if_not_exist=true", `{"name":"a","cron":"@daily","type":"a.b"}`).Body)
	if !strings.Contains(e.Message, "did you mean if_not_exists?") {
		t.Errorf("a schedule would be replaced: %s", e.Message)
	}
}

// TestWarningsOverTheWire: a request with an option that nobody knows is carried
// out, and its answer says so in warnings.
func TestWarningsOverTheWire(t *testing.T) {
	for _, tt := range []struct{ method, target, body, want string }{
		{"POST", "/ojs/v1/cron", `{"name":"nothing","cron":"@daily","type":"a.b","options":{"quue":"mail"}}`, "options.quue"},
		{"POST", "/ojs/v1/cron", `{"name":"nothing","cron":"@daily","job_template":{"type":"a.b","options":{"priorty":1}}}`, "options.priorty"},
		{"POST", "/ojs/v1/cron", `{"name":"nothing","cron":"@daily","job_template":{"type":"a.b","options":{"priority":1}}}`, ""},
		{"PATCH", "/ojs/v1/cron/mail", `{"options":{"quue":"mail"}}`, "options.quue"},
	} {
		w := serve(New(world(), quiet()), tt.method, tt.target, tt.body)
		var answer struct {
			Warnings []struct{ Field, Message string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code >= 300 {
			t.Errorf("%s %s: got %d %s, %v", tt.method, tt.body, w.Code, w.Body, err)
		}
		if told := len(answer.Warnings) > 0; told != (tt.want != "") || told && (answer.Warnings[0].Field != tt.want || !strings.Contains(answer.Warnings[0].Message, "did you mean")) {
			t.Errorf("%s %s: got %+v", tt.method, tt.body, answer.Warnings)
		}
	}
}
