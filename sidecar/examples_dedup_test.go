package sidecar_test

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/sidecar"
)

// What asyncmq-deduplication.md and contract §4.11 say of deduplication. The
// document's calls are files of testdata/spec/dedup.

// call is the PUSH that a call of queue.add in the document comes to: its first
// argument is the type, kwargs are the one object of args, for args are an array
// (contract C-19), and what else it names is an option.
func call(t *testing.T, name string, changes ...func(object)) string {
	t.Helper()
	raw, err := os.ReadFile("testdata/spec/dedup/" + name + ".py")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.TrimSuffix(strings.TrimPrefix(string(raw), "job_id = await queue.add(\n"), ")\n")
	text = strings.NewReplacer("True", "true", "kwargs=", `"kwargs":`, "delay=", `"delay":`, "deduplication=", `"deduplication":`).Replace(text)
	text = regexp.MustCompile(`,\s*(}|$)`).ReplaceAllString(text, "$1")
	options := decode(t, `{"type":`+text+`}`)
	o := object{"type": options["type"], "args": []any{}, "options": options}
	if kwargs, given := options["kwargs"]; given {
		o["args"] = []any{kwargs}
	}
	delete(options, "type")
	delete(options, "kwargs")
	for _, change := range changes {
		change(o)
	}
	return write(t, o)
}

// keyed is a PUSH with deduplication options.
func keyed(t *testing.T, options string, more ...object) string {
	t.Helper()
	o := object{"type": "a.b", "args": []any{}, "deduplication": decode(t, options)}
	for _, m := range more {
		o = with(o, m)
	}
	return write(t, o)
}

// suppressed pushes a job in whose place the owner of its key must answer. The
// only trace are the two events, and what the producer would have had is named.
func (d *desk) suppressed(body string, owner object, mode string) {
	d.t.Helper()
	before := d.info(owner["id"])
	jobs, seen := d.census()
	r := d.offer(body)
	if r.status != 200 || r.body["deduplicated"] != true || r.body["id"] != owner["id"] || r.location != "/ojs/v1/jobs/"+owner["id"].(string) || r.body["duplicate_job_id"] == true {
		d.t.Fatalf("%s\ngot %+v; want %v again", body, r, owner["id"])
	}
	if j := r.job(); j["id"] != owner["id"] || j["state"] != before["state"] {
		d.t.Errorf("%s\ngot %v", body, j)
	}
	key, _ := r.body["deduplication"].(object)
	if want := (object{"id": key["id"], "mode": mode, "job_id": owner["id"]}); key["id"] == nil || !reflect.DeepEqual(key, want) {
		d.t.Errorf("%s\nanswers with %v, want %v", body, key, want)
	}
	if now, _ := d.census(); now != jobs {
		d.t.Errorf("%s\nthere are %d jobs now, %d before", body, now, jobs)
	}
	if after := d.info(owner["id"]); !reflect.DeepEqual(before, after) {
		d.t.Errorf("the owner was %v\nand is %v", before, after)
	}
	told := d.log("")[seen:]
	if len(told) != 2 {
		d.t.Fatalf("%s: told %v", body, told)
	}
	sent := decode(d.t, body)
	lost := fmt.Sprint(told[1]["data"].(object)["deduplicated_job_id"])
	if !uuid7.MatchString(lost) || lost == owner["id"] || sent["id"] != nil && sent["id"] != lost {
		d.t.Errorf("%s: would have been %s", body, lost)
	}
	d.ask(404, "GET", "/ojs/v1/jobs/"+lost, "")
	d.decided(told, owner, key["id"], lost)
}

var uuid7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// decided compares the two events of a decision (contract §4.11): about whom, under which key, and who lost.
func (d *desk) decided(told []object, about object, key, lost any) {
	d.t.Helper()
	facts := object{"job_id": about["id"], "job_type": about["type"], "queue": about["queue"]}
	for i, want := range []object{
		{"type": "job.debounced", "alias_type": "job:debounced", "data": with(facts, object{"debounce_id": key})},
		{"type": "job.deduplicated", "alias_type": "job:deduplicated", "data": with(facts, object{"deduplication_id": key, "deduplicated_job_id": lost})},
	} {
		want["subject"], want["event"] = about["id"], want["type"]
		for name, w := range want {
			if !reflect.DeepEqual(told[i][name], w) {
				d.t.Errorf("event %d: %s is %v, want %v", i, name, told[i][name], w)
			}
		}
	}
}

// evicts pushes a job that must take the place of the owner of its key.
func (d *desk) evicts(body string, owner object) object {
	d.t.Helper()
	jobs, seen := d.census()
	r := d.offer(body)
	j := r.job()
	if r.status != 201 || j["id"] == nil || j["id"] == owner["id"] || r.location != "/ojs/v1/jobs/"+fmt.Sprint(j["id"]) {
		d.t.Fatalf("%s\ngot %+v; want a new job", body, r)
	}
	if now, _ := d.census(); now != jobs+1 {
		d.t.Errorf("%s\nthere are %d jobs now, %d before", body, now, jobs)
	}
	old := d.info(owner["id"])
	if old["state"] != "cancelled" || old["cancelled_at"] == nil || old["completed_at"] != nil {
		d.t.Errorf("evicted: %v", old)
	}
	var decisions, others []object
	for _, e := range d.log("")[seen:] {
		if e["alias_type"] != nil {
			decisions = append(decisions, e)
		} else {
			others = append(others, e)
		}
	}
	if len(decisions) != 2 || len(others) != 2 {
		d.t.Fatalf("told %v and %v", decisions, others)
	}
	sent := decode(d.t, body)
	options, _ := sent["deduplication"].(object)
	if options == nil {
		options = sent["options"].(object)["deduplication"].(object)
	}
	d.decided(decisions, j, options["id"], owner["id"])
	if data := others[0]["data"].(object); others[0]["type"] != "job.cancelled" || data["job_id"] != owner["id"] || data["reason"] != "debounced" || others[1]["subject"] != j["id"] {
		d.t.Errorf("told %v", others)
	}
	if got := d.owner(j["queue"], options["id"]); got["job_id"] != j["id"] {
		d.t.Errorf("the owner is %v, want %v", got, j["id"])
	}
	return d.info(j["id"])
}

// key is where a key of a queue can be asked for, and released.
func key(queue, id any) string {
	return "/ojs/v1/queues/" + queue.(string) + "/deduplication/" + url.PathEscape(id.(string))
}

// owner asks who holds a key.
func (d *desk) owner(queue, id any) object {
	d.t.Helper()
	return d.ask(200, "GET", key(queue, id), "")
}

// free makes sure that nobody holds a key.
func (d *desk) free(queue, id any) {
	d.t.Helper()
	if e := d.ask(404, "GET", key(queue, id), "")["error"].(object); e["code"] != "not_found" {
		d.t.Errorf("%v", e)
	}
}

func (d *desk) holdsUntil(queue, id any, until time.Duration) {
	d.t.Helper()
	want := any(written.Add(until).Format("2006-01-02T15:04:05.000Z"))
	if until == 0 {
		want = nil
	}
	if got := d.owner(queue, id)["expires_at"]; got != want {
		d.t.Errorf("%v is held until %v, want %v", id, got, want)
	}
}

// asyncmq-deduplication.md: its three calls, and every sentence about them.
func TestDedupExamples(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, d *desk){
		"Simple: the call comes to this PUSH": func(t *testing.T, d *desk) {
			j := d.created(call(t, "simple"))
			if j["type"] != "myapp.tasks.sync_customer" || write(t, j["args"]) != `[{"customer_id":"cus_123"}]` || write(t, j["deduplication"]) != `{"id":"customer:cus_123"}` {
				t.Errorf("%v", j)
			}
		},
		"Simple: the same call again returns the original job id and enqueues no duplicate": func(t *testing.T, d *desk) {
			j := d.created(call(t, "simple"))
			d.suppressed(call(t, "simple"), j, "simple")
			d.take(j)
			d.suppressed(call(t, "simple"), j, "simple")
			d.nack(j, object{"type": "E", "message": "no"})
			d.is("failed once", j, "retryable")
			d.suppressed(call(t, "simple"), j, "simple") // it is not final yet
			d.ack(d.take(j))
			d.free("default", "customer:cus_123")
			d.created(call(t, "simple")) // "before the job completes …"
		},
		"Simple: released when it fails": func(t *testing.T, d *desk) {
			j := d.created(call(t, "simple"))
			d.nack(d.take(j), object{"code": "DISCARD", "message": "no"})
			d.created(call(t, "simple")) // "… or fails"
		},
		"Simple: no TTL, the key stays": func(t *testing.T, d *desk) {
			j := d.created(call(t, "simple"))
			d.pass(24 * time.Hour)
			d.suppressed(call(t, "simple"), j, "simple")
			d.holdsUntil("default", "customer:cus_123", 0)
		},
		"a logical work key: whatever the payload": func(t *testing.T, d *desk) {
			j := d.created(call(t, "simple"))
			d.suppressed(call(t, "simple", set("myapp.tasks.other", "type"), set([]any{7}, "args"), set(5, "options", "priority")), j, "simple")
			d.created(call(t, "simple", set("customer:cus_124", "options", "deduplication", "id")))
		},
		"keys are per queue": func(t *testing.T, d *desk) {
			j := d.created(call(t, "simple"))
			other := d.created(call(t, "simple", set("crm", "queue")))
			d.suppressed(call(t, "simple"), j, "simple")
			d.suppressed(call(t, "simple", set("crm", "queue")), other, "simple")
		},
		"Throttle: for the next ten seconds, even if the job finishes quickly": func(t *testing.T, d *desk) {
			j := d.created(call(t, "throttle"))
			d.holdsUntil("default", "dashboard:global", 10*time.Second)
			d.ack(d.take(j))
			for range 4 {
				d.pass(2 * time.Second)
				d.suppressed(call(t, "throttle"), j, "throttle") // and the window does not move
			}
			d.pass(2*time.Second - time.Millisecond)
			d.suppressed(call(t, "throttle"), j, "throttle")
			d.pass(time.Millisecond)
			d.free("default", "dashboard:global")
			d.created(call(t, "throttle"))
		},
		"Throttle: a time window, even if the job has not finished": func(t *testing.T, d *desk) {
			j := d.created(call(t, "throttle"))
			d.take(j)
			d.pass(10*time.Second - time.Millisecond)
			d.suppressed(call(t, "throttle"), j, "throttle")
			d.pass(time.Millisecond)
			d.created(call(t, "throttle"))
			d.is("after its window", j, "active")
		},
		"Throttle: even if the job fails": func(t *testing.T, d *desk) {
			j := d.created(call(t, "throttle"))
			d.nack(d.take(j), object{"code": "DISCARD", "message": "no"})
			d.suppressed(call(t, "throttle"), j, "throttle")
			d.pass(10 * time.Second)
			d.created(call(t, "throttle"))
		},
		"Debounce: the older delayed job is removed, the new one becomes the owner, the TTL is refreshed": func(t *testing.T, d *desk) {
			version := func(n int) string { return call(t, "debounce", set(n, "args", "version")) }
			first := d.created(call(t, "debounce"))
			d.is("delayed", first, "scheduled")
			d.holdsUntil("default", "search:products", 30*time.Second)
			d.pass(20 * time.Second)
			second := d.evicts(version(43), first)
			d.holdsUntil("default", "search:products", 50*time.Second)
			d.pass(20 * time.Second) // beyond the first window and the first delay
			third := d.evicts(version(44), second)
			d.holdsUntil("default", "search:products", 70*time.Second)
			if got := d.owner("default", "search:products"); got["mode"] != "debounce" {
				t.Errorf("%v", got)
			}
			d.pass(30*time.Second - time.Millisecond)
			if early := d.fetch(third); early != nil {
				t.Errorf("%v came early", early)
			}
			d.pass(time.Millisecond)
			if got := d.fetch(third); got == nil || write(t, got["args"]) != `[{"scope":"products","version":44}]` {
				t.Fatalf("at last came %v", got)
			}
			if more := d.fetch(third); more != nil {
				t.Errorf("also came %v", more)
			}
			d.created(version(45)) // now the window is over
		},
		"Debounce: the TTL is not refreshed without extend": func(t *testing.T, d *desk) {
			body := call(t, "debounce", set(false, "options", "deduplication", "extend"))
			first := d.created(body)
			d.pass(20 * time.Second)
			second := d.evicts(body, first)
			d.holdsUntil("default", "search:products", 30*time.Second)
			d.pass(10*time.Second - time.Millisecond)
			third := d.evicts(body, second)
			d.holdsUntil("default", "search:products", 30*time.Second)
			d.pass(time.Millisecond)
			d.free("default", "search:products")
			d.created(body)
			d.is("beside a new one", third, "scheduled")
		},
		"Debounce: an owner that has started is never evicted": func(t *testing.T, d *desk) {
			body := call(t, "debounce", set(3600, "options", "deduplication", "ttl"), set(false, "options", "deduplication", "extend"))
			j := d.created(body)
			d.pass(30 * time.Second)
			d.is("promoted", j, "available")
			d.suppressed(body, j, "debounce")
			d.take(j)
			d.suppressed(body, j, "debounce")
			d.nack(j, object{"type": "E", "message": "no"})
			d.is("waiting again", j, "retryable")
			d.suppressed(body, j, "debounce")
			d.ack(d.take(j))
			d.suppressed(body, j, "debounce")
			d.pass(time.Hour)
			d.created(body)
		},
		"replace without a delayed job": func(t *testing.T, d *desk) {
			body := keyed(t, `{"id":"k","replace":true}`)
			j := d.created(body)
			d.suppressed(body, j, "replace")
			d.is("in flight", j, "available")
			d.take(j)
			d.suppressed(body, j, "replace")
			d.is("in flight", j, "active")
			d.ack(j)
			d.created(body)
		},
		"replace: a pending owner is not delayed": func(t *testing.T, d *desk) {
			body := keyed(t, `{"id":"k","replace":true}`, object{"pending": true})
			j := d.created(body)
			r := d.offer(body)
			if r.status != 200 || r.body["id"] != j["id"] {
				t.Errorf("%+v", r)
			}
			d.is("its owner", j, "pending")
		},
		"replace: the new job need not be delayed": func(t *testing.T, d *desk) {
			first := d.created(keyed(t, `{"id":"k"}`, object{"delay": 60}))
			second := d.evicts(keyed(t, `{"id":"k","replace":true}`), first)
			d.is("not delayed", second, "available")
			d.suppressed(keyed(t, `{"id":"k","replace":true}`), second, "replace")
		},
		"without replace a delayed owner stays": func(t *testing.T, d *desk) {
			j := d.created(keyed(t, `{"id":"k","replace":true}`, object{"delay": 60}))
			if r := d.offer(keyed(t, `{"id":"k"}`, object{"delay": 60})); r.status != 200 || r.body["id"] != j["id"] {
				t.Errorf("%+v", r)
			}
			d.is("the owner", j, "scheduled")
		},
		"replace: a job without ttl has no window": func(t *testing.T, d *desk) {
			first := d.created(keyed(t, `{"id":"k","ttl":30,"replace":true}`, object{"delay": 60}))
			d.pass(10 * time.Second)
			second := d.evicts(keyed(t, `{"id":"k","replace":true}`, object{"delay": 60}), first)
			d.holdsUntil("default", "k", 0)
			d.pass(40 * time.Second)
			d.suppressed(keyed(t, `{"id":"k"}`, object{"delay": 60}), second, d.owner("default", "k")["mode"].(string))
		},
		"replace: who was evicted holds no window": func(t *testing.T, d *desk) {
			body := call(t, "debounce", set(3600, "options", "deduplication", "ttl"))
			second := d.evicts(body, d.created(body))
			d.cancel(second)
			d.free("default", "search:products")
			d.created(body)
		},
		"extend: a suppressed call restarts the owner's window with its own ttl": func(t *testing.T, d *desk) {
			body := keyed(t, `{"id":"k","ttl":10,"extend":true}`)
			j := d.created(body)
			d.ack(d.take(j))
			d.pass(9 * time.Second)
			d.suppressed(body, j, "throttle")
			d.holdsUntil("default", "k", 19*time.Second)
			d.pass(9 * time.Second)
			d.suppressed(keyed(t, `{"id":"k","ttl":60,"extend":true}`), j, "throttle")
			d.holdsUntil("default", "k", 78*time.Second)
			d.suppressed(keyed(t, `{"id":"k","extend":true}`), j, "throttle") // no ttl, no new window
			d.suppressed(keyed(t, `{"id":"k","ttl":5}`), j, "throttle")       // no extend either
			d.holdsUntil("default", "k", 78*time.Second)
			d.pass(60*time.Second - time.Millisecond)
			d.suppressed(keyed(t, `{"id":"k"}`), j, "throttle")
			d.pass(time.Millisecond)
			d.created(body)
		},
		"manual removal disables deduplication at once": func(t *testing.T, d *desk) {
			for i, options := range []string{`{"id":"k%d"}`, `{"id":"k%d","ttl":3600}`, `{"id":"k%d","ttl":3600,"replace":true}`} {
				for _, delay := range []int{0, 60} {
					body := keyed(t, fmt.Sprintf(options, 2*i+delay/60), object{"delay": delay})
					d.cancel(d.created(body))
					d.created(body)
				}
			}
			body := keyed(t, `{"id":"dead","ttl":3600}`, object{"queue": "graves"})
			j := d.created(body)
			d.nack(d.take(j), object{"code": "DEAD_LETTER", "message": "no"})
			d.suppressed(body, j, "throttle")
			d.ask(200, "DELETE", "/ojs/v1/dead-letter/"+j["id"].(string), "")
			d.free("graves", "dead")
			d.created(body)
		},
		"job_id: one concrete job id, in any state, until the job is removed, per queue": func(t *testing.T, d *desk) {
			for _, state := range states {
				o := object{"type": "in." + state, "queue": state, "args": []any{}, "options": object{"job_id": "rebuild-customers"}}
				j := d.bring(o, state)
				if j["custom_job_id"] != "rebuild-customers" {
					t.Errorf("%v", j)
				}
				d.duplicated(write(t, o), j)
				d.duplicated(write(t, with(o, object{"type": "an.other", "args": []any{1}, "options": object{"jobId": "rebuild-customers"}})), j)
				if state == "discarded" {
					d.ask(200, "DELETE", "/ojs/v1/dead-letter/"+j["id"].(string), "")
					d.created(write(t, o))
				}
			}
		},
		"job_id and deduplication are different things": func(t *testing.T, d *desk) {
			custom := d.created(`{"type":"a.b","args":[],"options":{"job_id":"k"}}`)
			d.free("default", "k")
			owner := d.created(keyed(t, `{"id":"k"}`))
			d.duplicated(`{"type":"a.b","args":[],"options":{"job_id":"k"}}`, custom)
			d.suppressed(keyed(t, `{"id":"k"}`), owner, "simple")
		},
		"job_id is checked first": func(t *testing.T, d *desk) {
			custom := d.created(`{"type":"a.b","args":[],"options":{"job_id":"c"}}`)
			owner := d.created(keyed(t, `{"id":"k","ttl":60,"replace":true}`, object{"delay": 60}))
			d.duplicated(keyed(t, `{"id":"k","ttl":600,"extend":true,"replace":true}`, object{"options": object{"job_id": "c"}}), custom)
			d.is("not evicted", owner, "scheduled")
			d.holdsUntil("default", "k", time.Minute)
		},
		"a new job_id is suppressed by deduplication, and not taken by it": func(t *testing.T, d *desk) {
			owner := d.created(keyed(t, `{"id":"k"}`))
			d.suppressed(keyed(t, `{"id":"k"}`, object{"options": object{"job_id": "c"}}), owner, "simple")
			d.created(`{"type":"a.b","args":[],"options":{"job_id":"c"}}`)
		},
		"a repeated id of the envelope is another thing": func(t *testing.T, d *desk) {
			const id = "019c5166-8840-7000-8000-000000000001"
			body := `{"type":"a.b","args":[],"id":"` + id + `"}`
			j := d.created(body)
			d.idle(j, func() {
				if e := d.ask(409, "POST", "/ojs/v1/jobs", body)["error"].(object); e["code"] != "duplicate" || e["details"].(object)["existing_job_id"] != id {
					t.Errorf("%v", e)
				}
			})
		},
		"what the producer chose as id is named as what it would have been": func(t *testing.T, d *desk) {
			j := d.created(keyed(t, `{"id":"k"}`))
			d.suppressed(keyed(t, `{"id":"k"}`, object{"id": "019c5166-8840-7000-8000-000000000002"}), j, "simple")
		},
		"Inspect the current owner": func(t *testing.T, d *desk) {
			for i, tt := range []struct{ options, mode string }{
				{`{"id":"%s"}`, "simple"}, {`{"id":"%s","ttl":10}`, "throttle"}, {`{"id":"%s","ttl":10,"extend":true}`, "throttle"}, {`{"id":"%s","extend":true}`, "simple"},
				{`{"id":"%s","replace":true}`, "replace"}, {`{"id":"%s","ttl":10,"replace":true}`, "replace"},
				{`{"id":"%s","replace":true},"delay":60`, "debounce"}, {`{"id":"%s","ttl":10,"replace":true},"delay":60`, "debounce"}, {`{"id":"%s"},"delay":60`, "simple"},
				{`{"id":"%s","ttl_ms":10000}`, "throttle"},
			} {
				id := fmt.Sprintf("a:b/c d%%é?%d", i)
				j := d.created(fmt.Sprintf(`{"type":"a.b","args":[],"queue":"q","deduplication":`+tt.options+`}`, id))
				want := object{"queue": "q", "deduplication_id": id, "job_id": j["id"], "mode": tt.mode}
				if strings.Contains(tt.options, "ttl") {
					want["expires_at"] = "2026-02-12T10:30:10.000Z"
				}
				got, alias := d.owner("q", id), d.ask(200, "GET", strings.Replace(key("q", id), "deduplication", "debounce", 1), "")
				delete(got, "job") // which may be shown as well
				delete(alias, "job")
				if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(alias, with(want, object{"debounce_id": id})) {
					t.Errorf("%s: got %v and %v, want %v", tt.options, got, alias, want)
				}
				d.free("other", id)
				d.free("q", id+"x")
			}
		},
		"Release a key without deleting the job": func(t *testing.T, d *desk) {
			for i, path := range []string{"deduplication", "debounce"} {
				id := fmt.Sprint("customer:", i)
				at := strings.Replace(key("default", id), "deduplication", path, 1)
				body := keyed(t, `{"id":"`+id+`","ttl":3600,"replace":true}`, object{"delay": 60 * (i + 1)})
				j := d.created(body)
				if got := d.ask(200, "DELETE", at, ""); got["released"] != true {
					t.Errorf("%v", got)
				}
				if got := d.ask(200, "DELETE", at, ""); got["released"] != false {
					t.Errorf("%v", got)
				}
				d.free("default", id)
				after := d.info(j["id"])
				if after["deduplication"] != nil {
					t.Errorf("its payload still has %v", after["deduplication"])
				}
				if delete(j, "deduplication"); !reflect.DeepEqual(after, j) {
					t.Errorf("the job was %v\nand is %v", j, after)
				}
				fresh := d.created(body)
				d.is("not evicted", j, "scheduled")
				d.pass(time.Minute * time.Duration(i+1))
				d.ack(d.take(j)) // it still runs
				d.ack(d.take(fresh))
			}
			if got := d.ask(200, "DELETE", key("nowhere", "k"), ""); got["released"] != false {
				t.Errorf("%v", got)
			}
		},
		"of several holders the newest owns": func(t *testing.T, d *desk) {
			body := keyed(t, `{"id":"k"}`)
			dead := d.created(body)
			d.nack(d.take(dead), object{"code": "DEAD_LETTER", "message": "no"})
			d.pass(time.Second)
			fresh := d.created(body)
			d.ask(200, "POST", "/ojs/v1/dead-letter/"+dead["id"].(string)+"/retry", "")
			d.suppressed(body, fresh, "simple")
			d.ack(d.take(fresh))
			d.suppressed(body, dead, "simple")
			d.ask(200, "DELETE", key("default", "k"), "")
			d.created(body)
			d.is("released", dead, "available")
		},
		"release frees a key that several hold": func(t *testing.T, d *desk) {
			body := keyed(t, `{"id":"k"}`)
			dead := d.created(body)
			d.nack(d.take(dead), object{"code": "DEAD_LETTER", "message": "no"})
			d.created(body)
			d.ask(200, "POST", "/ojs/v1/dead-letter/"+dead["id"].(string)+"/retry", "")
			d.ask(200, "DELETE", key("default", "k"), "")
			d.created(body) // "so future producer calls can enqueue a fresh copy"
		},
		"the older debounce alias": func(t *testing.T, d *desk) {
			j := d.created(`{"type":"a.b","args":[],"debounce":{"id":"k","ttl":10}}`)
			d.suppressed(keyed(t, `{"id":"k"}`), j, "throttle")
			d.suppressed(`{"type":"a.b","args":[],"options":{"debounce":{"id":"k"}}}`, j, "throttle")
			d.holdsUntil("default", "k", 10*time.Second)
			both := d.created(`{"type":"a.b","args":[],"debounce":{"id":"old","ttl":1},"deduplication":{"id":"new","ttl":20}}`)
			d.free("default", "old")
			d.holdsUntil("default", "new", 20*time.Second)
			d.suppressed(`{"type":"a.b","args":[],"options":{"debounce":{"id":"other"},"deduplication":{"id":"new"}}}`, both, "throttle")
		},
		"deduplication comes before unique": func(t *testing.T, d *desk) {
			d.created(write(t, unique("a.b", object{})))
			owner := d.created(keyed(t, `{"id":"k"}`, object{"type": "c.d"}))
			d.suppressed(keyed(t, `{"id":"k"}`, object{"unique": object{}}), owner, "simple")
		},
		"what unique refuses takes no key and evicts nobody": func(t *testing.T, d *desk) {
			twin := d.created(write(t, unique("a.b", object{})))
			owner := d.created(keyed(t, `{"id":"k","replace":true}`, object{"type": "c.d", "delay": 60}))
			d.idle(owner, func() {
				d.refused(keyed(t, `{"id":"k","replace":true}`, object{"delay": 60, "unique": object{}}), twin)
			})
			d.refused(keyed(t, `{"id":"free"}`, object{"unique": object{}}), twin)
			d.free("default", "free")
		},
		"who is evicted is no twin any more": func(t *testing.T, d *desk) {
			body := keyed(t, `{"id":"k","replace":true}`, object{"delay": 60, "unique": object{}})
			d.evicts(body, d.created(body))
		},
		"bulk producers go by the same rules": func(t *testing.T, d *desk) {
			element := func(text string) any { return decode(t, `{"type":"a.b","args":[],`+text+`}`) }
			simple, custom := element(`"deduplication":{"id":"s"}`), element(`"options":{"job_id":"c"}`)
			delayed := element(`"delay":60,"deduplication":{"id":"d","replace":true}`)
			got := d.ask(201, "POST", "/ojs/v1/jobs/batch", write(t, object{"jobs": []any{simple, custom, delayed, simple, custom, delayed, element(`"tags":[]`)}}))
			jobs := got["jobs"].([]any)
			if len(jobs) != 7 || write(t, got["count"]) != "7" {
				t.Fatalf("%v", got)
			}
			at := func(i int) object { return jobs[i].(object) }
			for i, first := range map[int]int{0: 0, 1: 1, 2: 2, 3: 0, 4: 1, 5: 5, 6: 6} {
				if at(i)["id"] != at(first)["id"] || (at(i)["deduplicated"] == true) != (i != first) {
					t.Errorf("element %d is %v", i, at(i))
				}
			}
			if total, _ := d.census(); total != 5 {
				t.Errorf("there are %d jobs", total)
			}
			if at(4)["duplicate_job_id"] != true {
				t.Errorf("%v", at(4))
			}
			d.is("evicted in its batch", at(2), "cancelled")
			d.is("the owner", at(5), "scheduled")
			d.suppressed(write(t, simple), at(0), "simple")
			d.duplicated(write(t, custom), at(1))
			d.evicts(write(t, delayed), at(5))
		},
		"events name trace and tenant of their job, as all events of jobs do": func(t *testing.T, d *desk) {
			owner := d.created(keyed(t, `{"id":"k"}`, object{"meta": object{"trace_id": "t1", "tenant_id": "acme"}, "options": object{"job_id": "c"}}))
			d.offer(keyed(t, `{"id":"k"}`))
			d.offer(`{"type":"a.b","args":[],"options":{"job_id":"c"}}`)
			for _, name := range []string{"enqueued", "debounced", "deduplicated", "duplicated"} { // contract §4.18
				data := d.log("types=job." + name)[0]["data"].(object)
				if data["job_id"] != owner["id"] || data["trace_id"] != "t1" || data["tenant_id"] != "acme" {
					t.Errorf("%s: %v", name, data)
				}
			}
		},
		"event filters accept both spellings": func(t *testing.T, d *desk) {
			j := d.created(keyed(t, `{"id":"k"}`, object{"options": object{"job_id": "c"}}))
			d.suppressed(keyed(t, `{"id":"k"}`), j, "simple")
			d.duplicated(`{"type":"a.b","args":[],"options":{"job_id":"c"}}`, j)
			for _, name := range []string{"debounced", "deduplicated", "duplicated"} {
				for _, filter := range []string{"types=job." + name, "types=job:" + name, "type=job:" + name, "types=" + url.QueryEscape("job:"+name) + "&job_id=" + j["id"].(string)} {
					if es := d.log(filter); len(es) != 1 || es[0]["type"] != "job."+name || es[0]["alias_type"] != "job:"+name {
						t.Errorf("%s: %v", filter, es)
					}
				}
			}
			if es := d.log("types=job:duplicated,job.debounced"); len(es) != 2 {
				t.Errorf("%v", es)
			}
			if es := d.log("types=job.enqueued"); len(es) != 1 || es[0]["alias_type"] != nil {
				t.Errorf("%v", es)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atDesk(t, func(d *desk) { test(d.t, d) })
		})
	}
}

// duplicated pushes a job whose custom id is taken (contract §4.11).
func (d *desk) duplicated(body string, old object) {
	d.t.Helper()
	before := d.info(old["id"])
	jobs, seen := d.census()
	r := d.offer(body)
	if r.status != 200 || r.body["deduplicated"] != true || r.body["duplicate_job_id"] != true || r.body["id"] != old["id"] || r.job()["id"] != old["id"] || r.job()["state"] != before["state"] {
		d.t.Fatalf("%s\ngot %+v; want %v again", body, r, old["id"])
	}
	if now, _ := d.census(); now != jobs {
		d.t.Errorf("%s\nthere are %d jobs now, %d before", body, now, jobs)
	}
	if after := d.info(old["id"]); !reflect.DeepEqual(before, after) {
		d.t.Errorf("the job was %v\nand is %v", before, after)
	}
	told := d.log("")[seen:]
	facts := object{"job_id": old["id"], "job_type": old["type"], "queue": old["queue"]}
	if len(told) != 1 || told[0]["type"] != "job.duplicated" || told[0]["alias_type"] != "job:duplicated" || !reflect.DeepEqual(told[0]["data"], any(facts)) {
		d.t.Errorf("%s\ntold %v", body, told)
	}
}

// contract §2.6: what are no options is refused with the name of the field, and leaves nothing.
func TestDedupOptionsByRule(t *testing.T) {
	t.Parallel()
	atDesk(t, func(d *desk) {
		for _, tt := range []struct{ field, options string }{
			{"id", `{}`}, {"id", `{"id":""}`}, {"id", `{"id":7}`}, {"id", `{"id":null}`}, {"id", `{"ttl":10}`}, {"id", `{"ID":"k"}`},
			{"ttl", `{"id":"k","ttl":0}`}, {"ttl", `{"id":"k","ttl":-1}`}, {"ttl", `{"id":"k","ttl":"10"}`}, {"ttl", `{"id":"k","ttl":true}`}, {"ttl", `{"id":"k","ttl":1e400}`},
			{"ttl_ms", `{"id":"k","ttl_ms":0}`}, {"ttl_ms", `{"id":"k","ttl_ms":"10"}`},
			{"extend", `{"id":"k","extend":1}`}, {"extend", `{"id":"k","extend":"true"}`}, {"replace", `{"id":"k","replace":"yes"}`}, {"replace", `{"id":"k","replace":0}`},
		} {
			for _, body := range []string{`{"type":"a.b","args":[],"deduplication":%s}`, `{"type":"a.b","args":[],"options":{"debounce":%s}}`} {
				d.invalid(fmt.Sprintf(body, tt.options), tt.field)
			}
		}
		for _, value := range []string{`7`, `"k"`, `[]`, `true`} {
			d.invalid(`{"type":"a.b","args":[],"deduplication":`+value+`}`, "deduplication")
		}
		for _, value := range []string{`""`, `7`, `{}`, long(256)} {
			d.invalid(`{"type":"a.b","args":[],"options":{"job_id":`+value+`}}`, "job_id")
		}
		body := `{"type":"a.b","args":[],"options":{"job_id":` + long(255) + `}}`
		d.duplicated(body, d.created(body))

		half := keyed(t, `{"id":"half","ttl":0.5}`)
		j := d.created(half)
		d.pass(499 * time.Millisecond)
		d.suppressed(half, j, "throttle")
		d.pass(time.Millisecond)
		d.created(half)
	})
}

// contract §4.11: "until the job is removed", here by its retention.
func TestDedupCustomIDUntilPruned(t *testing.T) {
	t.Parallel()
	atDeskOf(t, sidecar.Options{Retention: briefly}, func(d *desk, _ func(time.Duration)) {
		ended := slices.DeleteFunc(slices.Clone(states), func(s string) bool { return !final(s) })
		jobs := map[string]object{}
		for _, state := range ended {
			o := object{"type": "in." + state, "queue": state, "args": []any{}, "options": object{"job_id": "c"}}
			jobs[write(t, o)] = d.bring(o, state)
		}
		d.pass(2*time.Hour - time.Millisecond)
		for body, j := range maps.All(jobs) {
			d.duplicated(body, j)
		}
		d.pass(2 * time.Hour)
		for body, j := range jobs {
			d.ask(404, "GET", "/ojs/v1/jobs/"+j["id"].(string), "")
			d.created(body)
		}
	})
}

// asyncmq-deduplication.md: "TTL-backed modes stay active until the TTL expires,
// even if the job already completed": its retention does not prune an owner whose
// window is open.
func TestDedupWindowAndRetention(t *testing.T) {
	t.Parallel()
	atDeskOf(t, sidecar.Options{Retention: sidecar.Retention{Completed: 2 * time.Hour}}, func(d *desk, _ func(time.Duration)) {
		short, long := keyed(t, `{"id":"short","ttl":3600}`), keyed(t, `{"id":"long","ttl":14400}`)
		brief, owner := d.created(short), d.created(long)
		d.ack(d.take(brief))
		d.ack(d.take(owner))
		d.pass(time.Hour)
		d.created(short) // though the owner is still there
		d.is("after its window", brief, "completed")
		d.pass(time.Hour - time.Millisecond)
		d.suppressed(long, owner, "throttle")
		d.pass(90 * time.Minute)
		d.suppressed(long, owner, "throttle") // though its retention is over
		d.pass(30*time.Minute - time.Millisecond)
		d.suppressed(long, owner, "throttle")
		d.pass(2 * time.Millisecond)
		d.created(long)
	})
}
