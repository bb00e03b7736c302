package client_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// cronObject is a schedule as a server shows it.
func cronObject(name, more string) string {
	return `{"id":"` + name + `","name":"` + name + `","expression":"0 9 * * *","cron":"0 9 * * *","schedule":"0 9 * * *","timezone":"Asia/Tokyo",` +
		`"type":"mail.send","queue":"default","args":[1],"meta":{},"options":{},"job_template":{"type":"mail.send","args":[ 1 ], "options":{}},` +
		`"overlap_policy":"skip","enabled":true,"status":"active","description":null,"last_run_at":null,"next_run_at":"2026-02-12T10:30:00.000Z",` +
		`"run_count":3,"created_at":"2026-02-12T10:30:00.000Z","updated_at":"2026-02-12T10:30:00.000Z"` + more + `}`
}

func cronAnswer(name string) string {
	c := cronObject(name, `,"last_job_id":"`+string(id1)+`"`)
	return `{"cron":` + c + `,"cron_job":` + c + `}`
}

func aCronSpec(name string) job.CronSpec {
	on := true
	return job.CronSpec{Name: name, Expression: "0 9 * * *", Timezone: "Asia/Tokyo", Overlap: job.OverlapSkip, Enabled: &on,
		Template: json.RawMessage(`{"type":"mail.send","args":[ 1 ]}`)}
}

func TestCronVerbs(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 2, 12, 10, 30, 0, 0, time.UTC)
	want := &job.Cron{CronSpec: aCronSpec("daily"), CreatedAt: at, UpdatedAt: at, NextRunAt: at, LastJob: id1, RunCount: 3}
	check := func(what string, got *job.Cron, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", what, got, err, want)
		}
	}
	against(t, func(c *client.Client) {
		for _, made := range []bool{true, false} {
			s := aCronSpec("daily")
			s.Overlap, s.Description, s.Source, s.Enabled = "", "“d”", "file", nil
			got, created, err := c.PutCron(t.Context(), s)
			if check("PutCron", got, err); created != made {
				t.Errorf("PutCron: created is %t, want %t", created, made)
			}
		}
		text, overlap, off := "@daily", job.OverlapAllow, false
		got, err := c.ChangeCron(t.Context(), "daily", job.CronPatch{Expression: &text, Timezone: new(string), Overlap: &overlap, Description: new(string), Enabled: &off,
			Template: json.RawMessage(`{"meta": null}`)})
		check("ChangeCron", got, err)
		got, err = c.Cron(t.Context(), "daily")
		check("Cron", got, err)
		got, err = c.DeleteCron(t.Context(), "daily")
		check("DeleteCron", got, err)
		if r, err := c.TriggerCron(t.Context(), "a.b-1"); err != nil || r.Flow != nil || r.JobID != id1 || r.Job.ID != id1 || string(r.Job.Args) != "[1]" {
			t.Errorf("TriggerCron: got %+v, %v", r, err)
		}
	}, exchange{status: 201, body: cronAnswer("daily")}, exchange{status: 200, body: cronAnswer("daily")}, exchange{status: 200, body: cronAnswer("daily")},
		exchange{status: 200, body: cronAnswer("daily")}, exchange{status: 200, body: `{"deleted":true,` + cronAnswer("daily")[1:]},
		exchange{status: 201, body: `{"job_id":"` + string(id1) + `","job":` + object(id1, "") + `,"cron_name":"a.b-1"}`})
}

func TestCronHistory(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 2, 12, 10, 30, 0, 0, time.UTC)
	line := func(id, state, more string) string {
		return `{"job_id":` + id + `,"state":"` + state + `","scheduled_at":"2026-02-12T10:30:00.000Z","started_at":null,"completed_at":null` + more + `}`
	}
	against(t, func(c *client.Client) {
		runs, err := c.CronHistory(t.Context(), "daily", 0)
		if err != nil || len(runs) != 3 {
			t.Fatalf("got %+v, %v", runs, err)
		}
		if runs[0].Job == nil || runs[0].Job.State != job.Available || runs[0].JobID != id1 || !runs[0].At.Equal(at) {
			t.Errorf("a run: got %+v", runs[0])
		}
		if want := (job.CronJob{CronRun: job.CronRun{At: at, Skipped: "overlap"}}); runs[1] != want {
			t.Errorf("a skip: got %+v", runs[1])
		}
		if want := (job.CronJob{CronRun: job.CronRun{At: at, JobID: id2}}); runs[2] != want {
			t.Errorf("a job that is gone: got %+v", runs[2])
		}
		if runs, err := c.CronHistory(t.Context(), "daily", 7); err != nil || len(runs) != 0 {
			t.Errorf("none: got %+v, %v", runs, err)
		}
	}, exchange{status: 200, body: `{"executions":[` + line(`"`+string(id1)+`"`, "available", `,"job":`+object(id1, "")) + `,` +
		line("null", "skipped", `,"reason":"overlap"`) + `,` + line(`"`+string(id2)+`"`, "removed", "") + `],"total":3}`},
		exchange{status: 200, body: `{"executions":[],"total":0}`})
}

func TestCronsInPages(t *testing.T) {
	t.Parallel()
	page := func(total string, names ...string) exchange {
		for i, name := range names {
			names[i] = cronObject(name, "")
		}
		return exchange{status: 200, body: `{"crons":[` + strings.Join(names, ",") + `],"pagination":{"total":` + total + `}}`}
	}
	against(t, func(c *client.Client) {
		for _, tt := range []struct {
			filter job.CronFilter
			want   []string
			total  int64
		}{
			{job.CronFilter{}, []string{"a", "b", "c"}, 3},
			{job.CronFilter{Enabled: new(bool), Offset: 1, Limit: 1}, []string{"b"}, 3},
			{job.CronFilter{Limit: 300}, []string{"a", "b"}, 9},
			{job.CronFilter{}, nil, 0},
		} {
			got, err := c.Crons(t.Context(), tt.filter)
			var names []string
			for _, s := range got.Crons {
				names = append(names, s.Name)
			}
			if err != nil || !slices.Equal(names, tt.want) || got.Total != tt.total {
				t.Errorf("%+v: got %v of %d, %v", tt.filter, names, got.Total, err)
			}
		}
	}, page("3", "a", "b"), page("3", "c"), page("3", "b"), page("9", "a"), page("9", "b"), page("9"), page("0"))
}

// What is wrong is refused with the kind and the details that a server in this process gives.
func TestCronErrors(t *testing.T) {
	t.Parallel()
	fault := `{"field":"expression","position":2,"length":2,"suggestion":"0 9 * * *"}`
	against(t, func(c *client.Client) {
		_, created, err := c.PutCron(t.Context(), aCronSpec("daily"))
		var e *job.Error
		if !errors.As(err, &e) || created || e.Kind != job.Invalid || e.Details["position"] != 2 || e.Details["suggestion"] != "0 9 * * *" {
			t.Errorf("PutCron: got %v", err)
		}
		if _, err := c.TriggerCron(t.Context(), "daily"); job.KindOf(err) != job.Conflict {
			t.Errorf("TriggerCron: got %v", err)
		}
		if _, _, err := c.PutCron(t.Context(), aCronSpec("daily")); job.KindOf(err) != job.BadRetry {
			t.Errorf("PutCron: got %v", err)
		}
		if _, err := c.Cron(t.Context(), "gone"); job.KindOf(err) != job.NotFound {
			t.Errorf("Cron: got %v", err)
		}
	}, exchange{status: 400, body: refusal("invalid_request", fault)}, exchange{status: 409, body: refusal("conflict", `{}`)},
		exchange{status: 422, body: refusal("invalid_request", `{}`)}, exchange{status: 404, body: refusal("not_found", `{}`)})
}

// Nothing of this reaches a server.
func TestCronsThatAreNotSent(t *testing.T) {
	t.Parallel()
	against(t, func(c *client.Client) {
		for _, name := range []string{"", ".", "..", "a/b", "A", "a?b", "a b", "é", "a\n", strings.Repeat("a", 256)} {
			_, one := c.Cron(t.Context(), name)
			_, changed := c.ChangeCron(t.Context(), name, job.CronPatch{Enabled: new(bool)})
			_, deleted := c.DeleteCron(t.Context(), name)
			_, triggered := c.TriggerCron(t.Context(), name)
			_, history := c.CronHistory(t.Context(), name, 1)
			for i, err := range []error{one, changed, deleted, triggered, history} {
				var e *job.Error
				if !errors.As(err, &e) || e.Kind != job.NotFound || e.Details["resource_type"] != "cron" || e.Details["resource_id"] != name {
					t.Errorf("%d of %q: got %v", i, name, err)
				}
			}
			if _, _, err := c.PutCron(t.Context(), aCronSpec(name)); job.KindOf(err) != job.Invalid {
				t.Errorf("PutCron of %q: got %v", name, err)
			}
		}
		s := aCronSpec("daily")
		s.Template = json.RawMessage(`{"type":`)
		if _, _, err := c.PutCron(t.Context(), s); job.KindOf(err) != job.Invalid {
			t.Errorf("PutCron: got %v", err)
		}
		for _, template := range []string{"", "{", `{}}`} {
			if _, err := c.ChangeCron(t.Context(), "daily", job.CronPatch{Template: json.RawMessage(template)}); job.KindOf(err) != job.Malformed {
				t.Errorf("ChangeCron with %q: got %v", template, err)
			}
		}
	})
}

func TestCronAnswersThatCannotBeRead(t *testing.T) {
	t.Parallel()
	empty := exchange{status: 200, body: `{}`}
	against(t, func(c *client.Client) {
		_, created, put := c.PutCron(t.Context(), aCronSpec("daily"))
		_, one := c.Cron(t.Context(), "daily")
		_, list := c.Crons(t.Context(), job.CronFilter{})
		_, triggered := c.TriggerCron(t.Context(), "daily")
		_, history := c.CronHistory(t.Context(), "daily", 0)
		for i, err := range []error{put, one, list, triggered, history} {
			if job.KindOf(err) != job.Internal || err == nil {
				t.Errorf("%d: got %v", i, err)
			}
		}
		if created {
			t.Error("PutCron made nothing that can be read, and says that it made it")
		}
	}, empty, empty, empty, empty, empty)
}
