package sidecar_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
)

// What ojs-unique-jobs.md and contract §4.10 say of unique jobs, asked over HTTP
// at a desk whose time passes only when the test says so.

// reply is how a PUSH was answered.
type reply struct {
	status   int
	location string
	body     object
}

// job is the job of a reply, which every 2xx has twice: whole, and its id beside it (contract §2.1).
func (r reply) job() object {
	j, _ := r.body["job"].(object)
	return j
}

// offer sends a PUSH, whatever comes of it.
func (d *desk) offer(body string) reply {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.url+"/ojs/v1/jobs", strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	w, err := d.client.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	return reply{w.StatusCode, w.Header.Get("Location"), decode(d.t, readAll(d.t, w.Body))}
}

// created pushes a job that must be new, and returns it.
func (d *desk) created(body string) object {
	d.t.Helper()
	jobs, _ := d.census()
	r := d.offer(body)
	j := r.job()
	if r.status != 201 || j["id"] == nil || r.body["id"] != j["id"] || r.location != "/ojs/v1/jobs/"+fmt.Sprint(j["id"]) || r.body["deduplicated"] == true {
		d.t.Fatalf("%s\ngot %+v; want a new job", body, r)
	}
	if now, _ := d.census(); now != jobs+1 {
		d.t.Errorf("%s\nthere are %d jobs now, %d before", body, now, jobs)
	}
	return d.info(j["id"])
}

// refused pushes a job that must be rejected because of old, and leave no trace
// (ojs-unique-jobs.md §5.1). It returns the uniqueness key.
func (d *desk) refused(body string, old object) string {
	d.t.Helper()
	var key string
	d.idle(old, func() {
		r := d.offer(body)
		e, _ := r.body["error"].(object)
		if r.status != 409 || e["code"] != "duplicate" || e["retryable"] != false || e["message"] == "" || e["message"] == nil {
			d.t.Fatalf("%s\ngot %+v; want 409 duplicate", body, r)
		}
		details := e["details"].(object)
		key, _ = details["uniqueness_key"].(string)
		want := object{"existing_job_id": old["id"], "existing_job_state": d.info(old["id"])["state"], "uniqueness_key": key, "unique_key": key}
		if maps.DeleteFunc(details, func(k string, _ any) bool { return want[k] == nil }); !reflect.DeepEqual(details, want) || !hex64.MatchString(key) {
			d.t.Errorf("%s\ngot the details %v, want %v", body, details, want)
		}
	})
	return key
}

var hex64 = regexp.MustCompile(`^[0-9a-f]{64}$`)

// ignored pushes a job in whose place old must answer, and leave no trace
// (ojs-unique-jobs.md §5.4).
func (d *desk) ignored(body string, old object) {
	d.t.Helper()
	d.idle(old, func() {
		r := d.offer(body)
		if r.status != 200 || r.body["deduplicated"] != true || r.body["id"] != old["id"] || r.location != "/ojs/v1/jobs/"+old["id"].(string) {
			d.t.Fatalf("%s\ngot %+v; want %v again", body, r, old["id"])
		}
		if j, want := r.job(), d.info(old["id"]); j["id"] != want["id"] || j["type"] != want["type"] || j["state"] != want["state"] {
			d.t.Errorf("%s\ngot %v, want %v", body, j, want)
		}
	})
}

// idle does what must change neither a job nor the number of jobs, and tell no event.
func (d *desk) idle(old object, do func()) {
	d.t.Helper()
	before := d.info(old["id"])
	jobs, events := d.census()
	do()
	if j, e := d.census(); j != jobs || e != events {
		d.t.Errorf("there are %d jobs and %d events now, %d and %d before", j, e, jobs, events)
	}
	if after := d.info(old["id"]); !reflect.DeepEqual(before, after) {
		d.t.Errorf("the job was %v\nand is %v", before, after)
	}
}

// replaces pushes a job that must cancel old, and what is older, and be new itself
// (ojs-unique-jobs.md §5.2), with the events of the cancellations before its own.
func (d *desk) replaces(body string, old object, older ...object) object {
	d.t.Helper()
	was := d.info(old["id"])["state"]
	jobs, seen := d.census()
	r := d.offer(body)
	j := r.job()
	if r.status != 201 || j["id"] == nil || j["id"] == old["id"] || r.body["replaced_job_id"] != old["id"] || r.location != "/ojs/v1/jobs/"+fmt.Sprint(j["id"]) {
		d.t.Fatalf("%s\ngot %+v; want a new job in place of %v", body, r, old["id"])
	}
	after := d.info(old["id"])
	if after["state"] != "cancelled" || after["cancelled_at"] == nil || after["completed_at"] != nil {
		d.t.Errorf("the job that was replaced: %v", after)
	}
	if now, _ := d.census(); now != jobs+1 {
		d.t.Errorf("there are %d jobs now, %d before", now, jobs)
	}
	told := d.log("")[seen:]
	if len(told) != len(older)+2 || told[len(older)+1]["subject"] != j["id"] {
		d.t.Fatalf("told %v", told)
	}
	var ids []any
	for i, gone := range append([]object{old}, older...) {
		ids = append(ids, gone["id"])
		if told[i]["type"] != "job.cancelled" || told[i]["subject"] != gone["id"] {
			d.t.Fatalf("told %v", told)
		}
	}
	if all := r.body["replaced_job_ids"]; len(older) == 0 && all != nil || len(older) > 0 && write(d.t, all) != write(d.t, ids) {
		d.t.Errorf("replaced_job_ids are %v, want %v", all, ids)
	}
	if data := told[0]["data"].(object); data["reason"] != "replaced" || data["previous_state"] != was {
		d.t.Errorf("job.cancelled of a %v job: %v", was, data)
	}
	return d.info(j["id"])
}

// census counts the jobs, and the events.
func (d *desk) census() (jobs, events int) {
	d.t.Helper()
	return d.total("/ojs/v1/jobs?limit=1"), len(d.log(""))
}

func (d *desk) total(path string) int {
	d.t.Helper()
	n, err := d.ask(200, "GET", path, "")["total"].(json.Number).Int64()
	if err != nil {
		d.t.Fatal(err)
	}
	return int(n)
}

// log reads the events, the oldest first.
func (d *desk) log(query string) (es []object) {
	d.t.Helper()
	for _, e := range d.ask(200, "GET", "/ojs/v1/events?limit=1000&"+query, "")["events"].([]any) {
		es = append(es, e.(object))
	}
	return es
}

// is compares the state of a job.
func (d *desk) is(when string, j object, want string) {
	d.t.Helper()
	if got := d.info(j["id"])["state"]; got != want {
		d.t.Errorf("%s: %v is %v, want %s", when, j["id"], got, want)
	}
}

// claim is fetch by a worker with a name.
func (d *desk) claim(j object, worker string) object {
	d.t.Helper()
	jobs := d.ask(200, "POST", "/ojs/v1/workers/fetch", write(d.t, object{"queues": []any{j["queue"]}, "worker_id": worker}))["jobs"].([]any)
	if len(jobs) != 1 || jobs[0].(object)["id"] != j["id"] {
		d.t.Fatalf("fetched %v, want %v", jobs, j["id"])
	}
	return jobs[0].(object)
}

func (d *desk) ack(j object) {
	d.t.Helper()
	d.ask(200, "POST", "/ojs/v1/workers/ack", write(d.t, object{"job_id": j["id"]}))
}

func (d *desk) cancel(j object) {
	d.t.Helper()
	d.ask(200, "DELETE", "/ojs/v1/jobs/"+j["id"].(string), "")
}

var (
	states  = []string{"scheduled", "available", "pending", "active", "completed", "retryable", "cancelled", "discarded"}
	living  = []string{"available", "active", "scheduled", "retryable", "pending"} // the default of §6.1
	lasting = object{"initial_interval": "PT24H", "max_interval": "PT24H", "jitter": false}
)

// final reports whether a state has no way out.
func final(state string) bool { return !slices.Contains(living, state) }

// bring pushes a job, which must be new, and brings it to a state. Waiting takes a day.
func (d *desk) bring(o object, state string) object {
	d.t.Helper()
	o = with(o, object{"retry": lasting})
	switch state {
	case "scheduled":
		o["delay"] = 24 * 60 * 60
	case "pending":
		o["pending"] = true
	}
	j := d.created(write(d.t, o))
	switch state {
	case "active":
		d.claim(j, "w")
	case "completed":
		d.ack(d.claim(j, "w"))
	case "retryable":
		d.nack(d.claim(j, "w"), object{"type": "E", "message": "no"})
	case "discarded":
		d.nack(d.claim(j, "w"), object{"code": "DEAD_LETTER", "message": "no"})
	case "cancelled":
		d.cancel(j)
	}
	d.is("brought", j, state)
	return d.info(j["id"])
}

// with is a copy of an object and more members.
func with(o object, more object) object {
	o = maps.Clone(o)
	maps.Copy(o, more)
	return o
}

// a PUSH of a type, in a queue of the same name, with a policy.
func unique(kind string, policy object) object {
	return object{"type": kind, "queue": strings.NewReplacer(".", "-", "_", "-").Replace(kind), "args": []any{}, "unique": policy}
}

// sample is an example of ojs-unique-jobs.md as it is printed, but for its args:
// the document writes an object, which ojs-core.md §5.1 does not allow, so it
// becomes the only element of an array (contract C-19).
func sample(t *testing.T, name string, changes ...func(object)) string {
	t.Helper()
	o := decode(t, example(t, "unique/"+name))
	if args, ok := o["args"].(object); ok {
		o["args"] = []any{args}
	}
	for _, change := range changes {
		change(o)
	}
	return write(t, o)
}

// set changes a member of an example; what is on the way is made where it is missing.
func set(value any, path ...string) func(object) {
	return func(o object) {
		for _, name := range path[:len(path)-1] {
			next := o[name]
			if list, ok := next.([]any); ok {
				next = list[0] // the args of the document
			}
			if next == nil {
				next = object{}
				o[name] = next
			}
			o = next.(object)
		}
		o[path[len(path)-1]] = value
	}
}

// atDeskOf is atDesk with options; the clock and the jitter are those of atDesk.
// leap lets weeks go by at once: only the clock sees them, no duty is done.
func atDeskOf(t *testing.T, o sidecar.Options, test func(d *desk, leap func(time.Duration))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var leapt atomic.Int64
		o.Now = func() time.Time { return written.Add(time.Since(began) + time.Duration(leapt.Load())) }
		o.Rand = func() float64 { return 0.5 }
		s := sidecar.New(openStore(t), o)
		runDuties(t, s)
		pipes := &pipeListener{conns: make(chan net.Conn), shut: make(chan struct{})}
		server := &httptest.Server{Listener: pipes, Config: &http.Server{Handler: httpapi.New(s, httpapi.Options{Log: o.Log})}}
		server.Start()
		t.Cleanup(server.Close)
		transport := &http.Transport{DialContext: pipes.dial}
		t.Cleanup(transport.CloseIdleConnections)
		test(&desk{t, &http.Client{Transport: transport}, server.URL}, func(span time.Duration) { leapt.Add(int64(span)) })
	})
}

// Every JSON of ojs-unique-jobs.md is a file of testdata/spec/unique byte for
// byte, every call of asyncmq-deduplication.md one of testdata/spec/dedup, and
// there are no others.
func TestUniqueExamplesAreTheDocumentsOwn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ doc, block, files string }{
		{"ojs-unique-jobs", "(?s)```json\n(.*?)```", "unique/*.json"},
		{"asyncmq-deduplication", `(?ms)(^job_id = await queue\.add\(\n.*?^\)\n)`, "dedup/*.py"},
	} {
		raw, err := os.ReadFile("../../shared/spec/" + tt.doc + ".md")
		if errors.Is(err, os.ErrNotExist) {
			t.Skip("skipped: the documents are not beside this checkout")
		}
		if err != nil {
			t.Fatal(err)
		}
		var printed, kept []string
		for _, m := range regexp.MustCompile(tt.block).FindAllSubmatch(raw, -1) {
			printed = append(printed, string(m[1]))
		}
		files, err := filepath.Glob("testdata/spec/" + tt.files)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			kept = append(kept, string(raw))
		}
		slices.Sort(printed)
		slices.Sort(kept)
		if len(printed) == 0 || !slices.Equal(printed, kept) {
			t.Errorf("%s.md has %d examples, testdata %d, and they are not the same", tt.doc, len(printed), len(kept))
		}
	}
}

// ojs-unique-jobs.md §14: the scenarios that must be tested, under their names.
func TestUniqueScenarios(t *testing.T) {
	t.Parallel()
	push := func(t *testing.T, policy object, more ...object) string {
		o := unique("a.b", policy)
		for _, m := range more {
			o = with(o, m)
		}
		return write(t, o)
	}
	user := func(id int, template string) object {
		return object{"args": []any{object{"user_id": id, "template": template}}}
	}
	for name, test := range map[string]func(t *testing.T, d *desk){
		"1 Basic deduplication": func(t *testing.T, d *desk) {
			body := push(t, object{"on_conflict": "reject"})
			j := d.created(body)
			d.refused(body, j)
			d.is("after a rejection", j, "available")
		},
		"2 Args-key filtering": func(t *testing.T, d *desk) {
			policy := object{"keys": []any{"type", "args"}, "args_keys": []any{"user_id"}}
			j := d.created(push(t, policy, user(42, "welcome")))
			d.refused(push(t, policy, user(42, "goodbye")), j)
			d.created(push(t, policy, user(43, "welcome")))
		},
		"3 Period expiry": func(t *testing.T, d *desk) {
			body := push(t, object{"period": "PT2S"})
			j := d.created(body)
			d.pass(2*time.Second - time.Millisecond)
			d.refused(body, j)
			d.pass(time.Millisecond)
			d.created(body)
			d.is("after its period", j, "available")
		},
		"4 State filtering": func(t *testing.T, d *desk) {
			j := d.bring(unique("a.b", object{}), "completed")
			d.created(push(t, object{}))
			d.is("beside a new one", j, "completed")
		},
		"5 State filtering with terminal states": func(t *testing.T, d *desk) {
			policy := object{"states": append(slices.Clone(living), "completed")}
			j := d.bring(unique("a.b", policy), "completed")
			d.refused(push(t, policy), j)
		},
		"6 Replace strategy": func(t *testing.T, d *desk) {
			body := push(t, object{"on_conflict": "replace"})
			j := d.created(body)
			d.is("in place of the other", d.replaces(body, j), "available")
		},
		"7 Ignore strategy": func(t *testing.T, d *desk) {
			body := push(t, object{"on_conflict": "ignore"})
			d.ignored(body, d.created(body))
		},
		"8 Queue scoping": func(t *testing.T, d *desk) {
			policy := object{"keys": []any{"type", "queue"}}
			a, b := push(t, policy, object{"queue": "a"}), push(t, policy, object{"queue": "b"})
			inA, inB := d.created(a), d.created(b)
			d.refused(a, inA)
			d.refused(b, inB)
		},
		"9 Invalid policy rejection": func(t *testing.T, d *desk) {
			d.invalid(push(t, object{"keys": []any{"meta"}}, object{"meta": object{"a": 1}}), "meta_keys")
		},
		"10 Retry interaction": func(t *testing.T, d *desk) {
			j := d.bring(unique("a.b", object{}), "retryable")
			d.refused(push(t, object{}), j)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atDesk(t, func(d *desk) { test(d.t, d) })
		})
	}
}

// invalid pushes a job whose policy must be refused, naming a field, and leave no trace.
func (d *desk) invalid(body, field string) {
	d.t.Helper()
	jobs, events := d.census()
	r := d.offer(body)
	e, _ := r.body["error"].(object)
	if r.status != 400 || e["code"] != "invalid_request" || e["type"] != "validation_error" || e["retryable"] != false || !strings.Contains(fmt.Sprint(e["message"]), field) {
		d.t.Errorf("%s\ngot %+v; want 400 invalid_request that names %s", body, r, field)
	}
	if j, n := d.census(); j != jobs || n != events {
		d.t.Errorf("%s: left %d jobs and %d events, there were %d and %d", body, j, n, jobs, events)
	}
}

// invalidBatch is invalid for a job behind one that is right, which is not stored either.
func (d *desk) invalidBatch(body, field string) {
	d.t.Helper()
	jobs, events := d.census()
	e := d.ask(400, "POST", "/ojs/v1/jobs/batch", `{"jobs":[{"type":"fine","args":[]},`+body+`]}`)["error"].(object)
	details, _ := e["details"].(object)
	if e["code"] != "invalid_request" || write(d.t, details["index"]) != "1" || !strings.Contains(fmt.Sprint(e["message"]), field) {
		d.t.Errorf("%s\ngot %v; want an error about %s at 1", body, e, field)
	}
	if j, n := d.census(); j != jobs || n != events {
		d.t.Errorf("%s: left %d jobs and %d events, there were %d and %d", body, j, n, jobs, events)
	}
}

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

// ojs-unique-jobs.md §2, §5, §6, §10: each example, and the sentence under it.
func TestUniqueExamples(t *testing.T) {
	t.Parallel()
	arg := func(name string, value any) func(object) { return set(value, "args", name) }
	for name, test := range map[string]func(t *testing.T, d *desk){
		// The structure as it is printed, with its empty meta_keys.
		"2": func(t *testing.T, d *desk) {
			push := func(user int, more ...func(object)) string {
				return sample(t, "2", append([]func(object){set("a.b", "type"), set([]any{object{"user_id": user}}, "args")}, more...)...)
			}
			j := d.created(push(1))
			if want := decode(t, example(t, "unique/2"))["unique"]; !reflect.DeepEqual(j["unique"], want) {
				t.Errorf("unique comes back as %v, want %v", j["unique"], want)
			}
			d.refused(push(1), j)
			d.created(push(2))
			d.created(push(1, set("b", "queue")))
			d.pass(time.Hour - time.Millisecond)
			d.refused(push(1), j)
			d.pass(time.Millisecond)
			d.created(push(1))
		},
		// The hash itself is "illustrative" there, but for its text.
		"4.3": func(t *testing.T, d *desk) {
			body := sample(t, "4.3", set(decode(t, example(t, "unique/4.3-2")), "unique"))
			sum := sha256.Sum256([]byte(strings.TrimSpace(example(t, "unique/4.3-3"))))
			if key := d.refused(body, d.created(body)); key != hex.EncodeToString(sum[:]) {
				t.Errorf("the key is %s, want %x", key, sum)
			}
		},
		"5.1": func(t *testing.T, d *desk) {
			body := write(t, unique("a.b", object{}))
			d.claim(d.created(body), "w")
			want, got := decode(t, example(t, "unique/5.1"))["error"].(object), d.offer(body).body["error"].(object)
			for name, w := range want {
				if g := got[name]; name != "message" && name != "details" && !reflect.DeepEqual(g, w) {
					t.Errorf("%s is %v, want %v", name, g, w)
				}
			}
			for name := range want["details"].(object) {
				if v, _ := got["details"].(object)[name].(string); v == "" {
					t.Errorf("no %s in %v", name, got)
				}
			}
			if state := got["details"].(object)["existing_job_state"]; state != "active" {
				t.Errorf("the state is %v", state)
			}
		},
		"5.2": func(t *testing.T, d *desk) {
			old := d.created(sample(t, "5.2", arg("image_url", "https://cdn.example.com/old-photo.jpg")))
			other := d.created(sample(t, "5.2", arg("user_id", 43)))
			j := d.replaces(sample(t, "5.2"), old)
			d.is("of another user", other, "available")
			d.take(other)
			if got := d.take(j); write(t, got["args"]) != write(t, decode(t, sample(t, "5.2"))["args"]) {
				t.Errorf("runs with %v", got["args"])
			}
		},
		"5.3": func(t *testing.T, d *desk) {
			const at = "2026-02-12T14:00:00Z"
			old := d.created(sample(t, "5.3", set(at, "options", "scheduled_at"), arg("message", "First")))
			d.rewrites(sample(t, "5.3"), old, 3*time.Hour+30*time.Minute)
		},
		"5.4": func(t *testing.T, d *desk) {
			body := `{"type":"email.send","args":[],"unique":{"on_conflict":"ignore"}}`
			old := d.created(body)
			got, want := d.offer(body).body, decode(t, example(t, "unique/5.4"))
			want["job"].(object)["id"] = old["id"]
			for name, w := range want["job"].(object) {
				if got["job"].(object)[name] != w {
					t.Errorf("%s: got %v, want %v", name, got["job"], w)
				}
			}
			if got["deduplicated"] != want["deduplicated"] {
				t.Errorf("%v", got)
			}
		},
		"6.1": func(t *testing.T, d *desk) {
			var defaults []string
			if err := json.Unmarshal([]byte(example(t, "unique/6.1")), &defaults); err != nil || !slices.Equal(defaults, living) {
				t.Fatalf("%v, %v", defaults, err)
			}
			for _, state := range states {
				o := unique("in."+state, object{})
				if j := d.bring(o, state); slices.Contains(defaults, state) {
					d.refused(write(t, o), j)
				} else {
					d.created(write(t, o))
				}
			}
		},
		"6.3": func(t *testing.T, d *desk) {
			body := sample(t, "6.3")
			j := d.created(body)
			d.ignored(body, j)
			d.ack(d.take(j))
			d.ignored(body, j)
			d.created(sample(t, "6.3", arg("user_id", 43)))
			d.pass(7*24*time.Hour - time.Millisecond)
			d.ignored(body, j)
			d.pass(time.Millisecond)
			d.created(body)
		},
		"6.3, of an end that is not good": func(t *testing.T, d *desk) {
			for code, end := range map[string]string{"DISCARD": "discarded", "DEAD_LETTER": "discarded", "": "cancelled"} {
				body := sample(t, "6.3", set("welcome."+strings.ToLower(code)+"x", "type"), set(append(slices.Clone(living), end), "unique", "states"))
				j := d.created(body)
				if d.take(j); code == "" {
					d.cancel(j)
				} else {
					d.nack(j, object{"code": code, "message": "no"})
				}
				d.is("at its end", j, end)
				d.pass(24*time.Hour - time.Millisecond)
				d.ignored(body, j)
			}
		},
		"6.4": func(t *testing.T, d *desk) {
			o := unique("a.b", decode(t, example(t, "unique/6.4")))
			active := d.bring(o, "active")
			waiting := d.bring(o, "scheduled")
			d.refused(write(t, with(o, object{"delay": 60})), waiting)
			d.refused(write(t, o), waiting)
			d.is("beside the waiting one", active, "active")
		},
		"10.1": func(t *testing.T, d *desk) {
			j := d.created(sample(t, "10.1"))
			other := sample(t, "10.1", arg("date", "2026-02-13"), arg("format", "csv"), set("reports", "queue"))
			d.ignored(sample(t, "10.1"), j)
			d.ignored(other, j)
			d.take(j)
			d.ignored(other, j)
			d.nack(j, object{"type": "E", "message": "no"})
			d.is("after a failure", j, "retryable")
			d.ignored(other, j)
			d.ack(d.take(j))
			d.created(other)
		},
		"10.2": func(t *testing.T, d *desk) {
			j := d.created(sample(t, "10.2"))
			d.refused(sample(t, "10.2", arg("locale", "de-DE")), j)
			d.created(sample(t, "10.2", arg("user_id", 99)))
			d.created(sample(t, "10.2", set("email.send_goodbye", "type")))
		},
		"10.3": func(t *testing.T, d *desk) {
			body := sample(t, "10.3")
			j := d.created(body)
			d.created(sample(t, "10.3", arg("event", "new_follower")))
			for range 3 {
				d.pass(20*time.Minute - time.Millisecond)
				d.ignored(body, j) // and the window does not move
			}
			d.pass(2 * time.Millisecond)
			d.ignored(body, j)
			d.pass(time.Millisecond)
			second := d.created(body)
			d.ignored(body, second)
			d.is("after its hour", j, "available")
		},
		"10.4": func(t *testing.T, d *desk) {
			first := d.created(sample(t, "10.4"))
			full := d.created(sample(t, "10.4", set("full-size", "queue")))
			second := d.replaces(sample(t, "10.4", arg("size", "512x512")), first)
			d.replaces(sample(t, "10.4", set("full-size", "queue"), arg("size", "512x512")), full)
			d.is("in its own queue", second, "available")
			d.created(sample(t, "10.4", arg("image_id", "img_other")))
		},
		"10.5": func(t *testing.T, d *desk) {
			body := sample(t, "10.5")
			j := d.created(body)
			d.ignored(body, j)
			d.pass(time.Hour)
			d.ack(d.take(j))
			d.ignored(body, j)
			d.created(sample(t, "10.5", arg("order_id", "order_12346")))
			d.pass(23*time.Hour - time.Millisecond)
			d.ignored(body, j)
			d.pass(time.Millisecond)
			d.created(body)
			d.is("after 24 hours", j, "completed")
		},
		"10.6": func(t *testing.T, d *desk) {
			old := d.created(sample(t, "10.6", set("2026-02-12T17:00:00Z", "options", "scheduled_at"), arg("items", []any{"item_1"}),
				set(object{"v": 1, "w": 1}, "meta"), set(7, "options", "priority"), set("digests", "options", "queue")))
			d.created(sample(t, "10.6", arg("user_id", 43)))
			d.pass(time.Second)
			d.rewrites(sample(t, "10.6", set(object{"v": 2}, "meta")), old, 6*time.Hour+30*time.Minute-time.Second)
		},
		"10.7": func(t *testing.T, d *desk) {
			tenant := func(id, region string) string {
				return sample(t, "10.7", set(id, "meta", "tenant_id"), set(region, "meta", "region"))
			}
			acme := d.created(sample(t, "10.7"))
			globex := d.created(tenant("globex", "us-east-1"))
			d.ignored(tenant("acme", "eu-west-1"), acme)
			d.ignored(tenant("globex", "eu-west-1"), globex)
			d.created(sample(t, "10.7", arg("resource", "prices")))
		},
	} {
		t.Run("§"+name, func(t *testing.T) {
			t.Parallel()
			atDesk(t, func(d *desk) { test(d.t, d) })
		})
	}
}

// rewrites pushes a job that must only change args and meta of a scheduled one
// (§5.3, contract §4.10), which then comes when it always would have: after wait.
func (d *desk) rewrites(body string, old object, wait time.Duration) {
	d.t.Helper()
	jobs, _ := d.census()
	sent := decode(d.t, body)
	if sent["meta"] == nil {
		sent["meta"] = object{}
	}
	r := d.offer(body)
	if r.status != 200 || r.body["id"] != old["id"] || r.body["deduplicated"] != true || r.body["replaced"] != true || r.location != "/ojs/v1/jobs/"+old["id"].(string) {
		d.t.Fatalf("%s\ngot %+v; want %v rewritten", body, r, old["id"])
	}
	if now, _ := d.census(); now != jobs {
		d.t.Errorf("%s: there are %d jobs now, %d before", body, now, jobs)
	}
	for _, j := range []object{r.job(), d.info(old["id"])} {
		for _, name := range []string{"id", "type", "state", "queue", "priority", "scheduled_at", "created_at"} {
			if !reflect.DeepEqual(j[name], old[name]) {
				d.t.Errorf("%s was %v and is %v", name, old[name], j[name])
			}
		}
		for _, name := range []string{"args", "meta"} {
			if !reflect.DeepEqual(j[name], sent[name]) {
				d.t.Errorf("%s is %v, want %v", name, j[name], sent[name])
			}
		}
	}
	d.pass(wait - time.Millisecond)
	d.is("before its time", old, "scheduled")
	d.pass(time.Millisecond)
	if got := d.fetch(old); got == nil || got["id"] != old["id"] || !reflect.DeepEqual(got["args"], sent["args"]) {
		d.t.Errorf("at its time came %v", got)
	}
}

// ojs-unique-jobs.md §9.3: the flow, step by step.
func TestUniqueFlowOfRetries(t *testing.T) {
	t.Parallel()
	atDesk(t, func(d *desk) {
		body := `{"type":"email.send","args":[{"user_id":42}],"retry":{"max_attempts":2},"unique":{"keys":["type","args"],"args_keys":["user_id"]}}`
		a := d.created(body)
		d.nack(d.take(a), object{"type": "E", "message": "no"})
		d.is("2", a, "retryable")
		d.refused(body, a)
		d.nack(d.take(a), object{"type": "E", "message": "no"})
		d.is("4", a, "discarded")
		b := d.created(body)
		d.refused(body, b)
	})
}

// ojs-unique-jobs.md §7.3: the common periods, to the millisecond.
func TestUniquePeriods(t *testing.T) {
	t.Parallel()
	atDeskOf(t, sidecar.Options{}, func(d *desk, leap func(time.Duration)) {
		var passed time.Duration
		olds := map[string]object{}
		table := []struct {
			period any
			long   time.Duration
			name   string
		}{
			{"PT0.5S", 500 * time.Millisecond, "period"}, {7, 7 * time.Second, "period"}, {9500, 9500 * time.Millisecond, "period_ms"},
			{"1m30s", 90 * time.Second, "within"}, {"PT5M", 5 * time.Minute, "period"}, {"PT1H", time.Hour, "period"}, {"P1D", 24 * time.Hour, "period"},
			{"P7D", 7 * 24 * time.Hour, "period"}, {"P30D", 30 * 24 * time.Hour, "period"},
		}
		body := func(i int) string {
			return write(t, unique(fmt.Sprint("a.b", i), object{table[i].name: table[i].period, "on_conflict": "ignore"}))
		}
		for i := range table {
			olds[body(i)] = d.created(body(i))
		}
		for i, tt := range table {
			leap(tt.long - time.Millisecond - passed)
			d.ignored(body(i), olds[body(i)])
			leap(time.Millisecond)
			d.created(body(i))
			passed = tt.long
		}
	})
}

// contract §4.10: what each strategy makes of a job in each state, when the state
// is among those that the policy names, and when it is not.
func TestUniqueConflicts(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"reject", "ignore", "replace", "replace_except_schedule"} {
		for _, state := range states {
			t.Run(strategy+" of "+state, func(t *testing.T) {
				t.Parallel()
				atDesk(t, func(d *desk) {
					others := slices.DeleteFunc(slices.Clone(states), func(s string) bool { return s == state })
					o := unique("a.b", object{"states": states, "on_conflict": strategy})
					old := d.bring(o, state)
					d.pass(time.Second)
					was := d.info(old["id"])
					body := write(t, with(o, object{"args": []any{"new"}, "meta": object{"new": true}}))
					switch {
					case strategy == "reject":
						d.refused(body, old)
					case strategy == "ignore":
						d.ignored(body, old)
					case final(state):
						if j := d.created(body); j["state"] != "available" {
							t.Errorf("new is %v", j)
						}
						if now := d.info(old["id"]); !reflect.DeepEqual(was, now) {
							t.Errorf("the old one was %v\nand is %v", was, now)
						}
					case strategy == "replace_except_schedule" && state == "scheduled":
						d.rewrites(body, old, 24*time.Hour-time.Second)
					default:
						if j := d.replaces(body, old); j["state"] != "available" || write(t, j["args"]) != `["new"]` {
							t.Errorf("new is %v", j)
						}
						if state == "active" {
							d.lost(old)
						}
					}

					o = unique("c.d", object{"states": others, "on_conflict": strategy})
					old = d.bring(o, state)
					d.pass(time.Second)
					was = d.info(old["id"])
					d.created(write(t, o))
					if now := d.info(old["id"]); !reflect.DeepEqual(was, now) {
						t.Errorf("a job that the policy does not see was %v\nand is %v", was, now)
					}
				})
			})
		}
	}
}

// lost makes sure that the worker of an active job that was replaced learns of
// it, and can end it no more (contract §4.10, §4.8).
func (d *desk) lost(j object) {
	d.t.Helper()
	for _, ids := range []object{{"active_jobs": []any{j["id"]}}, {"active_jobs": 1, "active_job_ids": []any{j["id"]}}} {
		beat := d.ask(200, "POST", "/ojs/v1/workers/heartbeat", write(d.t, with(ids, object{"worker_id": "w"})))
		if got := write(d.t, beat["cancelled_jobs"]); got != write(d.t, []any{j["id"]}) || write(d.t, beat["jobs_extended"]) != "[]" {
			d.t.Errorf("the heartbeat of a replaced job: %v", beat)
		}
	}
	for path, more := range map[string]object{"ack": {"result": 1}, "nack": {"error": object{"type": "E", "message": "no"}}} {
		for _, by := range []object{{}, {"worker_id": "w"}} {
			e := d.ask(409, "POST", "/ojs/v1/workers/"+path, write(d.t, with(with(more, by), object{"job_id": j["id"]})))["error"].(object)
			if e["code"] != "conflict" || e["details"].(object)["current_state"] != "cancelled" {
				d.t.Errorf("%s of a replaced job: %v", path, e)
			}
		}
	}
	d.is("after its worker came back", j, "cancelled")
}

// contract §4.10: the rules beside the table.
func TestUniqueRules(t *testing.T) {
	t.Parallel()
	only := func(states ...string) object { return object{"states": states} }
	for name, test := range map[string]func(t *testing.T, d *desk){
		"the newest decides": func(t *testing.T, d *desk) {
			o := unique("a.b", only("scheduled"))
			var jobs []object
			for range 3 {
				jobs = append(jobs, d.created(write(t, o)))
				d.pass(time.Millisecond)
			}
			d.refused(write(t, unique("a.b", object{})), jobs[2])
			d.ignored(write(t, unique("a.b", object{"on_conflict": "ignore"})), jobs[2])
			d.cancel(jobs[2])
			d.refused(write(t, unique("a.b", object{})), jobs[1])                                   // the newest of those that match
			d.replaces(write(t, unique("a.b", object{"on_conflict": "replace"})), jobs[1], jobs[0]) // and all that match give way
		},
		"the newest decides though it is final": func(t *testing.T, d *desk) {
			d.created(write(t, unique("a.b", only("scheduled"))))
			d.pass(time.Millisecond)
			done := d.created(write(t, unique("a.b", only("scheduled"))))
			d.cancel(done)
			d.refused(write(t, unique("a.b", only("available", "cancelled"))), done)
			d.ignored(write(t, unique("a.b", object{"states": states, "on_conflict": "ignore"})), done)
		},
		"the window is anchored at created_at": func(t *testing.T, d *desk) {
			body := write(t, unique("a.b", object{"period": "PT1H"}))
			j := d.created(body)
			for range 5 {
				d.pass(10 * time.Minute)
				d.refused(body, j)
			}
			d.pass(10*time.Minute - time.Millisecond)
			d.refused(body, j)
			d.pass(time.Millisecond)
			d.created(body)
		},
		"a retry does not move the window": func(t *testing.T, d *desk) {
			o := unique("a.b", object{"period": "PT1H"})
			j := d.created(write(t, o))
			d.pass(59 * time.Minute)
			d.nack(d.take(j), object{"type": "E", "message": "no"})
			d.pass(time.Minute - time.Millisecond)
			d.is("retried", j, "available")
			d.refused(write(t, o), j)
			d.pass(time.Millisecond)
			d.created(write(t, o))
		},
		"a promotion does not move the window": func(t *testing.T, d *desk) {
			o := unique("a.b", object{"period": "PT1H"})
			j := d.created(write(t, with(o, object{"delay": 30 * 60})))
			d.pass(time.Hour - time.Millisecond)
			d.is("promoted", j, "available")
			d.refused(write(t, o), j)
			d.pass(time.Millisecond)
			d.created(write(t, o))
		},
		"an activation does not move the window": func(t *testing.T, d *desk) {
			o := unique("a.b", object{"period": "PT1H"})
			j := d.created(write(t, with(o, object{"pending": true})))
			d.pass(30 * time.Minute)
			d.ask(200, "POST", "/ojs/v1/jobs/"+j["id"].(string)+"/activate", "")
			d.pass(30*time.Minute - time.Millisecond)
			d.refused(write(t, o), j)
			d.pass(time.Millisecond)
			d.created(write(t, o))
		},
		"an end does not move the window, nor does a revival": func(t *testing.T, d *desk) {
			o := unique("a.b", object{"period": "PT1H", "states": states})
			j := d.created(write(t, o))
			d.pass(20 * time.Minute)
			d.nack(d.take(j), object{"code": "DEAD_LETTER", "message": "no"})
			d.pass(20 * time.Minute)
			d.refused(write(t, o), j)
			d.ask(200, "POST", "/ojs/v1/dead-letter/"+j["id"].(string)+"/retry", "")
			d.pass(20*time.Minute - time.Millisecond)
			d.is("revived", j, "available")
			d.refused(write(t, o), j)
			d.pass(time.Millisecond)
			d.created(write(t, o))
		},
		"an end on its own does not move the window": func(t *testing.T, d *desk) {
			for _, state := range []string{"completed", "cancelled", "discarded"} {
				o := unique("in."+state, object{"period": "PT1H", "states": states})
				j := d.created(write(t, o))
				d.pass(30 * time.Minute)
				switch d.take(j); state {
				case "completed":
					d.ack(j)
				case "cancelled":
					d.cancel(j)
				default:
					d.nack(j, object{"code": "DISCARD", "message": "no"})
				}
				d.pass(30*time.Minute - time.Millisecond)
				d.is("ended", j, state)
				d.refused(write(t, o), j)
				d.pass(time.Millisecond)
				d.created(write(t, o))
			}
		},
		"a rewritten job does not move the window": func(t *testing.T, d *desk) {
			o := with(unique("a.b", object{"period": "PT1H", "on_conflict": "replace_except_schedule"}), object{"delay": 24 * 60 * 60})
			j := d.created(write(t, o))
			for range 2 {
				d.pass(30*time.Minute - time.Millisecond)
				if r := d.offer(write(t, o)); r.status != 200 || r.body["id"] != j["id"] {
					t.Errorf("%+v", r)
				}
			}
			d.pass(2 * time.Millisecond)
			d.created(write(t, o))
		},
		"the incoming period decides": func(t *testing.T, d *desk) {
			hour := d.created(write(t, unique("a.b", object{"period": "PT1H"})))
			none := d.created(write(t, unique("c.d", object{})))
			d.pass(90 * time.Minute)
			d.refused(write(t, unique("a.b", object{"period": "PT2H"})), hour)
			d.refused(write(t, unique("a.b", object{})), hour)
			d.refused(write(t, unique("c.d", object{"period": "PT2H"})), none)
			d.created(write(t, unique("c.d", object{"period": "PT90M"})))
		},
		"the incoming states decide": func(t *testing.T, d *desk) {
			j := d.created(write(t, unique("a.b", only("scheduled"))))
			d.refused(write(t, unique("a.b", object{})), j)
			d.refused(write(t, unique("a.b", only("available"))), j)
			d.created(write(t, unique("a.b", only("active", "completed"))))
		},
		"the incoming strategy decides": func(t *testing.T, d *desk) {
			j := d.created(write(t, unique("a.b", object{"on_conflict": "replace"})))
			d.refused(write(t, unique("a.b", object{"on_conflict": "reject"})), j)
			d.ignored(write(t, unique("a.b", object{"on_conflict": "ignore"})), j)
		},
		"a job without a policy carries no fingerprint": func(t *testing.T, d *desk) {
			plain := `{"type":"a.b","args":[],"queue":"a-b"}`
			d.created(plain)
			body := write(t, unique("a.b", object{}))
			j := d.created(body)
			d.created(plain)
			d.refused(body, j)
		},
		"a policy with other keys is another fingerprint": func(t *testing.T, d *desk) {
			d.created(write(t, unique("a.b", object{})))
			d.created(write(t, unique("a.b", object{"keys": []any{"args"}})))
			d.created(write(t, unique("a.b", object{"keys": []any{"args", "queue"}})))
		},
		"no retry is checked again": func(t *testing.T, d *desk) {
			o := with(unique("a.b", only("active")), object{"retry": object{"jitter": false}})
			first := d.created(write(t, o))
			d.nack(d.take(first), object{"type": "E", "message": "no"})
			second := d.created(write(t, o))
			d.take(second)
			d.pass(time.Second)
			d.is("its retry", first, "available") // though an active twin runs
			d.take(first)
			d.ack(first)
			d.ack(second)
		},
		"twins are promoted together": func(t *testing.T, d *desk) {
			at := object{"scheduled_at": "2026-02-12T11:00:00Z"}
			o := with(unique("a.b", only("scheduled")), at)
			first := d.created(write(t, with(o, object{"pending": true})))
			second := d.created(write(t, o))
			d.ask(200, "POST", "/ojs/v1/jobs/"+first["id"].(string)+"/activate", "")
			d.is("activated", first, "scheduled")
			other := d.created(`{"type":"c.d","args":[],"scheduled_at":"2026-02-12T11:00:00Z"}`)
			d.pass(30 * time.Minute)
			for _, j := range []object{first, second, other} {
				d.is("at its time", j, "available")
			}
		},
		"twins stall in no state": func(t *testing.T, d *desk) {
			for _, state := range []string{"available", "active", "retryable", "completed", "cancelled", "discarded"} {
				o := with(unique("in."+state, only(state)), object{"retry": lasting, "pending": state == "available"})
				twins := []object{d.created(write(t, o)), d.created(write(t, o))} // who meets nobody in the state is let in
				for _, j := range twins {
					switch state {
					case "available":
						d.ask(200, "POST", "/ojs/v1/jobs/"+j["id"].(string)+"/activate", "")
					case "cancelled":
						d.cancel(j)
					default:
						d.take(j)
					}
				}
				for _, j := range twins {
					switch state {
					case "completed":
						d.ack(j)
					case "retryable":
						d.nack(j, object{"type": "E", "message": "no"})
					case "discarded":
						d.nack(j, object{"code": "DISCARD", "message": "no"})
					}
				}
				for _, j := range twins {
					d.is("both", j, state)
				}
				d.refused(write(t, o), twins[1])
			}
		},
		"a dead letter comes back beside a new one": func(t *testing.T, d *desk) {
			o := unique("a.b", object{})
			dead := d.bring(o, "discarded")
			fresh := d.created(write(t, o))
			again := d.ask(200, "POST", "/ojs/v1/dead-letter/"+dead["id"].(string)+"/retry", "")["job"].(object)
			if again["state"] != "available" || again["id"] != dead["id"] {
				t.Errorf("%v", again)
			}
			d.is("beside the dead letter", fresh, "available")
			d.refused(write(t, o), fresh) // the newest
			d.ack(d.take(fresh))
			d.refused(write(t, o), dead)
			d.ack(d.take(dead))
			d.created(write(t, o))
		},
		"what is refused in a batch refuses it all": func(t *testing.T, d *desk) {
			o := unique("a.b", object{})
			old := d.created(write(t, o))
			body := write(t, object{"jobs": []any{unique("c.d", object{}), o, unique("e.f", object{})}})
			d.idle(old, func() {
				e := d.ask(409, "POST", "/ojs/v1/jobs/batch", body)["error"].(object)
				details := e["details"].(object)
				if e["code"] != "duplicate" || write(t, details["index"]) != "1" || details["existing_job_id"] != old["id"] {
					t.Errorf("%v", e)
				}
			})
			d.created(write(t, unique("c.d", object{}))) // nothing holds its key
		},
		"a batch meets itself": func(t *testing.T, d *desk) {
			ignore, replace := unique("a.b", object{"on_conflict": "ignore"}), unique("c.d", object{"on_conflict": "replace"})
			got := d.ask(201, "POST", "/ojs/v1/jobs/batch", write(t, object{"jobs": []any{ignore, replace, ignore, replace}}))
			jobs := got["jobs"].([]any)
			id := func(i int) any { return jobs[i].(object)["id"] }
			if len(jobs) != 4 || id(0) != id(2) || id(1) == id(3) || jobs[2].(object)["deduplicated"] != true || jobs[0].(object)["deduplicated"] == true {
				t.Fatalf("%v", got)
			}
			d.is("the first", object{"id": id(0)}, "available")
			d.is("replaced", object{"id": id(1)}, "cancelled")
			d.is("the last", object{"id": id(3)}, "available")
			d.idle(object{"id": id(3)}, func() {
				reject := unique("e.f", object{})
				d.ask(409, "POST", "/ojs/v1/jobs/batch", write(t, object{"jobs": []any{reject, reject}}))
			})
		},
		"cancelling frees the key": func(t *testing.T, d *desk) {
			for _, state := range living {
				o := unique("in."+state, object{})
				d.cancel(d.bring(o, state))
				d.created(write(t, o))
			}
		},
		"unique conflicts tell no events of deduplication": func(t *testing.T, d *desk) {
			j := d.created(write(t, unique("a.b", object{})))
			for _, strategy := range []string{"reject", "ignore", "replace"} {
				d.offer(write(t, unique("a.b", object{"on_conflict": strategy})))
			}
			d.is("at last", j, "cancelled")
			if got := d.log("types=job.duplicated,job.deduplicated,job.debounced"); len(got) != 0 {
				t.Errorf("told %v", got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atDesk(t, func(d *desk) { test(d.t, d) })
		})
	}
}

// ojs-unique-jobs.md §4, contract §4.10: what is the same and what is not. Each
// side is args, and perhaps further members.
func TestUniqueFingerprints(t *testing.T) {
	t.Parallel()
	const nest = `[{"b":{"y":1,"x":[1,2]},"a":"1"}]`
	atDesk(t, func(d *desk) {
		for i, tt := range []struct {
			what, policy, one, two string
			same                   bool
		}{
			{"order of members, at every depth", `{"keys":["args"]}`, nest, `[{"a":"1","b":{"x":[1,2],"y":1}}]`, true},
			{"order of elements", `{"keys":["args"]}`, nest, `[{"a":"1","b":{"x":[2,1],"y":1}}]`, false},
			{"order of args", `{"keys":["args"]}`, `[1,2]`, `[2,1]`, false},
			{"white space", `{"keys":["args"]}`, `[1,{"a":[]}]`, `[ 1 , { "a" : [ ] } ]`, true},
			{"one, as it may be written", `{"keys":["args"]}`, `[1,{"n":[1]}]`, `[1e0,{"n":[10E-1]}]`, true},
			{"one, where it is chosen", `{"keys":["args"],"args_keys":["n"]}`, `[{"n":1}]`, `[{"n":1.000,"m":1}]`, true},
			{"one, in meta", `{"keys":["meta"],"meta_keys":["n"]}`, `[],"meta":{"n":{"a":1}}`, `[],"meta":{"n":{"a":1e0}}`, true},
			{"nearly one", `{"keys":["args"]}`, `[1]`, `[1.0000000000000002]`, false},
			{"no args", `{"keys":["args"]}`, `[]`, `[ ]`, true},
			{"no args, and empty ones", `{"keys":["args"]}`, `[]`, `[{}]`, false},
			{"escapes in a chosen name", `{"keys":["args"],"args_keys":["\u006ee\u0301"]}`, `[{"n\u00e9":1,"o":1}]`, `[{"ne\u0301":1,"o":2}]`, true},
			{"a name with a dot is no path", `{"keys":["args"],"args_keys":["a.b"]}`, `[{"a.b":1,"a":{"b":1}}]`, `[{"a.b":1,"a":{"b":2}}]`, true},
			{"a name with a dot", `{"keys":["meta"],"meta_keys":["a.b"]}`, `[],"meta":{"a":{"b":1}}`, `[],"meta":{"a":{"b":2}}`, true},
			{"null where it is chosen, and another value", `{"keys":["args"],"args_keys":["a"]}`, `[{"a":null}]`, `[{"a":0}]`, false},
			{"meta that is null and none", `{"keys":["meta"],"meta_keys":["a"]}`, `[],"meta":{"a":null}`, `[],"meta":{}`, false},
			{"forms of a number", `{"keys":["args"]}`, `[1.0,1e2,-0,0.10]`, `[1,100,0,1E-1]`, true},
			{"numbers and their text", `{"keys":["args"]}`, `[1]`, `["1"]`, false},
			{"null and nothing", `{"keys":["args"]}`, `[null]`, `[]`, false},
			{"null and nothing in a member", `{"keys":["args"]}`, `[{"a":null}]`, `[{}]`, false},
			{"integers beyond 2^53", `{"keys":["args"]}`, `[9007199254740992]`, `[9007199254740993]`, false},
			{"escapes", `{"keys":["args"]}`, `["\u0041\/\u20ac"]`, `["A/€"]`, true},
			{"NFC", `{"keys":["args"]}`, `["caf\u00e9"]`, `["cafe\u0301"]`, true},
			{"NFC of names", `{"keys":["args"]}`, `[{"caf\u00e9":1}]`, `[{"cafe\u0301":1}]`, true},
			{"of two equal names the last", `{"keys":["args"]}`, `[{"cafe\u0301":1,"caf\u00e9":2}]`, `[{"caf\u00e9":2}]`, true},
			{"numbers beyond 2^53 with a point", `{"keys":["args"]}`, `[9007199254740992.0]`, `[9007199254740993.0]`, false},
			{"upper and lower case", `{"keys":["args"]}`, `["A"]`, `["a"]`, false},
			{"half a surrogate pair, written otherwise", `{"keys":["args"]}`, `["\ud800"]`, `["\uD800"]`, true},
			{"halves of surrogate pairs", `{"keys":["args"]}`, `["\ud800"]`, `["\udfff"]`, false},
			{"half a surrogate pair, and what replaces one", `{"keys":["args"]}`, `["\ud800"]`, `["\ufffd"]`, false},
			{"the kind of a chosen value", `{"keys":["args"],"args_keys":["a"]}`, `[{"a":42}]`, `[{"a":"42"}]`, false},
			{"a chosen value that is a structure", `{"keys":["args"],"args_keys":["a"]}`, `[{"a":{"x":1,"y":2},"b":1}]`, `[{"b":2,"a":{"y":2,"x":1}}]`, true},
			{"elements after the first", `{"keys":["args"],"args_keys":["a"]}`, `[{"a":1},1]`, `[{"a":1},2]`, true},
			{"no args_keys is all args", `{"keys":["args"],"args_keys":null}`, `[{"a":1},1]`, `[{"a":1},2]`, false},
			{"empty args_keys are none", `{"keys":["args"],"args_keys":[]}`, `[{"a":1},1]`, `[{"a":1},2]`, false},
			{"order of args_keys", `{"keys":["args"],"args_keys":["b","a"]}`, `[{"a":1,"b":2}]`, `[{"b":2,"a":1}]`, true},
			{"args where they are no key", `{"keys":["type"]}`, `[1]`, `[2]`, true},
			{"no keys is the type", `{}`, `[1]`, `[2],"queue":"b","meta":{"a":1}`, true},
			{"type where it is not named", `{"keys":["queue"]}`, `[1]`, `[2]`, true},
			{"the queue where it is no key", `{"keys":["args"]}`, `[1],"queue":"a"`, `[1],"queue":"b"`, true},
			{"the default queue", `{"keys":["queue"]}`, `[1]`, `[1],"queue":"default"`, true},
			{"a queue of options", `{"keys":["queue"]}`, `[1],"options":{"queue":"q"}`, `[1],"queue":"q"`, true},
			{"meta that is not chosen", `{"keys":["meta"],"meta_keys":["a"]}`, `[],"meta":{"a":1,"b":1}`, `[],"meta":{"b":2,"a":1.0}`, true},
			{"meta that is chosen", `{"keys":["meta"],"meta_keys":["a"]}`, `[],"meta":{"a":1}`, `[],"meta":{"a":2}`, false},
			{"meta that is missing", `{"keys":["meta"],"meta_keys":["a","b"]}`, `[],"meta":{"a":1}`, `[],"meta":{"a":1,"c":1}`, true},
			{"no meta", `{"keys":["meta"],"meta_keys":["a"]}`, `[]`, `[],"meta":{"b":1}`, true},
			{"meta under its other name", `{"keys":["meta"],"meta_keys":["a"]}`, `[],"metadata":{"a":1}`, `[],"meta":{"a":1}`, true},
			{"key of dimensions", `{"key":["type","queue"]}`, `[1],"queue":"a"`, `[2],"queue":"b"`, false},
			{"key of dimensions", `{"key":["type"]}`, `[1],"queue":"a"`, `[2],"queue":"b"`, true},
			{"key of args", `{"key":["id"]}`, `[{"id":1,"b":1}]`, `[{"id":1,"b":2}]`, true},
			{"key of args", `{"key":["id"]}`, `[{"id":1}]`, `[{"id":2}]`, false},
			{"key of args, lenient", `{"key":["id","none"]}`, `[{"id":1,"b":1}]`, `[{"id":1,"b":2}]`, true},
			{"key of args, null is a value", `{"key":["id","none"]}`, `[{"id":1}]`, `[{"id":1,"none":null}]`, false},
			{"key as text", `{"key":"mine"}`, `[1]`, `[2],"queue":"b"`, true},
		} {
			push := func(args string) string {
				return fmt.Sprintf(`{"type":"case%d","unique":%s,"args":%s}`, i, tt.policy, args)
			}
			old := d.created(push(tt.one))
			if tt.same {
				d.refused(push(tt.two), old)
			} else {
				d.created(push(tt.two))
			}
		}
		j := d.created(`{"type":"text.key","args":[],"unique":{"key":"a"}}`)
		d.created(`{"type":"text.key","args":[],"unique":{"key":"b"}}`)
		d.created(`{"type":"text.other","args":[],"unique":{"key":"a"}}`)
		d.created(`{"type":"text.key","args":["a"],"unique":{"keys":["args"]}}`)
		d.refused(`{"type":"text.key","args":[],"unique":{"key":"a"}}`, j)
		for _, tt := range []struct{ body, key string }{ // the vectors of contract §4.10
			{`{"type":"report.daily","args":[1],"unique":{}}`, "be66720bd0f961a37ab755101a985ca3f8563bd89ed8d412c41fa5791f3e4d95"},
			{`{"type":"unique.test","args":[{"order_id":"ORD-001"}],"unique":{"keys":["args"]}}`, "ddb113f24c177c442445c650d165697d5754903befa8e543fd88eafff472f2b3"},
			{`{"type":"t","args":[{"name":"cafe\u0301"}],"unique":{"keys":["type","args"],"args_keys":["name"]}}`, "8f8d0164aa92b2c4dab289e483ef69b1181284ca16af82990174669f2371c9c4"},
		} {
			if key := d.refused(tt.body, d.created(tt.body)); key != tt.key {
				t.Errorf("%s\nhas the key %s, want %s", tt.body, key, tt.key)
			}
		}
	})
}

// ojs-unique-jobs.md §2.2 and §13, contract §2.5: what is no policy is refused
// with the name of its field, and what is odd but right is not.
func TestUniquePoliciesByRule(t *testing.T) {
	t.Parallel()
	atDesk(t, func(d *desk) {
		for _, tt := range []struct{ field, policy, args string }{
			{"keys", `{"keys":["argz"]}`, `[]`}, {"keys", `{"keys":["Type"]}`, `[]`}, {"keys", `{"keys":["type","type"]}`, `[]`}, {"keys", `{"keys":"type"}`, `[]`}, {"keys", `{"keys":[7]}`, `[]`},
			{"meta_keys", `{"keys":["meta"]}`, `[]`}, {"meta_keys", `{"keys":["meta"],"meta_keys":[]}`, `[]`}, {"meta_keys", `{"keys":["meta"],"meta_keys":null}`, `[]`},
			{"meta_keys", `{"keys":["meta"],"meta_keys":"a"}`, `[]`}, {"meta_keys", `{"keys":["meta"],"meta_keys":[7]}`, `[]`}, {"meta_keys", `{"keys":["meta"],"meta_keys":["a","a"]}`, `[]`},
			{"args_keys", `{"keys":["args"],"args_keys":["a"]}`, `[{"b":1}]`}, {"args_keys", `{"keys":["args"],"args_keys":["a","A"]}`, `[{"a":1}]`}, {"args_keys", `{"keys":["args"],"args_keys":["a"]}`, `[]`},
			{"args_keys", `{"keys":["args"],"args_keys":["a"]}`, `["a"]`}, {"args_keys", `{"keys":["args"],"args_keys":["a"]}`, `[["a"]]`}, {"args_keys", `{"keys":["args"],"args_keys":["a"]}`, `[1,{"a":1}]`},
			{"args_keys", `{"keys":["args"],"args_keys":["a.b"]}`, `[{"a":{"b":1}}]`}, {"args_keys", `{"keys":["args"],"args_keys":["a/b"]}`, `[{"a":{"b":1}}]`}, {"args_keys", `{"keys":["args"],"args_keys":["b"]}`, `[{"a":{"b":1}}]`},
			{"args_keys", `{"keys":["args"],"args_keys":["0"]}`, `[1]`}, {"args_keys", `{"keys":["args"],"args_keys":["a"]}`, `[{}]`}, {"args_keys", `{"keys":["args"],"args_keys":["a"]}`, `[{"A":1}]`}, {"args_keys", `{"keys":["args"],"args_keys":["a"]}`, `[null]`},
			{"args_keys", `{"args_keys":["a"],"on_conflict":"ignore"}`, `[{"a":1}]`}, {"args_keys", `{"keys":["queue"],"args_keys":["a"]}`, `[{"a":1}]`}, {"meta_keys", `{"keys":["args"],"meta_keys":["a"]}`, `[]`},
			{"keys", `{"keys":["Queue"]}`, `[]`}, {"keys", `{"keys":["META"],"meta_keys":["a"]}`, `[]`}, {"keys", `{"keys":["args "]}`, `[]`},
			{"args_keys", `{"keys":["args"],"args_keys":["a","a"]}`, `[{"a":1}]`}, {"args_keys", `{"keys":["args"],"args_keys":"a"}`, `[{"a":1}]`}, {"args_keys", `{"keys":["args"],"args_keys":[1]}`, `[{"1":1}]`},
			{"period", `{"period":"1h"}`, `[]`}, {"period", `{"period":"P"}`, `[]`}, {"period", `{"period":"PT"}`, `[]`}, {"period", `{"period":"P1DT"}`, `[]`}, {"period", `{"period":"PT0S"}`, `[]`},
			{"period", `{"period":"-PT1H"}`, `[]`}, {"period", `{"period":""}`, `[]`}, {"period", `{"period":"3600s"}`, `[]`}, {"period", `{"period":true}`, `[]`}, {"period", `{"period":-5}`, `[]`}, {"period", `{"period":0}`, `[]`},
			{"states", `{"states":["done"]}`, `[]`}, {"states", `{"states":["Active"]}`, `[]`}, {"states", `{"states":[]}`, `[]`}, {"states", `{"states":["active","active"]}`, `[]`}, {"states", `{"states":"active"}`, `[]`},
			{"on_conflict", `{"on_conflict":"Reject"}`, `[]`}, {"on_conflict", `{"on_conflict":"raise"}`, `[]`}, {"on_conflict", `{"on_conflict":""}`, `[]`}, {"on_conflict", `{"on_conflict":7}`, `[]`},
			{"on_conflicts", `{"on_conflicts":"ignore"}`, `[]`}, {"Keys", `{"Keys":["type"]}`, `[]`}, {"unique", `7`, `[]`}, {"unique", `["type"]`, `[]`}, {"unique", `"type"`, `[]`}, {"unique", `true`, `[]`},
		} {
			for _, body := range []string{`{"type":"a.b","args":%s,"unique":%s}`, `{"type":"a.b","args":%s,"options":{"unique":%s}}`} {
				d.invalid(fmt.Sprintf(body, tt.args, tt.policy), tt.field)
			}
			d.invalidBatch(fmt.Sprintf(`{"type":"a.b","args":%s,"unique":%s}`, tt.args, tt.policy), tt.field)
		}
		for i, policy := range []string{
			`{}`, `{"keys":[]}`, `{"keys":["args","type","queue"]}`, `{"args_keys":null,"meta_keys":null,"period":null}`, `{"x_note":{"a":1}}`, `{"states":["cancelled"]}`, `{"period":"P1Y2M3W4DT5H6M7.5S"}`,
			`{"keys":["meta"],"meta_keys":["none"]}`,
		} {
			j := d.created(fmt.Sprintf(`{"type":"fine%d","args":[{"a":1}],"unique":%s}`, i, policy))
			if got := write(t, j["unique"]); got != write(t, decode(t, policy)) {
				t.Errorf("%s comes back as %s", policy, got)
			}
		}
		// Short durations are for flat core envelopes alone (contract C-05).
		body := `{"specversion":"1.0.0-rc.1","type":"flat.core","args":[],"unique":{"period":"3600s"}}`
		j := d.created(body)
		d.refused(body, j)
		d.invalid(`{"specversion":"1.0.0-rc.1","type":"flat.options","args":[],"options":{"unique":{"period":"3600s"}}}`, "period")
		d.pass(time.Hour)
		d.created(body)
	})
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
	if err := json.Unmarshal([]byte(example(t, "unique/13")), &schema); err != nil || len(schema.Properties) != 6 || schema.AdditionalProperties {
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
		want := decode(t, example(t, "unique/8.3"))["capabilities"].(object)["unique_jobs"].(object)
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
	o := sidecar.Options{Retention: briefly, Log: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	atDeskOf(t, o, func(d *desk, _ func(time.Duration)) {
		later := unique("a.b", object{"on_conflict": "replace_except_schedule"})
		for _, o := range []object{
			unique("a.b", object{}), unique("a.b", object{}), unique("a.b", object{"on_conflict": "ignore"}), unique("a.b", object{"on_conflict": "replace"}),
			later, with(later, object{"delay": 3600}), later, with(later, object{"args": []any{2}}),
		} {
			d.offer(write(t, o)) // created, rejected, ignored, replaced, and rewritten
			d.ask(200, "POST", "/ojs/v1/unique/explain", write(t, o))
		}
		if r := d.offer(write(t, later)); r.body["replaced"] != true {
			t.Fatalf("%+v", r)
		}
		body := write(t, unique("a.b", object{}))
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

// briefly is a retention that is shorter than the windows of the tests.
var briefly = sidecar.Retention{Completed: 2 * time.Hour, Cancelled: 2 * time.Hour, Discarded: 2 * time.Hour, Dead: 2 * time.Hour}

// contract §4.21: a job that an open window with its state needs outlives its
// retention until the window is over, and is pruned then.
func TestUniqueWindowOutlivesRetention(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"completed", "cancelled", "discarded"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			atDeskOf(t, sidecar.Options{Retention: briefly}, func(d *desk, leap func(time.Duration)) {
				o := unique("a.b", object{"states": append(slices.Clone(living), state), "period": "P40D"})
				plain := d.bring(unique("c.d", object{}), state)
				j := d.bring(o, state)
				d.pass(4 * time.Hour)
				d.ask(404, "GET", "/ojs/v1/jobs/"+plain["id"].(string), "")
				d.refused(write(t, o), j)
				leap((40*24 - 8) * time.Hour)
				d.pass(4*time.Hour - time.Millisecond)
				d.refused(write(t, o), j)
				d.pass(time.Millisecond)
				d.created(write(t, o))
				d.pass(4 * time.Hour)
				d.ask(404, "GET", "/ojs/v1/jobs/"+j["id"].(string), "")
			})
		})
	}
}

// contract §4.21: retention is counted from the end of the job, so that nothing
// keeps one any more whose retention and whose window are both over.
func TestUniqueWindowIsNoSecondRetention(t *testing.T) {
	t.Parallel()
	atDeskOf(t, sidecar.Options{Retention: briefly}, func(d *desk, leap func(time.Duration)) {
		j := d.bring(unique("a.b", object{"states": states, "period": "P40D"}), "completed")
		leap((40*24 - 1) * time.Hour)
		d.pass(2*time.Hour + time.Second) // the round comes once an hour
		d.ask(404, "GET", "/ojs/v1/jobs/"+j["id"].(string), "")
	})
}

// contract §4.21: a fingerprint with a period keeps its job 30 days, for the
// incoming policy decides, and may look further back than the stored one.
func TestUniqueWindowIsKeptThirtyDays(t *testing.T) {
	t.Parallel()
	atDeskOf(t, sidecar.Options{Retention: briefly}, func(d *desk, leap func(time.Duration)) {
		o := unique("a.b", object{"states": states, "period": "P2D"})
		j := d.bring(o, "completed")
		leap(30*24*time.Hour - 4*time.Hour)
		d.pass(4*time.Hour - time.Millisecond)
		d.refused(write(t, unique("a.b", object{"states": states, "period": "P30D"})), j)
		d.pass(4 * time.Hour)
		d.ask(404, "GET", "/ojs/v1/jobs/"+j["id"].(string), "")
	})
}
