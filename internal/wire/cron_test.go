package wire

import (
	"encoding/json"
	"errors"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

func to[T any](v T) *T { return &v }

func TestDecodeCron(t *testing.T) {
	t.Parallel()
	const rest = `"name":"n","expression":"@daily"`
	const job0 = `"job_template":{"type":"a.b"}`
	plain := job.CronSpec{Name: "n", Expression: "@daily", Overlap: job.OverlapSkip}
	with := func(template string, change func(*job.CronSpec)) job.CronSpec {
		s := plain
		s.Template = json.RawMessage(template)
		if change != nil {
			change(&s)
		}
		return s
	}
	none := `{"type":"a.b","args":[]}`
	for body, want := range map[string]job.CronSpec{
		`{` + rest + `,` + job0 + `}`:                                                                                                                        with(none, nil),
		`{` + rest + `,"job_template":{"type":"a.b","args":null,"meta":null}}`:                                                                               with(`{"type":"a.b","meta":null,"args":[]}`, nil),
		`{` + rest + `,"job_template": { "type":"a.b", "args": [ 1e2 ], "x":{} } }`:                                                                          with(`{ "type":"a.b", "args": [ 1e2 ], "x":{} }`, nil),
		`{"cron":"@daily","name":"n","type":"a.b"}`:                                                                                                          with(none, nil),
		`{"schedule":"@daily","cron":"@daily",` + rest + `,"type":"a.b","args":[1]}`:                                                                         with(`{"type":"a.b","args":[1]}`, nil),
		`{` + rest + `,"args":null,"priority":null,"type":"a.b","job_template":null}`:                                                                        with(none, nil),
		`{` + rest + `,"type":"a.b","args":[],"queue":"q","retry":{"max_attempts":1},"x":2}`:                                                                 with(`{"type":"a.b","args":[],"queue":"q","retry":{"max_attempts":1},"x":2}`, nil),
		`{"id":"n",` + rest + `,"type":"a.b","status":"paused","run_count":7,"created_at":1,"updated_at":1,"next_run_at":1,"last_run_at":1,"last_job_id":1}`: with(none, nil),
		`{` + rest + `,` + job0 + `,"owner":"me","specversion":"1.0","status":1}`:                                                                            with(none, nil),
		`{` + rest + `,` + job0 + `,"timezone":"Asia/Tokyo","overlap":"queue","overlap_policy":"queue","enabled":false,"description":"d","source":"file"}`: with(none, func(s *job.CronSpec) {
			s.Timezone, s.Overlap, s.Enabled, s.Description, s.Source = "Asia/Tokyo", job.OverlapEnqueue, to(false), "d", "file"
		}),
		`{` + rest + `,` + job0 + `,"timezone":null,"overlap":null,"enabled":null,"description":null,"type":null,"queue":null}`: with(none, nil),
	} {
		got, err := DecodeCron([]byte(body))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %+v %s, %v\nwant %+v %s", body, got, got.Template, err, want, want.Template)
		}
	}
}

// refused checks that an error names a field, in its details and in its message.
func refused(t *testing.T, what string, err error, kind job.Kind, field string) {
	t.Helper()
	var e *job.Error
	if !errors.As(err, &e) {
		t.Errorf("%s: got %v, want an error about %q", what, err, field)
		return
	}
	f, _ := e.Details["field"].(string)
	if e.Kind != kind || f != field || !strings.Contains(e.Message, field) {
		t.Errorf("%s: got kind %d, field %q: %s; want kind %d, field %q", what, e.Kind, f, e.Message, kind, field)
	}
}

// What an answer shows of a schedule can be sent as it stands.
func TestWhatIsShownCanBeSent(t *testing.T) {
	t.Parallel()
	for _, template := range []string{`{"type":"a.b","args":[]}`, `{"type":"a.b","args":[1],"meta":{ "a": 1},"options":{"queue":"q", "priority":3}}`, `{"type":"a.b","args":[],"queue":"flat"}`} {
		c := &job.Cron{CronSpec: job.CronSpec{Name: "n", Expression: "@daily", Timezone: "UTC", Overlap: job.OverlapSkip, Template: json.RawMessage(template)}}
		show := func(c *job.Cron) []byte {
			b := rawjson.Object(nil)
			appendCron(&b, c, false)
			return b.Close()
		}
		shown := show(c)
		got, err := DecodeCron(shown)
		if err != nil {
			t.Errorf("%s: %v", shown, err)
			continue
		}
		if again := show(&job.Cron{CronSpec: got}); string(again) != string(shown) {
			t.Errorf("got %s, want %s", again, shown)
		}
	}
}

func TestDecodeCronRefuses(t *testing.T) {
	t.Parallel()
	const rest = `"name":"n","expression":"@daily"`
	for _, tt := range []struct{ body, field string }{
		{`{"expression":"@daily","type":"a.b"}`, "name"},
		{`{"name":"","expression":"@daily","type":"a.b"}`, "name"},
		{`{"name":"No","expression":"@daily","type":"a.b"}`, "name"},
		{`{"name":"n","type":"a.b"}`, "expression"},
		{`{"name":"n","cron":null,"type":"a.b"}`, "expression"},
		{`{` + rest + `}`, "job_template"},
		{`{` + rest + `,"job_template":null}`, "job_template"},
		{`{` + rest + `,"job_template":[]}`, "job_template"},
		{`{` + rest + `,"job_template":"{}"}`, "job_template"},
		{`{` + rest + `,"job_template":{}}`, "type"},
		{`{` + rest + `,"queue":"q"}`, "type"},
		{`{` + rest + `,"type":"a.c","job_template":{"type":"a.b"}}`, "job_template"},
		{`{` + rest + `,"queue":"q","job_template":{"type":"a.b","options":{"queue":"r"}}}`, "job_template"},
		{`{` + rest + `,"job_template":{"type":"a.b"},"retry":{}}`, "job_template"},
		{`{` + rest + `,"type":"a.b","cron":"@hourly"}`, "expression"},
		{`{` + rest + `,"type":"a.b","overlap":"allow","overlap_policy":"skip"}`, "overlap_policy"},
		{`{` + rest + `,"type":"a.b","overlap_policy":"never"}`, "overlap_policy"},
		{`{` + rest + `,"type":"a.b","id":"m"}`, "id"},
		{`{` + rest + `,"job_template":{"type":"a.b","id":"x"}}`, "job_template.id"},
		{`{` + rest + `,"job_template":{"type":"a.b","type":"a.b"}}`, "type"},
		{`{` + rest + `,"name":"n","type":"a.b"}`, "name"},
		{`{` + rest + `,"type":"a.b","source":"` + strings.Repeat("x", 256) + `"}`, "source"},
	} {
		_, err := DecodeCron([]byte(tt.body))
		refused(t, tt.body, err, job.Invalid, tt.field)
	}
	_, err := DecodeCron([]byte(`{` + rest + `,"type":"a.b","retry":{"max_attempts":-1}}`))
	refused(t, "a bad retry", err, job.BadRetry, "retry.max_attempts")
	for _, body := range []string{``, `{`, `[]`, `"x"`, `null`} {
		if _, err := DecodeCron([]byte(body)); job.KindOf(err) != job.Malformed {
			t.Errorf("%q: got %v, want Malformed", body, err)
		}
	}
}

// Every member of a schedule and of its job is refused when it is of another type, in both verbs.
func TestDecodeCronTypes(t *testing.T) {
	t.Parallel()
	for field, wrong := range map[string]string{"id": `1`, "name": `[]`, "expression": `{}`, "cron": `{}`, "schedule": `5`, "timezone": `true`,
		"overlap_policy": `1`, "overlap": `false`, "description": `{}`, "source": `1`, "enabled": `"yes"`, "job_template": `"x"`} {
		body := `{"` + field + `":` + wrong + `}`
		_, err := DecodeCron([]byte(body))
		refused(t, body, err, job.Invalid, field)
		_, err = DecodeCronPatch([]byte(body), "n")
		refused(t, body, err, job.Invalid, field)
	}
	for field, wrong := range map[string]string{"type": `1`, "args": `{}`, "meta": `[]`, "options": `[]`, "queue": `1`, "priority": `{}`, "timeout_ms": `"x"`} {
		for _, body := range []string{`{"name":"n","cron":"@daily","type":"a.b","` + field + `":` + wrong + `}`,
			`{"name":"n","expression":"@daily","job_template":{"type":"a.b","` + field + `":` + wrong + `}}`} {
			if field == "type" {
				body = strings.Replace(body, `"type":"a.b",`, ``, 1)
			}
			_, err := DecodeCron([]byte(body))
			refused(t, body, err, job.Invalid, field)
		}
	}
}

func TestDecodeCronPatch(t *testing.T) {
	t.Parallel()
	template := func(s string) job.CronPatch { return job.CronPatch{Template: json.RawMessage(s)} }
	for body, want := range map[string]job.CronPatch{
		`{"enabled":false}`:                  {Enabled: to(false)},
		`{"cron":"@daily","id":"n"}`:         {Expression: to("@daily")},
		`{"expression":"@daily","x":1}`:      {Expression: to("@daily")},
		`{"schedule":"","name":"n"}`:         {Expression: to("")},
		`{"timezone":"","description":""}`:   {Timezone: to(""), Description: to("")},
		`{"overlap":"x","description":null}`: {Overlap: to(job.Overlap("x"))},
		`{"job_template":{"a": null},"x":1}`: template(`{"a": null}`),
		`{"type":"c.d","args":[1]}`:          template(`{"type":"c.d","args":[1]}`),
		`{"meta":null}`:                      template(`{"meta":null}`),
		`{"options":{"queue":"q"}}`:          template(`{"options":{"queue":"q"}}`),
		`{"options":null}`:                   template(`{"options":null}`),
		`{"queue":"q"}`:                      template(`{"queue":null,"options":{"queue":"q"}}`),
		`{"queue":"q","options":{"queue":"p","tags":[]},"priority":null}`: template(`{"queue":null,"priority":null,"options":{"queue":"p","tags":[],"priority":null}}`),
		`{"queue":"q","options":null}`:                                    template(`{"queue":"q","options":null}`),
	} {
		got, err := DecodeCronPatch([]byte(body), "n")
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %+v %s, %v\nwant %+v %s", body, got, got.Template, err, want, want.Template)
		}
	}
	for _, body := range []string{`{}`, `{"name":"n"}`, `{"paused":true}`, `{"enabled":null,"status":"paused"}`} {
		if _, err := DecodeCronPatch([]byte(body), "n"); job.KindOf(err) != job.Invalid {
			t.Errorf("%s: got %v, want Invalid", body, err)
		}
	}
	for body, field := range map[string]string{`{"name":"m","enabled":true}`: "name", `{"id":"m","enabled":true}`: "name",
		`{"type":"a.b","job_template":{}}`: "job_template", `{"job_template":{"options":{"queue":"a","queue":"b"}}}`: "queue",
		`{"meta":{"a":1,"a":2}}`: "a", `{"options":{"b":1,"b":2}}`: "b", `{"options":5}`: "options"} {
		_, err := DecodeCronPatch([]byte(body), "n")
		refused(t, body, err, job.Invalid, field)
	}
}

// What is said flat counts, wherever the template has it.
func TestDecodeCronPatchOfAQueue(t *testing.T) {
	t.Parallel()
	for _, template := range []string{`{"type":"a.b","args":[],"queue":"x"}`, `{"type":"a.b","args":[],"options":{"queue":"x"}}`, `{"type":"a.b","args":[]}`} {
		p, err := DecodeCronPatch([]byte(`{"queue":"q"}`), "n")
		if err != nil {
			t.Fatal(err)
		}
		s, err := p.Apply(job.CronSpec{Name: "n", Template: json.RawMessage(template)})
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.Validate()
		if e := c.Job.Envelope(); err != nil || e.Queue != "q" || string(shown(s.Template).queue) != `"q"` {
			t.Errorf("%s: got %q, %v in %s", template, e.Queue, err, s.Template)
		}
	}
}

// aCron is a schedule with something in every member that travels.
func aCron(template string) *job.Cron {
	ms := func(n int64) time.Time { return time.UnixMilli(1_700_000_000_123 + n).UTC() }
	return &job.Cron{CronSpec: job.CronSpec{Name: "n.1-a", Expression: "TZ=Asia/Tokyo 0 9 * * *", Timezone: "Asia/Tokyo", Overlap: job.OverlapCancel,
		Enabled: to(true), Description: "d “\"", Source: "file", Template: json.RawMessage(template)},
		CreatedAt: ms(0), UpdatedAt: ms(1), NextRunAt: ms(2), LastRunAt: ms(3), LastJob: testID, RunCount: 1 << 40}
}

func TestReadCron(t *testing.T) {
	t.Parallel()
	for _, template := range []string{`{"type":"a.b","args":[]}`, `{ "args" : [ 1e2 ], "type":"a.b" , "x":{"options":1} }`,
		`{"type":"a.b","args":[],"options":{}}`, `{"options":{"queue":"q"},"type":"a.b","args":[],"queue":"p"}`,
		`{"type":"a.b","args":[", \"options\":{}}"],"meta":{"a": 1.0}}`, `{"type":"a.b","args":[],"options":null,"queue":null}`} {
		bare := &job.Cron{CronSpec: job.CronSpec{Name: "n", Expression: "@daily", Timezone: "UTC", Overlap: job.OverlapSkip, Enabled: to(false), Template: json.RawMessage(template)}}
		for _, c := range []*job.Cron{aCron(template), bare} {
			for _, b := range [][]byte{AppendCron(nil, c), AppendCronFlat(nil, c), AppendCronDeleted(nil, c)} {
				if got, err := ReadCron(b); err != nil || !reflect.DeepEqual(got, c) {
					t.Errorf("%s:\ngot  %+v %s, %v\nwant %+v", b, got, got.Template, err, c)
				}
			}
			page := job.CronPage{Crons: []*job.Cron{c, aCron(template)}, Total: 9}
			if got, err := ReadCrons(AppendCrons(nil, page, Paging{Limit: 2}, false)); err != nil || !reflect.DeepEqual(got, page) {
				t.Errorf("got %+v, %v, want %+v", got, err, page)
			}
		}
	}
}

// The flat members are those of the schedule, but for the two under which it stands whole.
func TestAppendCronFlat(t *testing.T) {
	t.Parallel()
	whole := membersOf(t, AppendCronFlat(nil, aCron(`{"type":"a.b","args":[]}`)))
	c := membersOf(t, whole["cron"])
	if string(whole["cron_job"]) != string(whole["cron"]) || string(c["cron"]) != string(c["expression"]) {
		t.Errorf("got %s", whole)
	}
	delete(whole, "cron_job")
	for name, v := range whole {
		if name != "cron" && string(v) != string(c[name]) {
			t.Errorf("%s is %s, and %s in the schedule", name, v, c[name])
		}
	}
	if len(whole) != len(c) {
		t.Errorf("got %d members, want %d", len(whole), len(c))
	}
}

func TestShownQueue(t *testing.T) {
	t.Parallel()
	for template, want := range map[string]string{`{}`: "default", `{"queue":"a"}`: "a", `{"options":{"queue":"b"},"queue":"a"}`: "b",
		`{"queue":"a","options":{"queue":null}}`: "a", `{"queue":null,"options":null}`: "default"} {
		if got := string(shown(json.RawMessage(template)).queue); got != `"`+want+`"` {
			t.Errorf("%s: got %s, want %q", template, got, want)
		}
	}
}

func TestCronBodies(t *testing.T) {
	t.Parallel()
	s := aCron(`{"type":"a.b","args":[ 1 ]}`).CronSpec
	if got, err := DecodeCron(CronBody(s)); err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("got %+v, %v, want %+v", got, err, s)
	}
	for _, p := range []job.CronPatch{
		{Expression: to(""), Timezone: to(""), Description: to(""), Overlap: to(job.Overlap("")), Enabled: to(false), Template: json.RawMessage(`{ "x":null}`)},
		{Enabled: to(true)}, {Template: json.RawMessage(`{}`)},
	} {
		if got, err := DecodeCronPatch(CronPatchBody(p), "n"); err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("got %+v, %v, want %+v", got, err, p)
		}
	}
	f := job.CronFilter{Enabled: to(false), Limit: 7, Offset: 3}
	if got, p, err := DecodeCronFilter(CronsQuery(f)); err != nil || !reflect.DeepEqual(got, f) || p.Limit != 7 {
		t.Errorf("got %+v %+v, %v", got, p, err)
	}
}

func TestDecodeIfNew(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		query, match string
		want         bool
	}{{"", "", false}, {"", "*", true}, {"", ` * `, true}, {"", `"x"`, false}, {"if_not_exists=true", "", true}, {"if_not_exists=false", "", false}} {
		q, _ := url.ParseQuery(tt.query)
		if got, err := DecodeIfNew(q, tt.match); got != tt.want || err != nil {
			t.Errorf("%+v: got %t, %v", tt, got, err)
		}
	}
	_, err := DecodeIfNew(url.Values{"if_not_exists": {"1"}}, "")
	refused(t, "if_not_exists=1", err, job.Invalid, "if_not_exists")
}

func TestReadCronHistory(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1e12).UTC()
	done, err := job.ParseJob(aJob(job.Completed).AppendJSON(nil, job.View{}))
	if err != nil {
		t.Fatal(err)
	}
	want := []job.CronJob{{CronRun: job.CronRun{At: at, JobID: testID}, Job: done}, {CronRun: job.CronRun{At: at, Skipped: job.SkippedDST}}, {CronRun: job.CronRun{At: at, JobID: "x"}}}
	if got, err := ReadCronHistory(AppendCronHistory(nil, want, Paging{Limit: 20}, true)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	got, err := ReadCronHistory(AppendCronHistory(nil, want, Paging{Limit: 1, Offset: 2}, true))
	if err != nil || !reflect.DeepEqual(got, want[2:]) {
		t.Errorf("got %+v, %v, want %+v", got, err, want[2:])
	}
}

// A run is told once who it is: an event is read back as the server has it.
func TestReadCronEvents(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1e12).UTC()
	want := []job.Event{job.CronEvent(job.CronTriggered, "n", at, job.CronRun{At: at, JobID: testID}),
		job.CronEvent(job.CronSkipped, "n", at, job.CronRun{At: at, Skipped: job.SkippedOverlap}), job.CronMissedEvent("n", at, at, at)}
	for i := range want {
		want[i].Seq = int64(i + 1)
	}
	if got, err := ReadEvents(AppendEvents(nil, want, 3, Paging{Limit: 10})); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestReadCronRefuses(t *testing.T) {
	t.Parallel()
	for _, body := range []string{``, `<html>`, `[]`, `{}`, `{"cron":{},"crons":[{}],"pagination":{}}`, `{"cron":"@daily","crons":[null],"pagination":{},"executions":[{"job":{"state":1}}],"total":1}`} {
		_, one := ReadCron([]byte(body))
		_, many := ReadCrons([]byte(body))
		_, runs := ReadCronHistory([]byte(body))
		for i, err := range []error{one, many, runs} {
			if err == nil || job.KindOf(err) != job.Internal {
				t.Errorf("reader %d of %s: got %v, want Internal", i, body, err)
			}
		}
	}
}

// FuzzDecodeCron: no body makes a decoder panic, and a schedule that is taken is
// shown so that it can be read and sent again.
func FuzzDecodeCron(f *testing.F) {
	for _, s := range []string{
		`{"name":"n","expression":"@daily","timezone":"UTC","overlap":"queue","job_template":{"type":"a.b","options":{"queue":"q"}}}`,
		`{"name":"n","cron":"* * * * *","type":"a.b","args":[1e2],"meta":{"a":null},"priority":3,"\u0061":1,"enabled":false,"description":"é"}`,
		`{"schedule":"x","queue":null,"options":{"a":1},"source":"file"}`, `{"job_template":{"meta":null}}`, `{`, `[]`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if p, err := DecodeCronPatch(raw, "n"); err == nil {
			if again, err := DecodeCronPatch(CronPatchBody(p), "n"); err != nil || !reflect.DeepEqual(again, p) {
				t.Fatalf("%q: %v\ngot  %+v\nwant %+v", raw, err, again, p)
			}
		}
		s, err := DecodeCron(raw)
		if err != nil {
			if job.KindOf(err) == job.Internal {
				t.Fatalf("%q: internal error %v", raw, err)
			}
			return
		}
		if again, err := DecodeCron(CronBody(s)); err != nil || !reflect.DeepEqual(again, s) {
			t.Fatalf("%q: %v\ngot  %+v\nwant %+v", raw, err, again, s)
		}
		on := s.Enabled == nil || *s.Enabled
		s.Enabled = &on
		b := AppendCronFlat(nil, &job.Cron{CronSpec: s})
		membersOf(t, b)
		if s.Timezone == "" {
			s.Timezone = "UTC"
		}
		if c, err := ReadCron(b); err != nil || !reflect.DeepEqual(c.CronSpec, s) {
			t.Fatalf("%q: %v in %s\nwant %+v", raw, err, b, s)
		}
	})
}

// max_attempts stands flat beside a schedule's own members as it does in a job.
func TestFlatPatchOfMaxAttempts(t *testing.T) {
	p, err := DecodeCronPatch([]byte(`{"max_attempts":5}`), "n")
	if err != nil || string(p.Template) != `{"max_attempts":null,"options":{"max_attempts":5}}` {
		t.Errorf("got %s, %v", p.Template, err)
	}
}

// What a schedule has made is read as it was written, whether a job or a workflow.
func TestTriggeredWorkflow(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_123).UTC()
	const id, first = job.ID("01980000-0000-7000-8000-000000000001"), job.ID("01980000-0000-7000-8000-000000000002")
	w := &job.Workflow{ID: id, Kind: job.KindChain, Name: "n", State: job.WorkflowRunning, CreatedAt: at, Total: 2,
		Steps: []job.WorkflowStep{{ID: "step-0", Kind: job.KindJob, Type: "a.b", State: job.StepPending, JobIDs: []job.ID{first}, StartedAt: at}, {ID: "step-1", Index: 1, Kind: job.KindJob, Type: "c.d", State: job.StepWaiting}}}
	raw := AppendTriggered(nil, "nightly", job.CronJob{CronRun: job.CronRun{At: at, FlowID: id}, Flow: w})
	for name, want := range map[string]string{"workflow_id": `"` + string(id) + `"`, "job_id": `"` + string(first) + `"`, "cron_name": `"nightly"`} {
		if got := string(rawjson.Member(raw, name)); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	if got, err := ReadTriggered(raw); err != nil || got.FlowID != id || !reflect.DeepEqual(got.Flow, w) || got.Job != nil {
		t.Errorf("got %+v, %v in %s", got, err, raw)
	}
	line := *w
	line.Steps = nil
	runs := []job.CronJob{{CronRun: job.CronRun{At: at, FlowID: id}, Flow: &line}, {CronRun: job.CronRun{At: at, FlowID: first}}}
	raw = AppendCronHistory(nil, runs, Paging{Limit: 20}, true)
	if got, err := ReadCronHistory(raw); err != nil || !reflect.DeepEqual(got, runs) {
		t.Errorf("got %+v, %v in %s", got, err, raw)
	}
	for i, want := range []string{"running", "removed"} {
		lines := rawjson.Member(raw, "executions")
		var states []struct{ State string }
		if err := json.Unmarshal(lines, &states); err != nil || states[i].State != want {
			t.Errorf("line %d: %+v, %v, want %s", i, states, err, want)
		}
	}
	for _, body := range []string{``, `{}`, `{"workflow":{}}`} {
		if got, err := ReadTriggered([]byte(body)); err == nil {
			t.Errorf("%s: got %+v", body, got)
		}
	}
}

// A schedule of workflows is read in both dialects, and what is shown of one can be sent.
func TestDecodeCronOfWorkflows(t *testing.T) {
	const flow = `{"type":"chain","steps":[{"type":"a.b"}]}`
	for body, want := range map[string]string{
		`{"name":"n","cron":"@daily","workflow":` + flow + `}`:                                     `{"workflow":` + flow + `}`,
		`{"name":"n","cron":"@daily","type":"x.y","args":[],"options":{},"workflow":` + flow + `}`: `{"type":"x.y","args":[],"options":{},"workflow":` + flow + `}`,
		`{"name":"n","cron":"@daily","job_template":{"workflow":` + flow + `}}`:                    `{"workflow":` + flow + `}`,
	} {
		s, err := DecodeCron([]byte(body))
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if got := string(s.Template); got != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
		shown := rawjson.Member(AppendCron(nil, &job.Cron{CronSpec: s, CreatedAt: time.Unix(1, 0)}), "cron")
		again, err := DecodeCron(shown)
		if err != nil {
			t.Errorf("what is shown: %v in %s", err, shown)
		} else if c, err := ReadCron(AppendCron(nil, &job.Cron{CronSpec: again, CreatedAt: time.Unix(1, 0)})); err != nil || rawjson.Member(c.Template, "workflow") == nil {
			t.Errorf("sent again: %v", err)
		}
	}
	for body, want := range map[string]string{
		`{"name":"n","cron":"@daily","job_template":{"type":"a.b"},"workflow":` + flow + `}`: "job_template must not stand beside another workflow",
		`{"name":"n","cron":"@daily","workflow":{"steps":[{"type":"No"}]}}`:                  "job_template.workflow.steps[0].type",
		`{"name":"n","cron":"@daily","workflow":` + flow + `,"priority":1}`:                  "job_template.priority must not stand beside workflow",
	} {
		if _, err := DecodeCron([]byte(body)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", body, err, want)
		}
	}
	p, err := DecodeCronPatch([]byte(`{"workflow":`+flow+`,"type":null}`), "n")
	if err != nil || string(p.Template) != `{"workflow":`+flow+`,"type":null}` {
		t.Errorf("a change: %s, %v", p.Template, err)
	}
}
