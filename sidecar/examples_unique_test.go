package sidecar_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
)

// What ojs-unique-jobs.md and contract §4.10 say of unique jobs, asked over HTTP
// at a desk whose time passes only when the test says so. Where a table of steps
// says it, it stands in testdata/unique; what needs a program stands here.

// ojs-unique-jobs.md §14: the scenarios that must be tested, under their names.
func TestUniqueScenarios(t *testing.T) { t.Parallel(); playFile(t, "unique/scenarios.txt") }

// ojs-unique-jobs.md §2 to §10: each example, and the sentence under it.
func TestUniqueExamples(t *testing.T) { t.Parallel(); playFile(t, "unique/examples.txt") }

// contract §4.10: what each strategy makes of a job in each state, when the state
// is among those that the policy names, and when it is not.
func TestUniqueConflicts(t *testing.T) { t.Parallel(); playFile(t, "unique/conflicts.txt") }

// contract §4.10: the rules beside the table.
func TestUniqueRules(t *testing.T) { t.Parallel(); playFile(t, "unique/rules.txt") }

// ojs-unique-jobs.md §4, contract §4.10: what is the same and what is not.
func TestUniqueFingerprints(t *testing.T) { t.Parallel(); playFile(t, "unique/fingerprints.txt") }

// ojs-unique-jobs.md §2.2 and §13, contract §2.5: what is no policy is refused
// with the name of its field, and what is odd but right is not.
func TestUniquePoliciesByRule(t *testing.T) { t.Parallel(); playFile(t, "unique/policies.txt") }

// rush sends n enqueues at once, as fast as this machine can, and returns the answers.
func rush(t *testing.T, server *httptest.Server, n int, body func(i int) string) []reply {
	t.Helper()
	replies := make([]reply, n)
	errs := make([]error, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/ojs/v1/jobs", strings.NewReader(body(i)))
			if err != nil {
				errs[i] = err
				return
			}
			<-start
			w, err := server.Client().Do(r)
			if err != nil {
				errs[i] = err
				return
			}
			defer w.Body.Close()
			raw, err := io.ReadAll(w.Body)
			errs[i] = errors.Join(err, json.Unmarshal(raw, &replies[i].body))
			replies[i].status, replies[i].location = w.StatusCode, w.Header.Get("Location")
		})
	}
	close(start)
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return replies
}

// ojs-unique-jobs.md §14 (11) and §8.1: of many at once exactly one succeeds, and
// the others see it; with the other strategies, too, exactly one job lives at the end.
func TestUniqueRaces(t *testing.T) {
	t.Parallel()
	const n = 64
	for _, tt := range []struct {
		name, body string
		rest       int // the status of all but the first
		scheduled  bool
	}{
		{"reject", `"unique":{"on_conflict":"reject"}`, 409, false},
		{"ignore", `"unique":{"on_conflict":"ignore"}`, 200, false},
		{"replace", `"unique":{"on_conflict":"replace"}`, 201, false},
		{"replace_except_schedule", `"unique":{"on_conflict":"replace_except_schedule"}`, 201, false},
		{"replace_except_schedule of scheduled jobs", `"delay":3600,"unique":{"on_conflict":"replace_except_schedule"}`, 200, true},
		{"replace of scheduled jobs", `"delay":3600,"unique":{"on_conflict":"replace"}`, 201, true},
		{"deduplication", `"deduplication":{"id":"k"}`, 200, false},
		{"debounce", `"delay":3600,"deduplication":{"id":"k","ttl":3600,"replace":true}`, 201, true},
		{"custom id", `"options":{"job_id":"k"}`, 200, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, server := realServer(t)
			d := &desk{t, server.Client(), server.URL}
			count, seen, gone := map[int]int{}, map[any]int{}, map[any]int{}
			var conflicts []any
			for _, r := range rush(t, server, n, func(i int) string { return fmt.Sprintf(`{"type":"a.b","args":[%d],%s}`, i, tt.body) }) {
				count[r.status]++
				if r.status == 409 {
					e := r.body["error"].(object)
					if e["code"] != "duplicate" {
						t.Errorf("%v", r.body)
					}
					conflicts = append(conflicts, e["details"].(object)["existing_job_id"])
					continue
				}
				seen[r.job()["id"]]++
				if id := r.body["replaced_job_id"]; id != nil {
					gone[id]++
				}
			}
			want := map[int]int{201: 1, tt.rest: n - 1}
			if tt.rest == 201 {
				want = map[int]int{201: n}
			}
			if !maps.Equal(count, want) {
				t.Fatalf("the answers were %v, want %v", count, want)
			}
			live := d.ask(200, "GET", "/ojs/v1/jobs?state=scheduled,available,pending,active,retryable", "")["jobs"].([]any)
			if len(live) != 1 {
				t.Fatalf("%d jobs live, want 1", len(live))
			}
			last := live[0].(object)
			if state := map[bool]string{true: "scheduled", false: "available"}[tt.scheduled]; last["state"] != state {
				t.Errorf("the last is %v, want it %s", last, state)
			}
			cancelled := d.total("/ojs/v1/jobs?state=cancelled&limit=1")
			if tt.rest == 201 {
				if len(seen) != n || cancelled != n-1 {
					t.Errorf("%d new jobs, %d cancelled, want %d and %d", len(seen), cancelled, n, n-1)
				}
				if len(gone) != n-1 || gone[last["id"]] != 0 {
					t.Errorf("%d were replaced, each by one other; the last by %d", len(gone), gone[last["id"]])
				}
				return
			}
			if len(seen) != 1 || seen[last["id"]] == 0 || cancelled != 0 {
				t.Errorf("answered with %d jobs, %d cancelled; want only %v", len(seen), cancelled, last["id"])
			}
			for _, id := range conflicts {
				if id != last["id"] {
					t.Errorf("refused because of %v, want %v", id, last["id"])
				}
			}
		})
	}
}

// ojs-unique-jobs.md §13: the server refuses what the document's own JSON Schema
// does; of null and of integers, contract §2.5 says more.
func TestSchemaOfUnique(t *testing.T) {
	t.Parallel()
	type property struct {
		Type        string
		Enum        []string
		UniqueItems bool
		MinItems    int
		Pattern     string
		Default     json.RawMessage
		Items       struct{ Enum []string }
	}
	var schema struct {
		Properties           map[string]property
		AdditionalProperties bool `json:"additionalProperties"`
		If                   struct {
			Properties map[string]struct{ Contains struct{ Const string } }
		}
		Then struct{ Required []string }
	}
	if err := json.Unmarshal([]byte(example(t, "unique-13")), &schema); err != nil || len(schema.Properties) != 6 || schema.AdditionalProperties {
		t.Fatalf("%v, %+v", err, schema)
	}
	values := map[string]string{"integer": "7", "number": "7.5", "boolean": "true", "object": "{}", "array": `["a"]`, "string": `"x"`}
	atDesk(t, func(d *desk) {
		n := 0
		push := func(policy string) string {
			n++
			return fmt.Sprintf(`{"type":"case%d","args":[{"a":1}],"meta":{"a":1},"unique":%s}`, n, policy)
		}
		for name, p := range schema.Properties {
			for kind, value := range values {
				if kind != p.Type && (name != "period" || kind != "integer") {
					d.invalid(push(`{"`+name+`":`+value+`}`), name)
				}
			}
			if p.UniqueItems {
				item := append(p.Items.Enum, "a")[0]
				d.invalid(push(`{"keys":["args","meta"],"meta_keys":["a"],"args_keys":["a"],"`+name+`":["`+item+`","`+item+`"]}`), name)
			}
			if p.Default != nil {
				d.created(push(`{"` + name + `":` + string(p.Default) + `}`))
			}
			for _, word := range p.Items.Enum {
				names := ""
				if word == "meta" {
					names = `"meta_keys":["a"],`
				}
				d.created(push(`{` + names + `"` + name + `":["` + word + `"]}`))
				d.invalid(push(`{`+names+`"`+name+`":["`+strings.ToUpper(word)+`"]}`), name)
			}
			for _, word := range p.Enum {
				d.created(push(`{"` + name + `":"` + word + `"}`))
				d.invalid(push(`{"`+name+`":"`+strings.ToUpper(word)+`"}`), name)
			}
		}
		// What must be there beside a dimension, and not be empty.
		needy := schema.If.Properties["keys"].Contains.Const
		if needy != "meta" || !slices.Equal(schema.Then.Required, []string{"meta_keys"}) || schema.Properties["meta_keys"].MinItems != 1 {
			t.Fatalf("%+v", schema)
		}
		for _, names := range []string{``, `,"meta_keys":null`, `,"meta_keys":[]`} {
			for _, keys := range []string{`"meta"`, `"type","meta"`, `"meta","args","queue"`} {
				d.invalid(push(`{"keys":[`+keys+`]`+names+`}`), "meta_keys")
			}
		}
		pattern := regexp.MustCompile(schema.Properties["period"].Pattern)
		fine := 0
		for _, s := range []string{"PT1H", "P1W", "P1Y2M3W4DT5H6M7.5S", "PT0.25S", "P2M", "P1DT12H", "PT36H", "PT1M", "P10Y", "PT000001S",
			"pt1h", "PT1h", "P1H", "PT1D", "1H", "T1H", "PT1.5H", "P0.5D", "P-1D", "-P1D", "+P1D", "PT1H ", " PT1H", "P1D1M", "PT1,5S", "PT1S1H", "PT1H30", "3600", "", "\u0661"} {
			body := push(`{"period":"` + s + `"}`)
			if pattern.MatchString(s) {
				fine++
				d.created(body)
			} else {
				d.invalid(body, "period")
			}
		}
		if fine != 10 {
			t.Errorf("%d periods are fine by the pattern %s", fine, pattern)
		}
		for _, s := range []string{"P", "PT", "P1DT"} { // the pattern takes them, ISO 8601 does not (§7.2)
			d.invalid(push(`{"period":"`+s+`"}`), "period")
		}
	})
}

// ojs-unique-jobs.md §8.3: the manifest declares the strength as the document prints it.
func TestUniqueManifest(t *testing.T) {
	t.Parallel()
	atDesk(t, func(d *desk) {
		want := decode(t, example(t, "unique-8.3"))["capabilities"].(object)["unique_jobs"].(object)
		capabilities, _ := d.ask(200, "GET", "/ojs/manifest", "")["capabilities"].(object)
		got, _ := capabilities["unique_jobs"].(object)
		if mechanism, _ := got["mechanism"].(string); got["strength"] != want["strength"] || mechanism == "" {
			t.Errorf("unique_jobs is %v", got)
		}
		for _, version := range []string{"", "1.0.0-rc.1", "1.0"} { // of which some read booleans there (contract C-15)
			r, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.url+"/ojs/manifest", nil)
			if err != nil {
				t.Fatal(err)
			}
			if version != "" {
				r.Header.Set("OJS-Version", version)
			}
			w, err := d.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			m := decode(t, readAll(t, w.Body))
			declared, _ := m["uniqueness"].(object)
			if m["unique_job_strength"] != want["strength"] || declared["strength"] != want["strength"] || declared["mechanism"] == nil || m["capabilities"].(object)["unique_jobs"] == nil {
				t.Errorf("with the version %q the manifest says %v", version, m)
			}
		}
	})
}

// contract §4.20: the fingerprint is of what the middleware made of the job.
func TestUniqueAfterMiddleware(t *testing.T) {
	t.Parallel()
	var chain sidecar.Chain
	tenants := []string{"acme", "globex", "acme"}
	if err := chain.Add("tenant", func(ctx context.Context, e *job.Envelope, next sidecar.EnqueueFunc) error {
		e.Meta = json.RawMessage(`{"tenant_id":"` + tenants[0] + `"}`)
		tenants = tenants[1:]
		return next(ctx, e)
	}); err != nil {
		t.Fatal(err)
	}
	atDeskOf(t, sidecar.Options{Middleware: &chain}, func(d *desk, _ func(time.Duration)) {
		body := `{"type":"a.b","args":[],"unique":{"keys":["meta"],"meta_keys":["tenant_id"]}}`
		acme := d.created(body)
		d.created(body)
		d.refused(body, acme)
	})
}

// ojs-unique-jobs.md §12: uniqueness keys are in no log above DEBUG.
func TestUniqueKeysAreNotLogged(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	o := sidecar.Options{
		Retention: sidecar.Retention{Completed: 2 * time.Hour, Cancelled: 2 * time.Hour, Discarded: 2 * time.Hour, Dead: 2 * time.Hour},
		Log:       slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	atDeskOf(t, o, func(d *desk, _ func(time.Duration)) {
		const body = `{"type":"a.b","args":[],"unique":{}}`
		const later = `{"type":"a.b","args":[],"unique":{"on_conflict":"replace_except_schedule"}}`
		for _, body := range []string{ // created, rejected, ignored, replaced, and rewritten
			body, body, `{"type":"a.b","args":[],"unique":{"on_conflict":"ignore"}}`, `{"type":"a.b","args":[],"unique":{"on_conflict":"replace"}}`,
			later, `{"type":"a.b","args":[],"delay":3600,"unique":{"on_conflict":"replace_except_schedule"}}`, later,
			`{"type":"a.b","args":[2],"unique":{"on_conflict":"replace_except_schedule"}}`,
		} {
			d.offer(body)
			d.ask(200, "POST", "/ojs/v1/unique/explain", body)
		}
		if r := d.offer(later); r.body["replaced"] != true {
			t.Fatalf("%+v", r)
		}
		key := d.refused(body, d.info(d.ask(200, "GET", "/ojs/v1/jobs?state=scheduled", "")["jobs"].([]any)[0].(object)["id"]))
		d.ask(409, "POST", "/ojs/v1/jobs/batch", `{"jobs":[{"type":"c.d","args":[]},`+body+`]}`)
		d.ask(200, "GET", "/ojs/v1/unique-jobs", "")
		d.ask(201, "POST", "/ojs/v1/cron", `{"name":"n","expression":"* * * * *","overlap_policy":"allow","job_template":{"type":"a.b","args":[],"options":{"unique":{}}}}`)
		d.pass(4 * time.Hour) // ticks are skipped, and jobs pruned
		if !strings.Contains(logged.String(), "level=DEBUG") {
			t.Error("nothing is logged")
		}
		for line := range strings.Lines(logged.String()) {
			if strings.Contains(line, key) && !strings.Contains(line, "level=DEBUG") {
				t.Errorf("logged %s", line)
			}
		}
		logged.Reset()
		for range 2 { // there is a key to release, and then there is none
			d.ask(200, "DELETE", "/ojs/v1/unique-jobs/"+key, "")
		}
		d.ask(404, "DELETE", "/ojs/v1/unique-jobs/"+key+"0", "")
		for line := range strings.Lines(logged.String()) {
			if strings.Contains(line, key) && !strings.Contains(line, "level=DEBUG") {
				t.Errorf("a release logs %s", line)
			}
		}
	})
}

// contract §4.21: how long what has ended is kept for its window.
func TestUniqueWindowOutlivesRetention(t *testing.T) {
	t.Parallel()
	playFile(t, "unique/retention.txt")
}
