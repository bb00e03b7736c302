package sidecar_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// Clauses of ojs-core.md that hold for every answer and every verb, over HTTP.

// shown follows a job through its life and gives each answer that shows it,
// whole or with a part left out, to look.
func (d *desk) shown(body string, look func(where string, j object)) {
	d.t.Helper()
	post := func(path string, more object) object {
		d.t.Helper()
		return d.ask(200, "POST", path, write(d.t, more))
	}
	j := d.push(body)
	id := j["id"].(string)
	everywhere := func(when string) {
		d.t.Helper()
		look(when+", INFO", d.info(id))
		for _, o := range d.ask(200, "GET", "/ojs/v1/jobs", "")["jobs"].([]any) {
			look(when+", the list", o.(object))
		}
	}
	look("PUSH", j)
	everywhere("pushed")
	if j["state"] == "pending" {
		look("ACTIVATE", post("/ojs/v1/jobs/"+id+"/activate", object{})["job"].(object))
	}
	look("FETCH", d.take(j))
	everywhere("fetched")
	look("FAIL", post("/ojs/v1/workers/nack", object{"job_id": id, "error": object{"type": "net.x", "message": "no"}})["job"].(object))
	everywhere("failed")
	look("FETCH again", d.take(j))
	look("FAIL for good", post("/ojs/v1/workers/nack", object{"job_id": id, "error": object{"type": "net.x", "code": "DEAD_LETTER", "message": "no"}})["job"].(object))
	everywhere("dead")
	for _, o := range d.ask(200, "GET", "/ojs/v1/dead-letter", "")["jobs"].([]any) {
		look("the dead letters", o.(object))
	}
	look("a dead letter", d.ask(200, "GET", "/ojs/v1/dead-letter/"+id, "")["job"].(object))
	look("RETRY by hand", post("/ojs/v1/dead-letter/"+id+"/retry", object{})["job"].(object))
	look("FETCH in its second life", d.take(j))
	look("ACK", post("/ojs/v1/workers/ack", object{"job_id": id, "result": object{}})["job"].(object))
	everywhere("completed")
}

// cancelled is shown for a job that is cancelled instead, and one of a batch.
func (d *desk) cancelled(body string, look func(where string, j object)) {
	d.t.Helper()
	for _, o := range d.ask(201, "POST", "/ojs/v1/jobs/batch", `{"jobs":[`+body+`]}`)["jobs"].([]any) {
		look("BATCH", o.(object))
		look("CANCEL", d.ask(200, "DELETE", "/ojs/v1/jobs/"+o.(object)["id"].(string), "")["job"].(object))
	}
}

// ojs-core.md §5, §5.4, §7.1(5), §7.1(9), §7.2(6), §7.7(1): what is required, what has a
// default and what the server sets is on every envelope, with its type, whoever shows it.
func TestEveryEnvelopeIsComplete(t *testing.T) {
	t.Parallel()
	atDesk(t, func(d *desk) {
		states := []any{"scheduled", "available", "pending", "active", "completed", "retryable", "cancelled", "discarded"}
		seen := map[any]bool{}
		look := func(where string, j object) {
			t.Helper()
			seen[j["state"]] = true
			_, args := j["args"].([]any)
			_, meta := j["meta"].(object)
			id, _ := j["id"].(string)
			if j["specversion"] != "1.0.0-rc.1" || len(id) != 36 || id[14] != '7' || j["type"] != "a.b" || j["queue"] != "default" || !args || !meta ||
				write(t, j["priority"]) != "0" || !slices.Contains(states, j["state"]) {
				t.Errorf("%s: %s", where, write(t, j))
			}
			for name, states := range map[string]string{"created_at": "scheduled available pending active completed retryable cancelled discarded",
				"started_at": "active completed", "completed_at": "completed discarded", "error": "retryable discarded", "cancelled_at": "cancelled",
				"discarded_at": "discarded", "errors": "retryable discarded", "next_retry_at": "retryable"} {
				if _, given := j[name]; !given && strings.Contains(states, j["state"].(string)) {
					t.Errorf("%s: a job that is %v has no %s: %s", where, j["state"], name, write(t, j))
				}
			}
			if n, err := j["attempt"].(json.Number).Int64(); err != nil || n < 0 || n == 0 && j["state"] == "active" {
				t.Errorf("%s: attempt %v", where, j["attempt"])
			}
		}
		for n, more := range []string{``, `,"options":{"delay":60}`, `,"pending":true`} {
			body := fmt.Sprintf(`{"id":"0197f6a0-0000-7000-8000-%012d","type":"a.b","args":[]%s}`, n, more)
			d.shown(body, look)
			d.cancelled(`{"type":"a.b","args":[]`+more+`}`, look)
		}
		if len(seen) != 8 {
			t.Errorf("only %v were seen", seen)
		}
	})
}

// ojs-core.md §7.1: without a required attribute that has no default there is no
// job, alone and in a batch; what has a default takes it.
func TestRequiredAttributes(t *testing.T) {
	t.Parallel()
	s, server := realServer(t)
	whole := []string{`"specversion":"1.0.0-rc.1"`, `"id":"0197f6a0-0000-7000-8000-000000000001"`, `"type":"a.b"`, `"queue":"mail"`, `"args":[]`}
	names := []string{"specversion", "id", "type", "queue", "args"}
	refused := 0
	for set := range 1 << len(whole) {
		for _, null := range []bool{false, true} {
			var members, missing []string
			for i, m := range whole {
				switch {
				case set&(1<<i) == 0:
					members = append(members, m)
					continue
				case null:
					members = append(members, `"`+names[i]+`":null`)
				}
				missing = append(missing, names[i])
			}
			if !slices.Contains(missing, "type") && !slices.Contains(missing, "args") {
				continue
			}
			body := `{` + strings.Join(members, ",") + `}`
			for path, sent := range map[string]string{"/ojs/v1/jobs": body, "/ojs/v1/jobs/batch": `{"jobs":[{"type":"a.b","args":[]},` + body + `]}`} {
				status, answer := send(t, server, path, sent)
				e, _ := answer["error"].(object)
				details, _ := e["details"].(object)
				field, _ := details["field"].(string)
				if status != 400 || e["code"] != "invalid_request" || !slices.Contains(missing, field) || !strings.Contains(e["message"].(string), field) {
					t.Errorf("%s %s: %d %v", path, sent, status, answer)
				}
				refused++
			}
		}
	}
	if refused != 24*2*2 {
		t.Errorf("%d envelopes were tried", refused)
	}
	leavesNothing(t, s)
	for _, left := range []string{`"specversion"`, `"id"`, `"queue"`} {
		var members []string
		for _, m := range whole {
			if !strings.HasPrefix(m, left) && !strings.HasPrefix(m, `"id"`) {
				members = append(members, m)
			}
		}
		status, answer := send(t, server, "/ojs/v1/jobs", `{`+strings.Join(members, ",")+`}`)
		j, _ := answer["job"].(object)
		if status != 201 || j["specversion"] != "1.0.0-rc.1" || j["id"] == nil || left == `"queue"` && j["queue"] != "default" {
			t.Errorf("without %s: %d %v", left, status, answer)
		}
	}
}

// ojs-core.md §7.4(1), §8: a FAIL without a structured error is refused, and the
// attempt goes on as if nothing had been said; then a right one is heard.
func TestFailNeedsAnError(t *testing.T) {
	t.Parallel()
	atDesk(t, func(d *desk) {
		for _, right := range []string{`{"type":"net.x","message":"no"}`, `{"type":"net.x","message":"no","backtrace":["a:1"]}`, `{"code":"handler_error","message":"no"}`} {
			j := d.push(`{"type":"a.b","args":[]}`)
			taken := d.take(j)
			before, events := d.info(j["id"]), d.history(j)
			for _, claim := range []object{{"job_id": j["id"]}, {"job_id": j["id"], "lease_token": taken["lease_token"]}} {
				for _, wrong := range []string{``, `null`, `"no"`, `7`, `true`, `[]`, `[{"type":"net.x","message":"no"}]`, `{}`, `{"details":{}}`, `{"backtrace":["a:1"]}`,
					`{"type":null,"message":null}`, `{"type":7,"message":"no"}`, `{"type":"net.x","message":{}}`, `{"type":["net.x"],"message":"no"}`,
					`{"type":"net.x","message":"no","backtrace":7}`, `{"type":"net.x","message":"no","backtrace":[7]}`} {
					body := strings.TrimSuffix(write(t, claim), "}")
					if wrong != "" {
						body += `,"error":` + wrong
					}
					e := d.ask(400, "POST", "/ojs/v1/workers/nack", body+`}`)["error"].(object)
					details, _ := e["details"].(object)
					if field, _ := details["field"].(string); !strings.HasPrefix(field, "error") || !strings.Contains(e["message"].(string), "error") {
						t.Errorf("%q: %v", wrong, e)
					}
				}
			}
			if after := d.info(j["id"]); !reflect.DeepEqual(after, before) || !reflect.DeepEqual(d.history(j), events) {
				t.Errorf("the job was %v, is %v", before, after)
			}
			if got := d.nack(taken, decode(t, right)); got["state"] != "retryable" {
				t.Errorf("%s: %v", right, got)
			}
			d.ask(200, "DELETE", "/ojs/v1/jobs/"+j["id"].(string), "")
		}
	})
}

// history is what is told of a job.
func (d *desk) history(j object) any {
	d.t.Helper()
	return d.ask(200, "GET", "/ojs/v1/jobs/"+j["id"].(string)+"/history", "")["events"]
}

// ojs-core.md §5.3 error, §8.3(2), §8.3(3): the newest error is on the job, as it came,
// wherever the job is shown, through every state until the job succeeds; and
// those before are in errors.
func TestErrorsAreStored(t *testing.T) {
	t.Parallel()
	atDesk(t, func(d *desk) {
		first := object{"type": "net.Refused", "message": "nobody\nlistens \u00e9", "backtrace": []any{"a.go:1", "", "b.go:2"}}
		second := object{"type": "disk.full", "message": "full", "code": "x_full", "details": object{"left": json.Number("1.10"), "deep": []any{object{}}}}
		last := object{"type": "disk.gone", "message": "gone", "code": "DEAD_LETTER"}
		j := d.push(`{"type":"a.b","args":[]}`)
		shows := func(when string, want ...object) {
			t.Helper()
			list := d.ask(200, "GET", "/ojs/v1/jobs", "")["jobs"].([]any)
			for _, got := range []object{d.info(j["id"]), list[0].(object)} {
				d.errorIs(when, got["error"], want[len(want)-1])
				errs, _ := got["errors"].([]any)
				if len(errs) != len(want) {
					t.Fatalf("%s: errors %v, want %d", when, errs, len(want))
				}
				for i, e := range errs {
					d.errorIs(fmt.Sprintf("%s, entry %d", when, i), e, want[i])
				}
			}
		}
		d.nack(d.take(j), first)
		shows("retryable", first)
		d.pass(time.Second)
		shows("available again", first)
		taken := d.take(j)
		d.errorIs("fetched", taken["error"], first)
		shows("active again", first)
		d.nack(taken, second)
		shows("retryable again", first, second)
		d.nack(d.take(j), last)
		shows("dead", first, second, last)
		d.ask(200, "POST", "/ojs/v1/dead-letter/"+j["id"].(string)+"/retry", "")
		if now := d.info(j["id"]); now["error"] != nil || now["errors"] != nil {
			t.Errorf("after a retry by hand: %v", now)
		}
		d.nack(d.take(j), first)
		done := d.ask(200, "POST", "/ojs/v1/workers/ack", write(t, object{"job_id": d.take(j)["id"]}))["job"].(object)
		for _, now := range []object{done, d.info(j["id"])} {
			if _, given := now["error"]; given || len(now["errors"].([]any)) != 1 {
				t.Errorf("after its success: %v", now)
			}
		}
	})
}

// errorIs makes sure that an error has all that was sent.
func (d *desk) errorIs(when string, got any, want object) {
	d.t.Helper()
	e, _ := got.(object)
	for name, value := range want {
		if !reflect.DeepEqual(e[name], value) {
			d.t.Errorf("%s: %s is %v, want %v", when, name, e[name], value)
		}
	}
}

// ojs-core.md §5.5(4): attributes that nobody knows are kept, whatever their names and
// values, wherever the job is shown, and are no reason to refuse.
func TestUnknownAttributesAreKept(t *testing.T) {
	t.Parallel()
	atDesk(t, func(d *desk) {
		unknown := object{
			"x_own": object{"a": []any{json.Number("1.10"), nil}}, "trace": "t1", "version": json.Number("2.0"), "": "empty", "Type": "not the type",
			"STATE": "not the state", "args_": []any{}, "ojs.next": true, "é": "é", "a b": json.Number("1e400"), "null_value": nil, "__proto__": object{}, "job": "x",
			"next_version_of_retry": object{"max_attempts": json.Number("-1")}, "deadline": "2026-03-15T09:30:00", "state.x": "active", "ext_agent_id": false,
		}
		look := func(where string, j object) {
			t.Helper()
			for name, want := range unknown {
				got, given := j[name]
				if !given || !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %q is %v, %v; want %v", where, name, got, given, want)
				}
			}
		}
		members := strings.TrimPrefix(write(t, unknown), "{")
		d.shown(`{"id":"0197f6a0-0000-7000-8000-000000000001","type":"a.b","args":[],`+members, look)
		d.cancelled(`{"type":"a.b","args":[],"options":{"pending":true},`+members, look)
	})
}

// ojs-core.md §11.10(4): a job and a worker that use no extension at all live a whole
// life. What is sent here has the members of ojs-core.md §5, §7.2, §7.3 and §13.7 and no others.
func TestLifeWithoutExtensions(t *testing.T) {
	t.Parallel()
	atDesk(t, func(d *desk) {
		j := d.push(example(t, "core-13.1"))
		for _, end := range []string{"FAIL", "FAIL", "ACK"} {
			taken := d.take(j) // FETCH with queues, and nothing else
			if end == "FAIL" {
				if got := d.nack(taken, decode(t, example(t, "core-8.2"))); got["state"] != "retryable" {
					t.Errorf("%v", got)
				}
				continue
			}
			d.ask(200, "POST", "/ojs/v1/workers/ack", write(t, object{"job_id": taken["id"], "result": object{"sent": true}}))
		}
		done := d.info(j["id"])
		if done["state"] != "completed" || !reflect.DeepEqual(done["result"], object{"sent": true}) || write(t, done["attempt"]) != "3" {
			t.Errorf("%v", done)
		}
		gone := d.push(strings.Replace(example(t, "core-13.1"), "5a6b7c8d9e0f", "5a6b7c8d9e10", 1))
		d.ask(200, "DELETE", "/ojs/v1/jobs/"+gone["id"].(string), "")
		if now := d.info(gone["id"]); now["state"] != "cancelled" {
			t.Errorf("%v", now)
		}
	})
}

// ojs-core.md §5.3: what a client sends for an attribute that the server manages is
// ignored, alone, in a batch and among the options, and the job is as without it.
func TestSystemAttributesAreTheServers(t *testing.T) {
	t.Parallel()
	forged := map[string][]string{
		"state": {`"completed"`, `"active"`, `"nonsense"`, `7`}, "attempt": {`9`, `-1`, `"x"`}, "created_at": {`"2001-01-01T00:00:00Z"`, `"never"`},
		"enqueued_at": {`"2001-01-01T00:00:00Z"`, `7`}, "started_at": {`"2001-01-01T00:00:00Z"`}, "completed_at": {`"2001-01-01T00:00:00Z"`, `{}`},
		"error": {`{"type":"x","message":"y"}`, `"x"`}, "result": {`{"ok":true}`, `null`},
	}
	atDesk(t, func(d *desk) {
		id := 0
		next := func() string { id++; return fmt.Sprintf(`"0197f6a0-0000-7000-8000-%012d"`, id) }
		plain := func(more string) object {
			j := d.push(`{"id":` + next() + `,"type":"a.b","args":[]` + more + `}`)
			delete(j, "id")
			return j
		}
		want, scheduled := plain(``), plain(`,"options":{"delay":60}`)
		for name, values := range forged {
			for _, value := range values {
				m := `"` + name + `":` + value
				if got := plain(`,` + m); !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %v, want %v", m, got, want)
				}
				if got := plain(`,"options":{"delay":60},` + m); !reflect.DeepEqual(got, scheduled) {
					t.Errorf("%s, scheduled: %v, want %v", m, got, scheduled)
				}
				got := d.ask(201, "POST", "/ojs/v1/jobs/batch", `{"jobs":[{"id":`+next()+`,"type":"a.b","args":[],`+m+`}]}`)["jobs"].([]any)[0].(object)
				kept := d.info(got["id"])
				delete(got, "id")
				delete(kept, "id")
				if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(kept, want) {
					t.Errorf("%s in a batch: %v, kept as %v; want %v", m, got, kept, want)
				}
			}
		}
	})
}
