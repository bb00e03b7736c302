package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

// A bad schedule, or a bad change of one, is refused before the service hears of it.
func TestBadCrons(t *testing.T) {
	const rest = `"name":"n","expression":"@daily"`
	for i, tt := range []struct {
		request, body string
		status        int
		code, field   string
	}{
		{"POST /cron", ``, 400, "invalid_payload", ""},
		{"POST /crons", `[]`, 400, "invalid_payload", ""},
		{"POST /cron", `{` + rest + `}`, 400, "invalid_request", "job_template"},
		{"POST /cron", `{` + rest + `,"job_template":{"args":[]}}`, 400, "invalid_request", "type"},
		{"POST /cron", `{` + rest + `,"type":"a.b","overlap_policy":"x"}`, 400, "invalid_request", "overlap_policy"},
		{"POST /cron", `{` + rest + `,"type":"a.b","schedule":"@hourly"}`, 400, "invalid_request", "expression"},
		{"POST /cron", `{` + rest + `,"type":"a.b","enabled":1}`, 400, "invalid_request", "enabled"},
		{"POST /cron", `{` + rest + `,"type":"a.b","options":{"retry":{"surprise":1}}}`, 422, "invalid_request", "retry.surprise"},
		{"POST /cron", `{` + rest + `,"type":"a.b","description":"` + strings.Repeat("x", 1001) + `"}`, 400, "invalid_request", "description"},
		{"POST /cron?if_not_exists=1", `{` + rest + `,"type":"a.b"}`, 400, "invalid_request", "if_not_exists"},
		{"PATCH /cron/mail", ``, 400, "invalid_payload", ""},
		{"PATCH /cron/mail", `{}`, 400, "invalid_request", ""},
		{"PUT /crons/mail", `{"job_template":[]}`, 400, "invalid_request", "job_template"},
		{"PUT /cron/mail", `{"cron":"@daily","expression":"@hourly"}`, 400, "invalid_request", "expression"},
		{"PATCH /cron/No", `{"enabled":true}`, 404, "not_found", ""},
		{"POST /cron/%2e%2e/trigger", ``, 404, "not_found", ""},
		{"GET /cron/mail/history?jobs=x", ``, 400, "invalid_request", "jobs"},
		{"GET /crons?page=0", ``, 400, "invalid_request", "page"},
	} {
		t.Run(fmt.Sprintf("%02d", i), func(t *testing.T) {
			f := world()
			method, path, _ := strings.Cut(tt.request, " ")
			w := serve(New(f, quiet()), method, "/ojs/v1"+path, tt.body)
			e := failureOf(t, w.Body)
			field, _ := e.Details["field"].(string)
			if w.Code != tt.status || e.Code != tt.code || field != tt.field || !strings.Contains(e.Message, tt.field) {
				t.Errorf("%s %s: got %d %s field %q: %s", tt.request, tt.body, w.Code, e.Code, field, e.Message)
			}
			if n := f.calls.Load(); n != 0 {
				t.Errorf("%s %s reached the service %d times", tt.request, tt.body, n)
			}
		})
	}
}

// Both paths of a schedule ask the service the same.
func TestCronVerbsReachTheService(t *testing.T) {
	f := world()
	var asked []string
	patch := f.changeCron
	f.changeCron = func(ctx context.Context, name string, p job.CronPatch) (*job.Cron, error) {
		asked = append(asked, fmt.Sprintf("%s %t", name, *p.Enabled))
		return patch(ctx, name, p)
	}
	h := New(f, quiet())
	for _, base := range []string{"/ojs/v1/cron", "/ojs/v1/crons"} {
		asked = nil
		serve(h, "POST", base+"/mail/pause", "not looked at")
		serve(h, "POST", base+"/plain/resume", "")
		serve(h, "PATCH", base+"/mail/", `{"enabled":false}`)
		serve(h, "PUT", base+"/plain", `{"enabled":true}`)
		if got, want := strings.Join(asked, ", "), "mail false, plain true, mail false, plain true"; got != want {
			t.Errorf("%s: got %s, want %s", base, got, want)
		}
	}
}

// A schedule keeps its own members from its jobs, and its jobs have all others.
func TestPutCronReachesTheService(t *testing.T) {
	f := world()
	var got job.CronSpec
	f.putCron = func(_ context.Context, s job.CronSpec) (*job.Cron, bool, error) {
		got = s
		return &job.Cron{CronSpec: s}, true, nil
	}
	w := serve(New(f, quiet()), "POST", "/ojs/v1/cron", `{"name":"n","cron":"@daily","overlap":"allow","type":"a.b","x":1e2,"options":{"tags":["t"]},"status":"paused"}`)
	want := `{"type":"a.b","x":1e2,"options":{"tags":["t"]},"args":[]}`
	if w.Code != http.StatusCreated || string(got.Template) != want || got.Overlap != job.OverlapAllow || got.Enabled != nil || got.Timezone != "" {
		t.Errorf("got %d, %+v with %s, want %s", w.Code, got, got.Template, want)
	}
	var shown struct {
		Cron struct {
			Template json.RawMessage `json:"job_template"`
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &shown); err != nil || string(shown.Cron.Template) != want {
		t.Errorf("shown is %s, %v", shown.Cron.Template, err)
	}
}

// if_not_exists tells a name that is free from a service that does not answer.
func TestPutCronIfNotThere(t *testing.T) {
	for name, want := range map[string]int{"nothing": 201, "mail": 409, "busy": 503} {
		body := `{"name":"` + name + `","cron":"@daily","type":"a.b"}`
		for _, path := range []string{"/ojs/v1/cron", "/ojs/v1/crons"} {
			if w := serve(New(world(), quiet()), "POST", path+"?if_not_exists=true", body); w.Code != want {
				t.Errorf("%s: got %d, want %d", name, w.Code, want)
			}
			f := world()
			kept := true
			f.putCron = func(_ context.Context, s job.CronSpec) (*job.Cron, bool, error) {
				kept = false
				return &job.Cron{CronSpec: s}, name == "nothing", nil
			}
			w := serve(New(f, quiet()), "POST", path, body, "If-None-Match", " * ")
			if w.Code != want || kept != (want != 201) || want == 409 && failureOf(t, w.Body).Code != "duplicate" {
				t.Errorf("%s with If-None-Match: got %d, kept %t: %s", name, w.Code, kept, w.Body)
			}
			if w := serve(New(f, quiet()), "POST", path+"?if_not_exists=false", body, "If-None-Match", "*"); w.Code >= 300 {
				t.Errorf("%s: the parameter says that it may be there, got %d", name, w.Code)
			}
		}
	}
}
