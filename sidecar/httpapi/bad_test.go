package httpapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

const (
	pushPath  = "/ojs/v1/jobs"
	batchPath = "/ojs/v1/jobs/batch"
	fetchPath = "/ojs/v1/workers/fetch"
	ackPath   = "/ojs/v1/workers/ack"
	nextPath  = "/ojs/v1/workers/next"
	nackPath  = "/ojs/v1/workers/nack"
	beatPath  = "/ojs/v1/workers/heartbeat"
)

type bad struct {
	path, body string
	status     int
	code       string
	field      string // in details, or empty
}

// withJob puts the id of a job in front of the members of an ACK or FAIL.
func withJob(members string) string { return `{"job_id":"` + string(idOne) + `",` + members + `}` }

// badJobs are enqueues that must be refused.
var badJobs = []bad{
	{pushPath, ``, 400, "invalid_payload", ""},
	{pushPath, ` `, 400, "invalid_payload", ""},
	{pushPath, `null`, 400, "invalid_payload", ""},
	{pushPath, `[]`, 400, "invalid_payload", ""},
	{pushPath, `"x"`, 400, "invalid_payload", ""},
	{pushPath, `17`, 400, "invalid_payload", ""},
	{pushPath, `{`, 400, "invalid_payload", ""},
	{pushPath, `{"type":"a.b","args":[]}x`, 400, "invalid_payload", ""},
	{pushPath, `{"type":"a.b","args":[]} {}`, 400, "invalid_payload", ""},
	{pushPath, `{"type":"a.b","args":[],}`, 400, "invalid_payload", ""},
	{pushPath, `{'type':"a.b"}`, 400, "invalid_payload", ""},
	{pushPath, "\xef\xbb\xbf" + `{"type":"a.b","args":[]}`, 400, "invalid_payload", ""},
	{pushPath, `{"type":"a.b","args":["` + "\xff" + `"]}`, 400, "invalid_payload", ""},
	{pushPath, `{"type":"a.b","args":["` + "\x00" + `"]}`, 400, "invalid_payload", ""},
	{pushPath, `{"type":"a.b","args":[NaN]}`, 400, "invalid_payload", ""},
	{pushPath, `{"type":"a.b","args":[01]}`, 400, "invalid_payload", ""},
	{pushPath, `{"type":"a.b","args":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, 400, "invalid_request", ""},
	{pushPath, `{"type":"a.b","type":"c.d","args":[]}`, 400, "invalid_request", "type"},
	{pushPath, `{"type":"a.b","args":[],"options":{"queue":"a","queue":"b"}}`, 400, "invalid_request", "queue"},
	{pushPath, `{"Type":"a.b","args":[]}`, 400, "invalid_request", "type"},
	{pushPath, `{"args":[]}`, 400, "invalid_request", "type"},
	{pushPath, `{"type":null,"args":[]}`, 400, "invalid_request", "type"},
	{pushPath, `{"type":"","args":[]}`, 400, "invalid_request", "type"},
	{pushPath, `{"type":"Email.send","args":[]}`, 400, "invalid_request", "type"},
	{pushPath, `{"type":"email-send","args":[]}`, 400, "invalid_request", "type"},
	{pushPath, `{"type":".a","args":[]}`, 400, "invalid_request", "type"},
	{pushPath, `{"type":"a.b"}`, 400, "invalid_request", "args"},
	{pushPath, `{"type":"a.b","args":null}`, 400, "invalid_request", "args"},
	{pushPath, `{"type":"a.b","args":{}}`, 400, "invalid_request", "args"},
	{pushPath, `{"type":"a.b","args":"x"}`, 400, "invalid_request", "args"},
	{pushPath, `{"type":"a.b","args":[],"specversion":"2.0"}`, 400, "invalid_request", "specversion"},
	{pushPath, `{"type":"a.b","args":[],"id":""}`, 400, "invalid_request", "id"},
	{pushPath, `{"type":"a.b","args":[],"id":"01970000-0000-7000-8000-00000000DEAD"}`, 400, "invalid_request", "id"},
	{pushPath, `{"type":"a.b","args":[],"id":"01970000-0000-4000-8000-000000000001"}`, 400, "invalid_request", "id"},
	{pushPath, `{"type":"a.b","args":[],"queue":""}`, 400, "invalid_request", "queue"},
	{pushPath, `{"type":"a.b","args":[],"options":{"queue":"Upper"}}`, 400, "invalid_request", "queue"},
	{pushPath, `{"type":"a.b","args":[],"options":[]}`, 400, "invalid_request", "options"},
	{pushPath, `{"type":"a.b","args":[],"meta":[]}`, 400, "invalid_request", "meta"},
	{pushPath, `{"type":"a.b","args":[],"priority":101}`, 400, "invalid_request", "priority"},
	{pushPath, `{"type":"a.b","args":[],"priority":1.5}`, 400, "invalid_request", "priority"},
	{pushPath, `{"type":"a.b","args":[],"timeout":-1}`, 400, "invalid_request", "timeout"},
	{pushPath, `{"type":"a.b","args":[],"timeout_ms":1e300}`, 400, "invalid_request", "timeout_ms"},
	{pushPath, `{"type":"a.b","args":[],"scheduled_at":"2026-03-15T09:30:00"}`, 400, "invalid_request", "scheduled_at"},
	{pushPath, `{"type":"a.b","args":[],"pending":"yes"}`, 400, "invalid_request", "pending"},
	{pushPath, `{"type":"a.b","args":[],"retry":{"max_attempts":-1}}`, 422, "invalid_request", "retry.max_attempts"},
	{pushPath, `{"type":"a.b","args":[],"retry":{"surprise":1}}`, 422, "invalid_request", "retry.surprise"},
	{batchPath, `{}`, 400, "invalid_request", "jobs"},
	{batchPath, `[]`, 400, "invalid_payload", ""},
	{batchPath, `{"jobs":null}`, 400, "invalid_request", "jobs"},
	{batchPath, `{"jobs":[]}`, 400, "invalid_request", "jobs"},
	{batchPath, `{"jobs":{}}`, 400, "invalid_request", "jobs"},
	{batchPath, `{"jobs":[1]}`, 400, "invalid_payload", ""},
	{batchPath, `{"jobs":[{"type":"a.b","args":[]},{"type":"a.b","args":[],"queue":"?"}]}`, 400, "invalid_request", "queue"},
	{batchPath, `{"jobs":[{"type":"a.b","args":[],"retry":{"jitter":1}}]}`, 422, "invalid_request", "retry.jitter"},
	{batchPath, `{"jobs":[` + strings.Repeat(`0,`, job.MaxBatch) + `0]}`, 413, "invalid_payload", ""},
	{batchPath, `{"jobs":[{"type":"a.b","args":["` + strings.Repeat("x", job.MaxJobBytes) + `"]}]}`, 413, "invalid_payload", ""},
}

// badWork is what workers must not send.
var badWork = []bad{
	{fetchPath, ``, 400, "invalid_payload", ""},
	{fetchPath, `{}`, 400, "invalid_request", "queues"},
	{fetchPath, `{"queues":null}`, 400, "invalid_request", "queues"},
	{fetchPath, `{"queues":[]}`, 400, "invalid_request", "queues"},
	{fetchPath, `{"queues":"mail"}`, 400, "invalid_request", "queues"},
	{fetchPath, `{"queues":[""]}`, 400, "invalid_request", "queues"},
	{fetchPath, `{"queues":[1]}`, 400, "invalid_request", "queues"},
	{fetchPath, `{"queues":[` + strings.Repeat(`"q",`, 1000) + `"q"]}`, 400, "invalid_request", "queues"},
	{fetchPath, `{"queues":["q"],"queues":["r"]}`, 400, "invalid_request", "queues"},
	{fetchPath, `{"queues":["q"],"count":"2"}`, 400, "invalid_request", "count"},
	{fetchPath, `{"queues":["q"],"max":1.5}`, 400, "invalid_request", "max"},
	{fetchPath, `{"queues":["q"],"worker_id":7}`, 400, "invalid_request", "worker_id"},
	{fetchPath, `{"queues":["q"],"worker_id":"` + strings.Repeat("w", 256) + `"}`, 400, "invalid_request", "worker_id"},
	{fetchPath, `{"queues":["q"],"visibility_timeout_ms":-1}`, 400, "invalid_request", "visibility_timeout_ms"},
	{fetchPath, `{"queues":["q"],"visibility_timeout_ms":9e18}`, 400, "invalid_request", "visibility_timeout_ms"},
	{fetchPath, `{"queues":["q"],"block_ms":true}`, 400, "invalid_request", "block_ms"},
	{fetchPath, `{"queues":["q"],"versions":[1]}`, 400, "invalid_request", "versions"},
	{fetchPath, `{"queues":["q"],"versions":{"a.b":2}}`, 400, "invalid_request", "versions.a.b"},
	{fetchPath, `{"queues":["q"],"versions":{"a.b":[1,{}]}}`, 400, "invalid_request", "versions.a.b[1]"},
	{fetchPath, `{"queues":["q"],"versions":{"No":[1]}}`, 400, "invalid_request", "versions"},
	{ackPath, `{}`, 400, "invalid_request", "job_id"},
	{ackPath, `{"job_id":1}`, 400, "invalid_request", "job_id"},
	{ackPath, `{"job_id":""}`, 400, "invalid_request", "job_id"},
	{ackPath, `{"job_id":null,"result":1}`, 400, "invalid_request", "job_id"},
	{ackPath, `{"job_id":"no-id"}`, 404, "not_found", ""},
	{ackPath, withJob(`"lease_token":7`), 400, "invalid_request", "lease_token"},
	{ackPath, withJob(`"worker_id":[]`), 400, "invalid_request", "worker_id"},
	{ackPath, withJob(`"result":1,"result":2`), 400, "invalid_request", "result"},
	{ackPath, `{"acks":{}}`, 400, "invalid_request", "acks"},
	{ackPath, `{"acks":[]}`, 400, "invalid_request", "acks"},
	{ackPath, `{"acks":null}`, 400, "invalid_request", "job_id"},
	{ackPath, `{"acks":[{}],"acks":[]}`, 400, "invalid_request", "acks"},
	{ackPath, `{"acks":[{"job_id":"` + string(idOne) + `"}`, 400, "invalid_payload", ""},
	{ackPath, `{"acks":[{"job_id":"` + string(idOne) + `"}],"result":null}`, 400, "invalid_request", "acks"},
	{ackPath, `{"acks":[{"job_id":"` + string(idOne) + `"}],"worker_id":"w"}`, 400, "invalid_request", "acks"},
	{ackPath, `{"acks":[` + strings.Repeat(`0,`, job.MaxAcks) + `0]}`, 413, "invalid_payload", ""},
	{ackPath, withJob(`"result":"` + strings.Repeat("x", wire.MaxEndBytes) + `"`), 413, "invalid_payload", ""},
	{nextPath, ``, 400, "invalid_payload", ""},
	{nextPath, `{"acks":[{"job_id":"` + string(idOne) + `"}]}`, 400, "invalid_request", "queues"},
	{nextPath, `{"queues":["q"],"acks":{}}`, 400, "invalid_request", "acks"},
	{nextPath, `{"queues":["q"],"count":"2","acks":[{"job_id":"` + string(idOne) + `"}]}`, 400, "invalid_request", "count"},
	{nextPath, `{"queues":["q"],"acks":[` + strings.Repeat(`0,`, job.MaxAcks) + `0]}`, 413, "invalid_payload", ""},
	{nackPath, `{"error":{"message":"x"}}`, 400, "invalid_request", "job_id"},
	{nackPath, withJob(`"x":1`), 400, "invalid_request", "error"},
	{nackPath, withJob(`"error":null`), 400, "invalid_request", "error"},
	{nackPath, withJob(`"error":"boom"`), 400, "invalid_request", "error"},
	{nackPath, withJob(`"error":{}`), 400, "invalid_request", "error.type"},
	{nackPath, withJob(`"error":{"message":"x"}`), 400, "invalid_request", "error.type"},
	{nackPath, withJob(`"error":{"type":"","code":"","message":"x"}`), 400, "invalid_request", "error.type"},
	{nackPath, withJob(`"error":{"details":{"error_class":"E"},"message":"x"}`), 400, "invalid_request", "error.type"},
	{nackPath, withJob(`"error":{"type":"E"}`), 400, "invalid_request", "error.message"},
	{nackPath, withJob(`"error":{"code":"handler_error","message":null}`), 400, "invalid_request", "error.message"},
	{nackPath, withJob(`"error":{"type":"E","message":"x","x":1,"x":2}`), 400, "invalid_request", "x"},
	{nackPath, withJob(`"error":{"type":"E","message":"x"},"retry_after":1,"delay_ms":2`), 400, "invalid_request", "delay_ms"},
	{nackPath, withJob(`"id":"01970000-0000-7000-8000-000000000002","error":{"type":"E","message":"x"}`), 400, "invalid_request", "id"},
	{nackPath, withJob(`"error":{"retryable":true}`), 400, "invalid_request", "error.type"},
	{nackPath, withJob(`"error":{"message":1}`), 400, "invalid_request", "error.message"},
	{nackPath, withJob(`"error":{"code":{}}`), 400, "invalid_request", "error.code"},
	{nackPath, withJob(`"error":{"message":"x","retryable":"no"}`), 400, "invalid_request", "error.retryable"},
	{nackPath, withJob(`"error":{"message":"x","backtrace":[1]}`), 400, "invalid_request", "error.backtrace"},
	{nackPath, withJob(`"error":{"message":"x"},"retry_after":-1`), 400, "invalid_request", "retry_after"},
	{nackPath, withJob(`"error":{"message":"x"},"retry_after":"5s"`), 400, "invalid_request", "retry_after"},
	{nackPath, withJob(`"error":{"message":"x"},"delay_ms":1.5`), 400, "invalid_request", "delay_ms"},
	{nackPath, withJob(`"requeue":"true"`), 400, "invalid_request", "requeue"},
	{beatPath, `{}`, 400, "invalid_request", "worker_id"},
	{beatPath, `{"worker_id":""}`, 400, "invalid_request", "worker_id"},
	{beatPath, `{"worker_id":"w","active_jobs":"x"}`, 400, "invalid_request", "active_jobs"},
	{beatPath, `{"worker_id":"w","active_jobs":-1}`, 400, "invalid_request", "active_jobs"},
	{beatPath, `{"worker_id":"w","active_jobs":[1]}`, 400, "invalid_request", "active_jobs"},
	{beatPath, `{"worker_id":"w","active_job_ids":{}}`, 400, "invalid_request", "active_job_ids"},
	{beatPath, `{"worker_id":"w","leases":[]}`, 400, "invalid_request", "leases"},
	{beatPath, `{"worker_id":"w","leases":{"a":1}}`, 400, "invalid_request", "leases"},
	{beatPath, `{"worker_id":"w","pid":-1}`, 400, "invalid_request", "pid"},
	{beatPath, `{"worker_id":"w","labels":1}`, 400, "invalid_request", "labels"},
	{beatPath, `{"worker_id":"w","started_at":"yesterday"}`, 400, "invalid_request", "started_at"},
	{beatPath, `{"worker_id":"w","shutdown":1}`, 400, "invalid_request", "shutdown"},
	{"/ojs/v1/dead-letter/" + string(idDead) + "/retry", `{"override":{}}`, 422, "unsupported", "override"},
	{"/ojs/v1/dead-letter/" + string(idDead) + "/retry", `{`, 400, "invalid_payload", ""},
}

// A bad body is refused with the status, code and field of contract §1.4, and
// the service never hears of it.
func TestBadBodies(t *testing.T) {
	for i, tt := range append(badJobs, badWork...) {
		t.Run(fmt.Sprintf("%02d", i), func(t *testing.T) {
			f := world()
			w := serve(New(f, quiet()), "POST", tt.path, tt.body)
			e := failureOf(t, w.Body)
			field, _ := e.Details["field"].(string)
			if w.Code != tt.status || e.Code != tt.code || field != tt.field {
				t.Errorf("POST %s %.120s\ngot  %d %s field %q: %s\nwant %d %s field %q",
					tt.path, tt.body, w.Code, e.Code, field, e.Message, tt.status, tt.code, tt.field)
			}
			if tt.field != "" && !strings.Contains(e.Message, tt.field) {
				t.Errorf("message %q does not name the field %q", e.Message, tt.field)
			}
			if n := f.calls.Load(); n != 0 {
				t.Errorf("POST %s %.120s reached the service %d times", tt.path, tt.body, n)
			}
			if e.RequestID != "req_test" {
				t.Errorf("request_id is %q", e.RequestID)
			}
		})
	}
}

// A bad query likewise.
func TestBadQueries(t *testing.T) {
	for _, tt := range []struct{ target, field string }{
		{"/ojs/v1/jobs?limit=0", "limit"},
		{"/ojs/v1/jobs?limit=-1", "limit"},
		{"/ojs/v1/jobs?limit=1e9", "limit"},
		{"/ojs/v1/jobs?limit=NaN", "limit"},
		{"/ojs/v1/jobs?limit=", "limit"},
		{"/ojs/v1/jobs?offset=-1", "offset"},
		{"/ojs/v1/jobs?page=0", "page"},
		{"/ojs/v1/jobs?per_page=x", "per_page"},
		{"/ojs/v1/jobs?state=done", "state"},
		{"/ojs/v1/jobs?since=today", "since"},
		{"/ojs/v1/jobs?until=2026-03-15", "until"},
		{"/ojs/v1/jobs?a=%zz", ""},
		{"/ojs/v1/queues?limit=0", "limit"},
		{"/ojs/v1/dead-letter?limit=x", "limit"},
		{"/ojs/v1/dead-letter?since=x", "since"},
		{"/ojs/v1/events?limit=0", "limit"},
		{"/ojs/v1/events?after=evt_x", "after"},
		{"/ojs/v1/events?after=-1", "after"},
		{"/ojs/v1/events?job_id=x", "job_id"},
		{"/ojs/v1/events?offset=1000", "offset"},
		{"/ojs/v1/events?types=" + strings.Repeat("a,", 101), "types"},
	} {
		f := world()
		w := serve(New(f, quiet()), "GET", tt.target, "")
		e := failureOf(t, w.Body)
		field, _ := e.Details["field"].(string)
		if w.Code != 400 || e.Code != "invalid_request" || field != tt.field || f.calls.Load() != 0 {
			t.Errorf("GET %s: got %d %s field %q, %d calls; want 400 invalid_request field %q, none",
				tt.target, w.Code, e.Code, field, f.calls.Load(), tt.field)
		}
	}
}
