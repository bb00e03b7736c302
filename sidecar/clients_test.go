package sidecar_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The requests of the public clients as they send them, with their headers and bodies, and
// what each client reads of the answers. No client is run here.

const (
	goVersion   = "1.0.0-rc.1"
	nextVersion = "1.0" // of the JavaScript and the Python client
)

// sdk sends requests with the headers of one client.
type sdk struct {
	*stage
	version string
	typed   bool // sends a Content-Type also without a body
	n       int
}

func (c *sdk) ask(method, path, body string) *heard {
	c.t.Helper()
	headers := []string{"OJS-Version", c.version, "Accept", "application/openjobspec+json", "Content-Type", "application/openjobspec+json"}
	if c.n++; c.version == nextVersion {
		headers = append(headers, "X-Request-ID", fmt.Sprintf("0b9f3c1e-1111-4222-8333-%012d", c.n))
	}
	if body == "" && !c.typed {
		headers[5] = "" // an empty value is not sent
	}
	h := c.send(method, path, body, headers...)
	if got := h.header.Get("OJS-Version"); got != c.version {
		c.t.Errorf("%s: OJS-Version %q", h.what, got)
	}
	if c.version == nextVersion && (!strings.Contains(h.header.Get("Content-Type"), "application/json") || h.header.Get("X-Request-Id") != headers[7]) {
		c.t.Errorf("%s: %v", h.what, h.header)
	}
	return h
}

func (c *sdk) ok(method, path, body string) *heard {
	c.t.Helper()
	return c.ask(method, path, body).is(200, 201)
}

// whole wants integers: the Go client decodes them into int.
func (h *heard) whole(paths ...string) *heard {
	h.t.Helper()
	for _, p := range paths {
		n, ok := h.at(p).(float64)
		member := p[strings.LastIndexByte(p, '.')+1:]
		if !ok || n != float64(int64(n)) || strings.Contains(h.text, fmt.Sprintf("%q:%d.", member, int64(n))) {
			h.t.Errorf("%s: %s is no integer: %s", h.what, p, h.text)
		}
	}
	return h
}

// each wants something of every member of an object.
func (h *heard) each(path string, is func(any) bool) *heard {
	h.t.Helper()
	o, ok := h.at(path).(map[string]any)
	if !ok || len(o) == 0 {
		h.t.Fatalf("%s: %s is no object: %s", h.what, path, h.text)
	}
	for name, v := range o {
		if !is(v) {
			h.t.Errorf("%s: %s.%s is %v", h.what, path, name, v)
		}
	}
	return h
}

func isBool(v any) bool { _, ok := v.(bool); return ok }
func isText(v any) bool { _, ok := v.(string); return ok }

func TestRequestsOfTheGoClient(t *testing.T) {
	c := &sdk{stage: newStage(t), version: goVersion}
	c.ok("GET", ":/ojs/manifest", "").each("capabilities", isBool).each("endpoints", isText).list("extensions")
	c.ok("GET", "/health", "").has("status", "ok").whole("uptime_seconds", "backend.latency_ms", "queues.total", "workers.total")

	at := time.Now().Add(time.Hour).In(time.FixedZone("", 3600)).Format("2006-01-02T15:04:05-07:00")
	r := c.ok("POST", "/jobs", `{"type":"email.send","args":[{"to":"a@b.c"}],"options":{"queue":"mail","retry":{"max_attempts":4,"initial_interval_ms":1000,"max_interval_ms":60000,"backoff_coefficient":2,"jitter":true,"non_retryable_errors":["Auth"]},`+
		`"unique":{"key":["to"],"period_ms":60000,"on_conflict":"reject"},"scheduled_at":"`+at+`","tags":["x"]}}`).is(201).has("job.state", "scheduled").has("job.scheduled_at", at).whole("job.priority", "job.attempt", "job.max_attempts")
	id := r.str("job.id")
	if r.header.Get("X-Request-Id") == "" || r.header.Get("Location") != "/ojs/v1/jobs/"+id {
		t.Errorf("%v", r.header)
	}
	c.ask("POST", "/jobs", `{"type":"email.send","args":[{"to":"a@b.c"}],"options":{"queue":"mail","unique":{"key":["to"],"period_ms":60000,"on_conflict":"reject"}}}`).is(409).
		has("error.code", "duplicate").has("error.details.existing_job_id", id).has("error.retryable", false).str("error.request_id")
	c.ok("GET", "/jobs/"+id, "").has("job.id", id)
	c.ok("DELETE", "/jobs/"+id, "").has("job.state", "cancelled")
	c.ok("POST", "/jobs/batch", `{"jobs":[{"type":"a.b","args":[]},{"type":"a.b","args":[]}]}`).has("count", 2).str("jobs.1.id")

	c.ok("GET", "/queues", "").named("queues", "name", "default")
	c.ok("GET", "/queues/default/stats", "").has("queue", "default").whole("stats.available", "stats.active", "stats.completed", "stats.depth").numbers("stats.avg_duration_ms", "stats.avg_wait_ms").has("stats.available", 2)
	c.ok("POST", "/queues/default/pause", "").has("queue", "default").has("status", "paused")
	c.ok("POST", "/queues/default/resume", "").has("queue", "default").has("status", "active")

	r = c.ok("POST", "/workers/fetch", `{"queues":["default"],"count":5,"worker_id":"go-1"}`).has("jobs.0.state", "active").whole("jobs.0.attempt")
	first, second := r.str("jobs.0.id"), r.str("jobs.1.id")
	c.ok("POST", "/workers/heartbeat", `{"worker_id":"go-1","state":"running","active_jobs":2,"active_job_ids":["`+first+`","`+second+`"]}`).has("state", "running")
	c.ok("POST", "/workers/ack", `{"job_id":"`+first+`","result":{"ok":true}}`).has("acknowledged", true).has("job_id", first)
	c.ok("POST", "/workers/nack", `{"job_id":"`+second+`","error":{"code":"handler_error","message":"m","retryable":true}}`).has("state", "retryable").whole("attempt", "max_attempts").str("next_attempt_at")
	c.ok("GET", "/jobs/"+first, "").hasJSON("job.result", `{"ok":true}`)

	dead := c.dead()
	c.ok("GET", "/dead-letter?limit=10&offset=0&queue=dlq-test", "").has("jobs.0.id", dead).whole("pagination.total", "pagination.limit", "pagination.offset")
	c.ok("POST", "/dead-letter/"+dead+"/retry", "").has("job.state", "available")
	c.ok("POST", "/workers/fetch", `{"queues":["dlq-test"],"count":1}`)
	c.ok("POST", "/workers/nack", `{"job_id":"`+dead+`","error":{"code":"handler_error","message":"m","retryable":false}}`)
	c.ok("DELETE", "/dead-letter/"+dead, "")

	c.ok("POST", "/cron", `{"name":"daily","cron":"0 9 * * *","timezone":"UTC","type":"report.daily","args":[]}`).is(201).has("cron_job.name", "daily").str("cron_job.next_run_at")
	c.ok("GET", "/cron", "").has("cron_jobs.0.name", "daily")
	c.ok("DELETE", "/cron/daily", "")

	flow := c.ok("POST", "/workflows", `{"name":"onboard","steps":[{"id":"step-0","type":"a.one","args":[]},{"id":"step-1","type":"a.two","args":[],"depends_on":["step-0"]}]}`).is(201).
		has("workflow.name", "onboard").has("workflow.state", "running").has("workflow.steps.0.id", "step-0").has("workflow.steps.1.state", "waiting").str("workflow.id")
	c.ok("GET", "/workflows/"+flow, "").has("workflow.id", flow)
	c.ok("DELETE", "/workflows/"+flow, "").has("workflow.state", "cancelled")
	c.ok("POST", "/workflows", `{"name":"b","steps":[{"id":"j0","type":"a.one","args":[]},{"id":"on-complete","type":"a.two","args":[],"depends_on":["j0"]}]}`).has("workflow.steps.1.type", "a.two")

	c.ok("POST", "/schemas", `{"uri":"urn:ojs:schema:a.b:v1","type":"a.b","version":"1","schema":{"type":"array"}}`).is(201).has("schema.version", "1")
	c.ok("GET", "/schemas", "").has("schemas.0.uri", "urn:ojs:schema:a.b:v1")
	c.ok("GET", "/schemas/urn:ojs:schema:a.b:v1", "").has("schema.type", "a.b")
	c.ok("DELETE", "/schemas/urn:ojs:schema:a.b:v1", "")

	for _, bad := range []*heard{c.ask("GET", "/jobs/01970000-0000-7000-8000-000000000009", "").is(404), c.ask("POST", "/jobs", `{"type":"a.b"}`).is(400),
		c.ask("POST", "/workflows", `{"name":"x","steps":[]}`).is(400), c.ask("POST", "/jobs", `{"type":"a.b","args":[],"options":{"retry":{"max_attempts":-1}}}`).is(422)} {
		if d := bad.at("error.details"); d != nil {
			if _, ok := d.(map[string]any); !ok {
				t.Errorf("%s: details are no object: %s", bad.what, bad.text)
			}
		}
		bad.str("error.message")
	}
}

func TestRequestsOfTheJavaScriptClient(t *testing.T) {
	c := &sdk{stage: newStage(t), version: nextVersion, typed: true}
	id := c.ok("POST", "/jobs", `{"type":"email.send","args":["x"],"meta":{},"options":{"queue":"mail","timeout_ms":30000,"retry":{"max_attempts":2,"initial_interval":"PT1S"}},"timeout":30}`).is(201).str("job.id")
	c.ok("POST", "/jobs", `{"type":"email.later","args":[],"options":{"delay_until":"PT5M"}}`).has("job.state", "scheduled")
	c.ok("POST", "/jobs", `{"type":"email.later","args":[],"options":{"delay_until":"`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"}}`).has("job.state", "scheduled")
	c.ok("POST", "/workers/fetch", `{"queues":["mail"],"count":10,"worker_id":"js-1","visibility_timeout_ms":30000}`).has("jobs.0.id", id).has("jobs.0.timeout", nil).has("jobs.0.timeout_ms", 30000)
	c.ok("POST", "/workers/heartbeat", `{"worker_id":"js-1","active_jobs":1,"active_job_ids":["`+id+`"],"state":"running"}`).hasJSON("jobs_extended", `["`+id+`"]`)
	c.ok("POST", "/workers/progress", `{"job_id":"`+id+`","percentage":40,"message":"on it"}`).has("progress", 0.4)
	c.ok("POST", "/ojs/v1/checkpoints/"+id, `{"state":{"n":1},"step_index":0}`)
	c.ok("GET", "/ojs/v1/checkpoints/"+id+"/resume", "").has("has_checkpoint", true)
	c.ok("POST", "/workers/ack", `{"job_id":"`+id+`","result":null}`)
	for range 3 { // its answer was lost
		c.ask("POST", "/workers/ack", `{"job_id":"`+id+`","result":null}`).is(409)
	}
	for _, code := range []string{"handler_error", "handler_not_found", "timeout"} {
		c.ok("POST", "/workers/nack", `{"job_id":"`+id+`","error":{"code":"`+code+`","message":"m","retryable":true,"details":{"stack":"a\nb"}}}`).has("state", "completed")
	}

	flow := c.ok("POST", "/workflows", `{"type":"chain","name":"c","steps":[{"type":"a.one","args":[],"options":{"retry":{"maxAttempts":2,"initialInterval":"PT1S","onExhaustion":"discard"}}},{"type":"group","jobs":[{"type":"a.two","args":[]},{"type":"a.three","args":[]}]}]}`).is(201).
		has("type", "chain").has("name", "c").has("state", "running").has("metadata.job_count", 2).has("metadata.completed_count", 0).has("metadata.failed_count", 0).str("id")
	c.ok("GET", "/workflows/"+flow, "").has("id", flow).str("metadata.created_at")
	c.ok("GET", "/queues/mail/stats", "").has("name", "mail").has("completed", 1).has("available", 0)
	c.ok("POST", "/cron", `{"name":"daily","cron":"@daily","type":"report.daily","args":[]}`).has("cron_job.name", "daily")
	c.ok("GET", "/cron?page=1&per_page=10", "").has("cron_jobs.0.name", "daily").has("pagination.page", 1).has("pagination.per_page", 10)
	c.ask("GET", "/jobs/01970000-0000-7000-8000-000000000009", "").is(404).has("error.details.resource_type", "job").has("error.details.resource_id", "01970000-0000-7000-8000-000000000009").has("error.retryable", false)
	c.ok("DELETE", "/cron/daily", "")
}

func TestRequestsOfThePythonClient(t *testing.T) {
	c := &sdk{stage: newStage(t), version: nextVersion, typed: true}
	c.ok("GET", "/health", "").has("status", "ok")
	r := c.ok("POST", "/jobs", `{"type":"email.send","args":["x"],"options":{"queue":"mail","unique":{"key":["type","args"],"period":"PT1H","states":["available","active"],"on_conflict":"ignore"}}}`).is(201)
	id := r.str("job.id")
	for _, member := range []string{"tags", "errors", "meta"} {
		if job := r.at("job").(map[string]any); strings.Contains(r.text, fmt.Sprintf("%q:null", member)) || member == "meta" && job[member] == nil {
			t.Errorf("%s is null: %s", member, r.text)
		}
	}
	c.ok("POST", "/jobs", `{"type":"email.send","args":["x"],"options":{"queue":"mail","unique":{"key":["type","args"],"period":"PT1H","states":["available","active"],"on_conflict":"ignore"}}}`).is(200).has("job.id", id).has("deduplicated", true)
	c.ok("POST", "/workers/fetch", `{"queues":["mail"],"count":1,"worker_id":"py-1","visibility_timeout_ms":30000}`).has("jobs.0.id", id)
	c.ok("POST", "/workers/heartbeat", `{"worker_id":"py-1","active_jobs":["`+id+`"],"state":"running","visibility_timeout_ms":30000}`).hasJSON("jobs_extended", `["`+id+`"]`)
	c.ok("POST", "/workers/progress", `{"job_id":"`+id+`","percentage":50,"data":{"row":1}}`)
	c.ok("GET", "/jobs/"+id+"/progress", "").has("progress", 0.5).has("data.row", 1)
	c.ok("POST", "/workers/nack", `{"job_id":"`+id+`","error":{"code":"cancelled","message":"shutting down","retryable":true}}`).has("state", "retryable")
	c.ok("GET", "/queues/mail/stats", "").has("queue", "mail").has("stats.retryable", 1)
	c.ok("GET", "/queues/mail", "").has("queue.name", "mail")

	flow := c.ok("POST", "/workflows", `{"steps":[{"id":"a","type":"a.one","args":[]},{"id":"b","type":"a.two","args":[]},{"id":"done","type":"a.three","args":[],"depends_on":["a","b"],"options":{"callback_type":"on_complete"}}]}`).is(201)
	if _, named := flow.at("workflow.name").(string); !named {
		t.Errorf("the name is no text: %s", flow.text)
	}
	for _, e := range flow.list("workflow.steps") {
		if step := e.(map[string]any); !isText(step["id"]) || !isText(step["type"]) {
			t.Errorf("%v", step)
		}
	}
	e := c.ok("GET", "/events?types=job.*&limit=5", "")
	e.str("events.0.event")
	e.str("events.0.timestamp")
	c.ask("GET", "/jobs/01970000-0000-7000-8000-000000000009", "").is(404).has("error.code", "not_found")
}

func TestRequestsOfTheCommandLine(t *testing.T) {
	c := newStage(t)
	at := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	id := c.ok("POST", "/jobs", `{"type":"email.send","args":["x"],"options":{"queue":"mail","priority":5,"max_attempts":7,"scheduled_at":"`+at+`","unique":{"key":"invoice-7","within":"1h"}}}`).
		has("type", "email.send").has("state", "scheduled").has("queue", "mail").has("attempt", 0).has("priority", 5).has("scheduled_at", at).has("job.max_attempts", 7).str("id")
	c.send("POST", "/jobs", `{"type":"email.send","args":["y"],"options":{"unique":{"key":"invoice-7","within":"1h"}}}`).is(409)
	c.ok("POST", "/jobs/batch", `{"jobs":[{"type":"a.b","args":[]}]}`).has("enqueued", 1).has("failed", 0)
	c.ok("GET", "/jobs?state=scheduled&queue=mail&limit=5", "").has("jobs.0.id", id).has("total", 1)
	c.ok("PATCH", "/jobs/"+id, `{"priority":50}`).has("priority", 50)
	c.send("PATCH", "/jobs/"+id, `{"priority":200}`).is(400)
	c.ok("GET", "/jobs/"+id+"/result?wait=false", "").has("state", "scheduled")
	c.send("GET", "/jobs/"+id+"/result?wait=true&timeout=1", "").is(408)
	c.ok("GET", "/jobs/"+id+"/retries", "").hasJSON("retries", "[]").has("policy.max_attempts", 7).has("policy.initial_interval", "PT1S").has("policy.backoff_strategy", "exponential")
	c.ok("GET", "/events/"+id+"/history", "").has("events.0.state", "scheduled").str("events.0.timestamp")
	c.ok("DELETE", "/jobs/"+id, "").has("state", "cancelled")

	c.ok("POST", "/cron", `{"name":"nightly","expression":"0 3 * * *","job_template":{"type":"report.nightly"}}`).has("cron.expression", "0 3 * * *")
	c.ok("GET", "/cron/nightly", "").has("expression", "0 3 * * *").has("enabled", true).has("job_template.type", "report.nightly").hasJSON("job_template.args", "[]").has("run_count", 0)
	c.ok("POST", "/cron/nightly/trigger", "").str("job_id")

	flow := c.ok("POST", "/workflows", `{"name":"w","steps":[{"id":"a","type":"a.one","args":[]},{"id":"b","type":"a.two","args":[],"depends_on":["a"]}]}`).has("state", "running").str("id")
	c.ok("GET", "/workflows", "").has("workflows.0.step_count", 2).has("total", 1)
	c.ok("POST", "/workflows/"+flow+"/cancel", "").has("cancelled_steps", 2)

	c.dead()
	c.ok("GET", "/dead-letter", "").has("total", 1)
	c.ok("GET", "/dead-letter/stats", "").has("total", 1)
	c.ok("POST", "/dead-letter/retry", `{"confirm":true,"filter":{}}`).has("total", 1)
	c.ok("DELETE", "/dead-letter", "").has("deleted", 0)

	c.ok("POST", "/queues", `{"name":"made","concurrency":4}`).is(201).has("name", "made")
	c.ok("PUT", "/queues/made/config", `{"retention":"24h"}`).has("config.retention", "24h")
	c.ok("GET", "/queues/made/stats", "").has("stats.dead", 0)
	c.ok("GET", "/queues/made", "").has("depth", 0).has("running", 0).has("paused", false)
	c.ok("POST", "/queues/made/purge", `{"states":["completed"]}`).has("deleted", 0)
	c.ok("DELETE", "/queues/made", "").has("deleted", true)

	c.ok("POST", "/workers/beat", `{"worker_id":"w1","active_jobs":0}`)
	c.ok("GET", "/admin/workers", "").has("items.0.id", "w1").has("summary.total", 1)
	c.ok("POST", "/admin/workers/directive", `{"directive":"quiet"}`).has("workers", 1)
	c.ok("POST", "/admin/workers/w1/resume", "")

	for action, state := range map[string]string{"cancel": "available", "retry": "discarded", "delete": "cancelled"} {
		c.ok("POST", "/jobs/bulk/"+action, `{"filter":{"state":"`+state+`","queue":"bulk"}}`).has("matched", 0)
	}
	c.ok("GET", "/rate-limits", "").hasJSON("rate_limits", "[]")
	c.ok("GET", "/metrics", "").numbers("uptime_seconds", "jobs_enqueued_total", "jobs_completed_total", "jobs_failed_total", "jobs_active", "queues_active", "workers_active", "avg_latency_ms", "throughput_per_second")
	c.ok("GET", "/metrics?format=prometheus", "")
	for _, base := range []string{"/admin", "/admin/system"} {
		c.ok("POST", base+"/maintenance", `{"enabled":true,"reason":"r","duration":"30m"}`).has("enabled", true).str("ends_at")
		c.ok("GET", base+"/maintenance", "").has("maintenance", true)
		c.ok("POST", base+"/maintenance", `{"enabled":false}`)
		c.ok("GET", base+"/config", "")
	}
	c.ok("GET", ":/v1/health", "").has("status", "ok") // its doctor
	c.ok("GET", ":/v1/queues", "").named("queues", "name", "default")
	c.ok("GET", ":/v1/dead-letter", "").list("jobs")
	c.ok("GET", ":/v1/workers", "").has("workers.0.id", "w1")
	c.ok("GET", ":/metrics", "")
}

func TestRequestsOfTheDashboard(t *testing.T) {
	s := newStage(t)
	c := func(method, path, body string) *heard {
		t.Helper()
		return s.send(method, path, body, "Origin", s.url, "Sec-Fetch-Site", "same-origin").is(200, 201, 204)
	}
	manifest := c("GET", ":/ojs/manifest", "")
	for _, name := range []string{"admin-api", "fair_scheduling", "cron", "workflows", "rate_limiting", "unique_jobs", "events", "dead_letter", "multi_tenancy", "job_versioning"} {
		found := false
		for _, e := range manifest.list("extensions") {
			found = found || e == name
		}
		if !found {
			t.Errorf("%s is not among the extensions", name)
		}
	}
	id := s.push(`{"type":"ui.test","args":[],"options":{"queue":"ui","rate_limit":{"key":"k","concurrency":1},"unique":{"keys":["type"]}}}`, "X-OJS-Tenant", "acme")
	s.dead()
	s.ok("POST", "/workers/beat", `{"worker_id":"w1","active_jobs":1}`)
	s.ok("POST", "/cron", `{"name":"c","cron":"@daily","type":"a.b","args":[]}`)
	s.ok("POST", "/workflows", `{"name":"w","steps":[{"id":"a","type":"a.one","args":[]}]}`)
	s.ok("POST", "/schemas", `{"type":"a.b","version":1,"schema":{"type":"array"}}`)
	s.ok("PUT", "/admin/pools/p", `{"queues":["ui"]}`)
	for _, path := range []string{"/admin/jobs", "/admin/queues", "/admin/workers", "/admin/dead-letter", "/crons", "/workflows", "/events", "/rate-limits", "/unique-jobs",
		"/schemas", "/admin/schemas", "/admin/tenants", "/admin/tenants/acme/jobs", "/admin/pools"} {
		r := c("GET", path+"?page=1&per_page=25", "").has("pagination.page", 1).has("pagination.per_page", 25).numbers("pagination.total")
		if len(r.list("items")) == 0 {
			t.Errorf("%s has no items", path)
		}
	}
	c("GET", "/admin/jobs/"+id, "").has("id", id).hasJSON("errors", "[]").has("retry_policy.max_attempts", 3).has("metadata.completed_at", nil)
	c("GET", "/admin/jobs/"+id+"/trace", "").has("snapshots.0.state", "available")
	c("GET", "/admin/queues/ui", "").has("counts.available", 1)
	c("GET", "/admin/workers/w1", "").has("active_jobs", 1).str("last_heartbeat")
	c("POST", "/admin/workers/w1/quiet", "").has("directive", "quiet")
	c("GET", "/admin/stats", "").whole("queues", "workers", "jobs.available")
	c("GET", "/admin/stats/history?period=1h", "").list("data")
	c("GET", "/admin/dead-letter/stats", "").has("total", 1)
	c("GET", "/queues/ui/priority-stats", "").has("total", 1)
	c("GET", "/admin/scheduling/stats", "").has("strategy", "weighted")
	c("GET", "/admin/observability/health", "").has("score", 100).has("status", "ok").has("anomaly_count", 0)
	c("GET", "/middleware", "").hasJSON("execution", "[]").list("enqueue")
	c("GET", "/health/detail", "").has("checks.store.status", "ok")
	c("PUT", "/admin/queues/ui/config", `{"concurrency":2}`).has("config.concurrency", 2)
	c("POST", "/admin/jobs/"+id+"/cancel", `{}`).has("state", "cancelled")
	dead := c("GET", "/admin/dead-letter", "").str("items.0.id")
	c("POST", "/admin/jobs/"+dead+"/retry", `{}`).has("state", "available")
	r := s.send("GET", "/no/such/thing", "").is(404).has("error.details.resource_type", "endpoint")
	r.str("error.message")
}
