package sidecar_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// What can come of a PUSH with a unique policy or with deduplication options
// (ojs-unique-jobs.md §5, contract §4.10 and §4.11). Each method sends one and
// checks all that the outcome means: the answer, the jobs, and the events.

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

// is reports whether a reply has a status, and old as its job.
func (r reply) is(status int, old object) bool {
	return r.status == status && r.body["id"] == old["id"] && r.job()["id"] == old["id"] && r.location == "/ojs/v1/jobs/"+old["id"].(string)
}

// isNew reports whether a reply has a job that none of others is.
func (r reply) isNew(others ...object) bool {
	j := r.job()
	return r.status == 201 && j["id"] != nil && r.is(201, j) && !slices.ContainsFunc(others, func(o object) bool { return o["id"] == j["id"] })
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

// adds does what must add so many jobs, and returns the events that it told. Old
// events may be pruned meanwhile.
func (d *desk) adds(n int, do func()) []object {
	d.t.Helper()
	jobs, last := d.census(), ""
	if es := d.log(""); len(es) > 0 {
		last = es[len(es)-1]["id"].(string)
	}
	do()
	if now := d.census(); now != jobs+n {
		d.t.Errorf("there are %d jobs now, %d before; want %d more", now, jobs, n)
	}
	return slices.DeleteFunc(d.log(""), func(e object) bool { return e["id"].(string) <= last })
}

// idle does what must change neither old nor the number of jobs, and tell no event.
func (d *desk) idle(old object, do func()) {
	d.t.Helper()
	if told := d.adds(0, func() { d.unchanged(old, do) }); len(told) != 0 {
		d.t.Errorf("told %v", told)
	}
}

// unchanged does what must not change a job.
func (d *desk) unchanged(old object, do func()) {
	d.t.Helper()
	before := d.info(old["id"])
	do()
	if after := d.info(old["id"]); !reflect.DeepEqual(before, after) {
		d.t.Errorf("the job was %v\nand is %v", before, after)
	}
}

// created pushes a job that must be new, and returns it.
func (d *desk) created(body string) (j object) {
	d.t.Helper()
	d.adds(1, func() {
		r := d.offer(body)
		if !r.isNew() || r.body["deduplicated"] == true {
			d.t.Fatalf("%s\ngot %+v; want a new job", body, r)
		}
		j = r.job()
	})
	return d.info(j["id"])
}

var hex64 = regexp.MustCompile(`^[0-9a-f]{64}$`)

// refused pushes a job that must be rejected because of old, and leave no trace
// (ojs-unique-jobs.md §5.1). It returns the uniqueness key.
func (d *desk) refused(body string, old object) (key string) {
	d.t.Helper()
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

// ignored pushes a job in whose place old must answer, and leave no trace
// (ojs-unique-jobs.md §5.4).
func (d *desk) ignored(body string, old object) {
	d.t.Helper()
	d.idle(old, func() {
		r := d.offer(body)
		if !r.is(200, old) || r.body["deduplicated"] != true {
			d.t.Fatalf("%s\ngot %+v; want %v again", body, r, old["id"])
		}
		if j, want := r.job(), d.info(old["id"]); j["type"] != want["type"] || j["state"] != want["state"] {
			d.t.Errorf("%s\ngot %v, want %v", body, j, want)
		}
	})
}

// replaces pushes a job that must cancel old, and what is older, and be new itself
// (ojs-unique-jobs.md §5.2), with the events of the cancellations before its own.
func (d *desk) replaces(body string, old object, older ...object) (j object) {
	d.t.Helper()
	was := d.info(old["id"])["state"]
	var all any
	told := d.adds(1, func() {
		r := d.offer(body)
		if !r.isNew(old) || r.body["replaced_job_id"] != old["id"] {
			d.t.Fatalf("%s\ngot %+v; want a new job in place of %v", body, r, old["id"])
		}
		j, all = r.job(), r.body["replaced_job_ids"]
	})
	d.gone(old)
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
	if len(older) == 0 && all != nil || len(older) > 0 && write(d.t, all) != write(d.t, ids) {
		d.t.Errorf("replaced_job_ids are %v, want %v", all, ids)
	}
	if data := told[0]["data"].(object); data["reason"] != "replaced" || data["previous_state"] != was {
		d.t.Errorf("job.cancelled of a %v job: %v", was, data)
	}
	return d.info(j["id"])
}

// gone makes sure that a job has been cancelled in favour of another one.
func (d *desk) gone(j object) {
	d.t.Helper()
	if now := d.info(j["id"]); now["state"] != "cancelled" || now["cancelled_at"] == nil || now["completed_at"] != nil {
		d.t.Errorf("the job that gave way: %v", now)
	}
}

// rewrites pushes a job that must only change args and meta of a scheduled one
// (ojs-unique-jobs.md §5.3, contract §4.10).
func (d *desk) rewrites(body string, old object) {
	d.t.Helper()
	sent := decode(d.t, body)
	if sent["meta"] == nil {
		sent["meta"] = object{}
	}
	d.adds(0, func() {
		r := d.offer(body)
		if !r.is(200, old) || r.body["deduplicated"] != true || r.body["replaced"] != true {
			d.t.Fatalf("%s\ngot %+v; want %v rewritten", body, r, old["id"])
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
	})
}

// invalid pushes a job that must be refused, naming a field, and leave no trace.
func (d *desk) invalid(body, field string) {
	d.t.Helper()
	told := d.adds(0, func() {
		r := d.offer(body)
		e, _ := r.body["error"].(object)
		if r.status != 400 || e["code"] != "invalid_request" || e["type"] != "validation_error" || e["retryable"] != false || !strings.Contains(fmt.Sprint(e["message"]), field) {
			d.t.Errorf("%s\ngot %+v; want 400 invalid_request that names %s", body, r, field)
		}
	})
	if len(told) != 0 {
		d.t.Errorf("%s: told %v", body, told)
	}
}

// invalidBatch is invalid for a job behind one that is right, which is not stored either.
func (d *desk) invalidBatch(body, field string) {
	d.t.Helper()
	told := d.adds(0, func() {
		e := d.ask(400, "POST", "/ojs/v1/jobs/batch", `{"jobs":[{"type":"fine","args":[]},`+body+`]}`)["error"].(object)
		details, _ := e["details"].(object)
		if e["code"] != "invalid_request" || write(d.t, details["index"]) != "1" || !strings.Contains(fmt.Sprint(e["message"]), field) {
			d.t.Errorf("%s\ngot %v; want an error about %s at 1", body, e, field)
		}
	})
	if len(told) != 0 {
		d.t.Errorf("%s: told %v", body, told)
	}
}

var uuid7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// suppressed pushes a job in whose place the owner of its key must answer. The
// only trace are the two events, and what the producer would have had is named.
func (d *desk) suppressed(body string, owner object, mode string) {
	d.t.Helper()
	var key object
	told := d.adds(0, func() {
		d.unchanged(owner, func() {
			r := d.offer(body)
			if !r.is(200, owner) || r.body["deduplicated"] != true || r.body["duplicate_job_id"] == true || r.job()["state"] != d.info(owner["id"])["state"] {
				d.t.Fatalf("%s\ngot %+v; want %v again", body, r, owner["id"])
			}
			key, _ = r.body["deduplication"].(object)
			if want := (object{"id": key["id"], "mode": mode, "job_id": owner["id"]}); key["id"] == nil || !reflect.DeepEqual(key, want) {
				d.t.Errorf("%s\nanswers with %v, want %v", body, key, want)
			}
		})
	})
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

// decided compares the two events of a decision (contract §4.11): about whom, under which key, and who lost.
func (d *desk) decided(told []object, about object, key, lost any) {
	d.t.Helper()
	facts := eventData(about)
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

// eventData are what the data of an event say of its job: trace and tenant, too (contract §4.18).
func eventData(j object) object {
	all := object{"job_id": j["id"], "job_type": j["type"], "queue": j["queue"]}
	meta, _ := j["meta"].(object)
	for _, name := range []string{"trace_id", "tenant_id"} {
		if meta[name] != nil {
			all[name] = meta[name]
		}
	}
	return all
}

// evicts pushes a job that must take the place of the owner of its key.
func (d *desk) evicts(body string, owner object) (j object) {
	d.t.Helper()
	told := d.adds(1, func() {
		r := d.offer(body)
		if !r.isNew(owner) {
			d.t.Fatalf("%s\ngot %+v; want a new job", body, r)
		}
		j = r.job()
	})
	d.gone(owner)
	var decisions, others []object
	for _, e := range told {
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
	if got := d.ask(200, "GET", key("deduplication", j["queue"], options["id"]), ""); got["job_id"] != j["id"] {
		d.t.Errorf("the owner is %v, want %v", got, j["id"])
	}
	return d.info(j["id"])
}

// duplicated pushes a job whose custom id is taken (contract §4.11).
func (d *desk) duplicated(body string, old object) {
	d.t.Helper()
	told := d.adds(0, func() {
		d.unchanged(old, func() {
			r := d.offer(body)
			if !r.is(200, old) || r.body["deduplicated"] != true || r.body["duplicate_job_id"] != true || r.job()["state"] != d.info(old["id"])["state"] {
				d.t.Fatalf("%s\ngot %+v; want %v again", body, r, old["id"])
			}
		})
	})
	if len(told) != 1 || told[0]["type"] != "job.duplicated" || told[0]["alias_type"] != "job:duplicated" || !reflect.DeepEqual(told[0]["data"], any(eventData(old))) {
		d.t.Errorf("%s\ntold %v", body, told)
	}
}

// key is where a key of a queue can be asked for, and released; kind is
// deduplication, or debounce as it was called before.
func key(kind string, queue, id any) string {
	return fmt.Sprintf("/ojs/v1/queues/%s/%s/%s", queue, kind, url.PathEscape(id.(string)))
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

// census counts the jobs.
func (d *desk) census() int {
	d.t.Helper()
	return d.total("/ojs/v1/jobs?limit=1")
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

// states are all states of a job.
var states = []string{"scheduled", "available", "pending", "active", "completed", "retryable", "cancelled", "discarded"}

// bring pushes a job, which must be new, and moves it to a state. Waiting takes a day.
func (d *desk) bring(o object, state string) object {
	d.t.Helper()
	o = with(o, object{"retry": object{"initial_interval": "PT24H", "max_interval": "PT24H", "jitter": false}})
	switch state {
	case "scheduled":
		o["delay"] = 24 * 60 * 60
	case "pending":
		o["pending"] = true
	}
	j := d.created(write(d.t, o))
	d.move(j, state)
	return d.info(j["id"])
}

// move brings a job to a state, where it may be already.
func (d *desk) move(j object, state string) {
	d.t.Helper()
	if now := d.info(j["id"])["state"]; now == "available" && !slices.Contains([]string{"available", "cancelled"}, state) {
		d.claim(j, "w")
	}
	switch state {
	case "completed":
		d.ack(j)
	case "retryable":
		d.nack(j, object{"type": "E", "message": "no"})
	case "discarded":
		d.nack(j, object{"code": "DEAD_LETTER", "message": "no"})
	case "cancelled":
		d.cancel(j)
	}
	d.is("moved", j, state)
}

// with is a copy of an object and more members.
func with(o object, more object) object {
	o = maps.Clone(o)
	maps.Copy(o, more)
	return o
}
