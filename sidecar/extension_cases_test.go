package sidecar_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
)

// The cases of the public suites for extensions (SPEC.md, "The extension suites"), played
// over HTTP against a server of our own: each row of the contract's two tables is a case
// here, under the row's name.

// stage is one server, and what a case does with it.
type stage struct {
	t   *testing.T
	url string
}

// heard is an answer.
type heard struct {
	t      *testing.T
	what   string
	status int
	header http.Header
	text   string
	body   any
}

func newStage(t *testing.T) *stage {
	s := sidecar.New(openStore(t), sidecar.Options{})
	runDuties(t, s)
	server := httptest.NewServer(httpapi.New(s, httpapi.Options{Log: slog.New(slog.DiscardHandler)}))
	t.Cleanup(server.Close)
	return &stage{t, server.URL}
}

// send sends a request; headers are names and values by turns; an empty value takes a header away. A path is below /ojs/v1
// unless it begins with a colon.
func (s *stage) send(method, path, body string, headers ...string) *heard {
	s.t.Helper()
	full, atRoot := strings.CutPrefix(path, ":")
	if !atRoot {
		full = "/ojs/v1" + path
	}
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+full, content)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i+1] == "" {
			r.Header.Del(headers[i])
		}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	h := &heard{t: s.t, what: method + " " + full, status: answer.StatusCode, header: answer.Header, text: string(raw)}
	_ = json.Unmarshal(raw, &h.body) // metrics are no JSON
	return h
}

// ok is send for what must succeed.
func (s *stage) ok(method, path, body string, headers ...string) *heard {
	s.t.Helper()
	return s.send(method, path, body, headers...).is(200, 201)
}

// push enqueues a job and returns its id.
func (s *stage) push(body string, headers ...string) string {
	s.t.Helper()
	return s.ok("POST", "/jobs", body, headers...).is(201).str("id")
}

// fetch claims up to n jobs of a queue.
func (s *stage) fetch(queue string, n int, headers ...string) *heard {
	s.t.Helper()
	return s.ok("POST", "/workers/fetch", fmt.Sprintf(`{"queues":[%q],"count":%d,"worker_id":"w"}`, queue, n), headers...)
}

// dead makes a dead letter and returns its id.
func (s *stage) dead() string {
	s.t.Helper()
	id := s.push(`{"type":"dlq.test","args":[],"options":{"queue":"dlq-test","retry":{"max_attempts":1,"on_exhaustion":"dead_letter"}}}`)
	s.fetch("dlq-test", 1).has("jobs.0.id", id)
	s.ok("POST", "/workers/nack", `{"job_id":"`+id+`","error":{"code":"handler_error","message":"m","retryable":true}}`).has("state", "discarded")
	return id
}

func (h *heard) is(statuses ...int) *heard {
	h.t.Helper()
	for _, s := range statuses {
		if h.status == s {
			return h
		}
	}
	h.t.Fatalf("%s: %d, want %v: %s", h.what, h.status, statuses, h.text)
	return h
}

// at is what stands at a path such as jobs.0.id; nil for nothing.
func (h *heard) at(path string) any {
	v := h.body
	for _, step := range strings.Split(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}

// has wants a value at a path.
func (h *heard) has(path string, want any) *heard {
	h.t.Helper()
	if n, ok := want.(int); ok {
		want = float64(n)
	}
	if got := h.at(path); !reflect.DeepEqual(got, want) {
		h.t.Errorf("%s: %s is %v, want %v: %s", h.what, path, got, want, h.text)
	}
	return h
}

// hasJSON wants a value at a path, written as JSON.
func (h *heard) hasJSON(path, want string) *heard {
	h.t.Helper()
	var v any
	if err := json.Unmarshal([]byte(want), &v); err != nil {
		h.t.Fatal(err)
	}
	return h.has(path, v)
}

func (h *heard) str(path string) string {
	h.t.Helper()
	s, ok := h.at(path).(string)
	if !ok || s == "" {
		h.t.Fatalf("%s: %s is no text: %s", h.what, path, h.text)
	}
	return s
}

func (h *heard) numbers(paths ...string) *heard {
	h.t.Helper()
	for _, p := range paths {
		if _, ok := h.at(p).(float64); !ok {
			h.t.Errorf("%s: %s is no number: %s", h.what, p, h.text)
		}
	}
	return h
}

func (h *heard) list(path string) []any {
	h.t.Helper()
	l, ok := h.at(path).([]any)
	if !ok {
		h.t.Fatalf("%s: %s is no array: %s", h.what, path, h.text)
	}
	return l
}

// named is the element of a list whose member has a value.
func (h *heard) named(path, member, value string) map[string]any {
	h.t.Helper()
	for _, e := range h.list(path) {
		if o, ok := e.(map[string]any); ok && o[member] == value {
			return o
		}
	}
	h.t.Fatalf("%s: nothing at %s whose %s is %s: %s", h.what, path, member, value, h.text)
	return nil
}

type extensionCase struct {
	name string
	play func(*stage)
}

func playCases(t *testing.T, cases []extensionCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.play(newStage(t))
		})
	}
}

func TestSuiteOfTheAdministrator(t *testing.T) {
	playCases(t, []extensionCase{
		{"EXT-ADM-001", func(s *stage) {
			s.push(`{"type":"a.b","args":[]}`)
			s.ok("GET", "/admin/stats", "").numbers("queues", "workers", "jobs.available", "jobs.active", "jobs.completed", "jobs.discarded").has("jobs.available", 1)
		}},
		{"EXT-ADM-002", func(s *stage) {
			s.push(`{"type":"a.b","args":[],"options":{"queue":"adm"}}`)
			q := s.ok("GET", "/admin/queues", "").named("items", "name", "adm")
			if q["counts"].(map[string]any)["available"] != 1.0 {
				s.t.Errorf("%v", q)
			}
		}},
		{"EXT-ADM-003", func(s *stage) {
			s.ok("POST", "/admin/queues/adm/pause", "").has("paused", true).has("name", "adm")
			s.ok("POST", "/admin/queues/adm/resume", "").has("paused", false).has("name", "adm")
		}},
		{"EXT-ADM-004", func(s *stage) {
			id := s.push(`{"type":"adm.one","args":[7],"meta":{"k":"v"}}`)
			s.ok("GET", "/admin/jobs/"+id, "").has("id", id).has("type", "adm.one").has("state", "available").hasJSON("args", "[7]").hasJSON("errors", "[]").
				has("retry_policy.max_attempts", 3).has("metadata.started_at", nil).has("job.meta.k", "v")
			s.ok("GET", "/admin/jobs?page=1&per_page=5", "").has("items.0.id", id).has("pagination.page", 1).has("pagination.per_page", 5)
		}},
		{"EXT-ADM-005", func(s *stage) {
			s.ok("POST", "/workers/beat", `{"worker_id":"w1","active_jobs":[]}`)
			r := s.ok("GET", "/admin/workers", "").has("summary.total", 1).has("summary.running", 1)
			if w := r.named("items", "id", "w1"); w["active_jobs"] != 0.0 {
				s.t.Errorf("%v", w)
			}
		}},
		{"EXT-ADM-006", func(s *stage) {
			s.send("POST", "/admin/jobs/bulk/retry", `{"filter":{"state":"discarded"},"confirm":false}`).is(400).has("error.code", "invalid_request")
		}},
		{"EXT-DLQ-001", func(s *stage) {
			id := s.dead()
			r := s.ok("GET", "/admin/dead-letter?page=1&per_page=20", "").has("pagination.page", 1).has("pagination.per_page", 20)
			r.named("items", "id", id)
		}},
		{"EXT-DLQ-002", func(s *stage) {
			s.dead()
			s.ok("GET", "/admin/dead-letter/stats", "").has("total", 1)
		}},
		{"EXT-DLQ-003", func(s *stage) {
			id := s.dead()
			s.ok("POST", "/admin/dead-letter/"+id+"/retry", `{}`).is(200).has("state", "available").has("attempt", 0)
			s.send("POST", "/admin/dead-letter/"+id+"/retry", `{}`).is(404)
		}},
		{"EXT-DLQ-004", func(s *stage) {
			id := s.dead()
			if r := s.send("DELETE", "/admin/dead-letter/"+id, "").is(204); r.text != "" {
				s.t.Errorf("a 204 with a body: %s", r.text)
			}
			s.send("GET", "/jobs/"+id, "").is(404)
		}},
	})
}

func TestSuiteOfBackpressureAndLimits(t *testing.T) {
	bound := func(s *stage, n int) {
		s.ok("PUT", "/admin/queues/bp/config", fmt.Sprintf(`{"backpressure":{"max_depth":%d,"strategy":"reject"}}`, n))
	}
	const one = `{"type":"bp.test","args":[],"options":{"queue":"bp"}}`
	playCases(t, []extensionCase{
		{"EXT-BP-001", func(s *stage) {
			bound(s, 2)
			s.push(one)
			s.push(one)
			r := s.send("POST", "/jobs", one).is(429).has("error.code", "QUEUE_FULL").has("error.retryable", true)
			if n, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || n < 1 {
				s.t.Errorf("Retry-After: %q", r.header.Get("Retry-After"))
			}
		}},
		{"EXT-BP-002", func(s *stage) {
			bound(s, 1)
			s.push(one)
			r := s.send("POST", "/jobs", one).is(429)
			if r.header.Get("X-OJS-Queue-Depth") != "1" || r.header.Get("X-OJS-Queue-Bound") != "1" {
				s.t.Errorf("%v", r.header)
			}
		}},
		{"EXT-BP-003", func(s *stage) {
			bound(s, 10)
			for range 8 {
				s.push(one)
			}
			r := s.ok("POST", "/jobs", one).is(201)
			if r.header.Get("X-OJS-Queue-Pressure") != "0.90" || len(r.list("warnings")) == 0 {
				s.t.Errorf("%v %s", r.header, r.text)
			}
		}},
		{"EXT-BP-004", func(s *stage) {
			s.push(one)
			s.ok("GET", "/queues/bp/stats", "").has("stats.depth", 1).has("stats.queue", "bp")
		}},
		{"EXT-BP-005", func(s *stage) {
			bound(s, 2)
			s.send("POST", "/jobs/batch", `{"jobs":[`+one+`,`+one+`,`+one+`]}`).is(201, 207, 429)
			s.ok("GET", "/queues/bp/stats", "").has("stats.depth", 0)
		}},
		{"EXT-RL-001", func(s *stage) {
			for range 2 {
				s.push(`{"type":"rl.test","args":[],"options":{"queue":"rl","rate_limit":{"key":"k","concurrency":1}}}`)
			}
			if n := len(s.fetch("rl", 2).list("jobs")); n != 1 {
				s.t.Errorf("%d jobs", n)
			}
		}},
		{"EXT-RL-002", func(s *stage) {
			s.push(`{"type":"rl.test","args":[],"options":{"queue":"rl","rate_limit":{"key":"acme.api","concurrency":3}}}`)
			s.ok("GET", "/rate-limits/acme.api", "").has("key", "acme.api").has("concurrency", 3)
			s.send("GET", "/rate-limits/other", "").is(404)
		}},
		{"EXT-RL-003", func(s *stage) {
			var ids []string
			for range 2 {
				ids = append(ids, s.push(`{"type":"rl.test","args":[],"options":{"queue":"rl","rate_limit":{"key":"k","concurrency":1,"on_limit":"wait"}}}`))
			}
			s.fetch("rl", 2)
			s.ok("GET", "/jobs/"+ids[1], "").has("job.state", "available")
		}},
		{"EXT-RL-004", func(s *stage) {
			r := s.ok("POST", "/jobs", `{"type":"rl.test","args":[],"options":{"queue":"rl","rate_limit":{"key":"k","rate":1,"period":"second"}}}`).is(201)
			if r.header.Get("X-RateLimit-Limit") != "1" {
				s.t.Errorf("%v", r.header)
			}
		}},
		{"EXT-RL-005", func(s *stage) {
			for _, key := range []string{"a", "b", "a"} {
				s.push(`{"type":"rl.test","args":[],"options":{"queue":"rl","rate_limit":{"key":"` + key + `","concurrency":1}}}`)
			}
			if n := len(s.fetch("rl", 3).list("jobs")); n != 2 {
				s.t.Errorf("%d jobs of two keys", n)
			}
		}},
		{"EXT-FS-001", func(s *stage) {
			s.ok("PUT", "/admin/pools/main", `{"strategy":"weighted","queues":[{"name":"a","weight":3},{"name":"b","weight":1}]}`).has("pool.name", "main").has("pool.strategy", "weighted")
		}},
		{"EXT-FS-002", func(s *stage) {
			if _, ok := s.ok("GET", "/admin/scheduling/stats", "").at("stats").(map[string]any); !ok {
				s.t.Error("there are no stats")
			}
		}},
		{"EXT-FS-003", func(s *stage) {
			s.push(`{"type":"fs.test","args":[],"options":{"queue":"b"}}`)
			s.ok("POST", "/workers/fetch", `{"queues":["a","b"],"count":2}`).is(200).has("jobs.0.queue", "b")
		}},
	})
}

func TestSuiteOfWorkersAndProgress(t *testing.T) {
	active := func(s *stage) string {
		id := s.push(`{"type":"prg.test","args":[],"options":{"queue":"prg"}}`)
		s.fetch("prg", 1).has("jobs.0.id", id)
		return id
	}
	playCases(t, []extensionCase{
		{"EXT-GS-001", func(s *stage) {
			s.ok("POST", "/workers/beat", `{"worker_id":"gs","active_jobs":2,"state":"drain"}`).has("acknowledged", true)
		}},
		{"EXT-GS-002", func(s *stage) {
			s.ok("POST", "/workers/beat", `{"worker_id":"gs","active_jobs":2,"state":"drain"}`)
			s.send("GET", "/workers/gs/health", "").is(200, 503).has("state", "drain").numbers("active_jobs")
		}},
		{"EXT-GS-003", func(s *stage) {
			s.push(`{"type":"gs.test","args":[],"options":{"queue":"gs"}}`)
			s.ok("POST", "/workers/beat", `{"worker_id":"gs","active_jobs":0,"state":"drain"}`)
			s.ok("POST", "/workers/fetch", `{"queues":["gs"],"worker_id":"gs"}`).is(200).hasJSON("jobs", "[]")
			s.ok("POST", "/workers/fetch", `{"queues":["gs"],"worker_id":"other"}`).has("jobs.0.type", "gs.test")
		}},
		{"EXT-PRG-001", func(s *stage) {
			s.ok("PUT", "/jobs/"+active(s)+"/progress", `{"progress":0.5}`).is(200).has("progress", 0.5).has("accepted", true)
		}},
		{"EXT-PRG-002", func(s *stage) {
			id := active(s)
			s.ok("PUT", "/jobs/"+id+"/progress", `{"progress":0.75,"message":"three quarters"}`)
			s.ok("GET", "/jobs/"+id+"/progress", "").has("progress", 0.75).has("message", "three quarters")
			s.ok("GET", "/jobs/"+id, "").has("job.progress", 0.75).has("job.progress_message", "three quarters")
		}},
		{"EXT-PRG-003", func(s *stage) {
			id := active(s)
			s.ok("PUT", "/jobs/"+id+"/progress", `{"progress":1.5}`).has("progress", 1)
			s.ok("GET", "/jobs/"+id+"/progress", "").has("progress", 1)
		}},
		{"L1-WASI", func(s *stage) {
			id := s.push(`{"type":"wasi.test","args":[],"options":{"queue":"wasi"}}`)
			s.ok("POST", "/jobs/fetch", `{"queues":["wasi"]}`).has("jobs.0.id", id)
			s.ok("POST", "/jobs/"+id+"/ack", `{"result":{"n":1}}`).has("state", "completed").has("job.state", "completed")
		}},
	})
}

// foreignMembers are members that no document knows, as the suites for agents, federation, models
// and the like send them, of every type.
const foreignMembers = `"version":2,"ext_agent_id":"agent-7","ext_ml_model":{"name":"m","temperature":0.70,"n":9007199254740993},"ext_fed_regions":["eu","us"],"ext_sls_cold":false,"ext_ai_tokens":1e2`

func TestSuiteOfWhatIsKept(t *testing.T) {
	kept := func(h *heard, at string) {
		h.t.Helper()
		h.has(at+"version", 2).has(at+"ext_agent_id", "agent-7").hasJSON(at+"ext_ml_model.name", `"m"`).hasJSON(at+"ext_fed_regions", `["eu","us"]`).has(at+"ext_sls_cold", false).
			has(at+"meta.ojs_codec_encodings.0", "binary/gzip").has(at+"meta.traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").has(at+"args.0", "H4sIAAAAAAAA")
		if !strings.Contains(h.text, `"n":9007199254740993`) || !strings.Contains(h.text, `"ext_ai_tokens":1e2`) || !strings.Contains(h.text, `0.70`) {
			h.t.Errorf("%s: a number is not as it was: %s", h.what, h.text)
		}
	}
	const body = `{"type":"keep.test","args":["H4sIAAAAAAAA"],"meta":{"ojs_codec_encodings":["binary/gzip"],"ojs_encryption_key_id":"k1","traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},` +
		`"options":{"queue":"keep","retry":{"initial_interval":"PT0.05S","jitter":false}},` + foreignMembers + `}`
	playCases(t, []extensionCase{
		{"EXT-ENC-001..010, EXT-OBS-001, EXT-VER-001..006, EXT-AI, EXT-FED, EXT-ML, EXT-SLS", func(s *stage) {
			r := s.ok("POST", "/jobs", body).is(201)
			kept(r, "job.")
			id := r.str("id")
			kept(s.ok("GET", "/jobs/"+id, ""), "job.")
			kept(s.fetch("keep", 1), "jobs.0.")
			kept(s.ok("POST", "/workers/nack", `{"job_id":"`+id+`","error":{"code":"handler_error","message":"m","retryable":true}}`).has("state", "retryable"), "job.")
			kept(s.ok("POST", "/workers/fetch", `{"queues":["keep"],"block_ms":10000}`).has("jobs.0.attempt", 2), "jobs.0.")
			kept(s.ok("POST", "/workers/ack", `{"job_id":"`+id+`"}`).has("job.state", "completed"), "job.")
			kept(s.ok("GET", "/jobs/"+id, ""), "job.")
			kept(s.ok("GET", "/jobs?queue=keep", ""), "jobs.0.")
		}},
		{"the same of a batch", func(s *stage) {
			r := s.ok("POST", "/jobs/batch", `{"jobs":[{"type":"a.b","args":[]},`+body+`]}`).is(201).has("count", 2)
			kept(r, "jobs.1.")
			kept(s.fetch("keep", 2), "jobs.0.")
		}},
		{"EXT-MW-001", func(s *stage) {
			if _, ok := s.ok("POST", "/jobs", `{"type":"mw.test","args":[]}`).at("job.meta").(map[string]any); !ok {
				s.t.Error("there is no meta")
			}
		}},
		{"EXT-MW-002", func(s *stage) {
			r := s.send("POST", "/jobs", `{"type":"mw.reject","args":[1],"meta":{"ojs_validate":true}}`).is(422).has("error.code", "x_middleware_rejected")
			r.str("error.message")
			s.send("POST", "/jobs", `{"type":"mw.test","args":[],"meta":{"ojs_validate":true}}`).is(422)
			s.push(`{"type":"mw.test","args":[1],"meta":{"ojs_validate":true}}`)
		}},
		{"EXT-MW-003, EXT-MW-004", func(s *stage) {
			r := s.ok("POST", "/jobs", `{"type":"mw.test","args":[{"a":1}],"options":{"queue":"mw"}}`, "X-Request-ID", "trace-7").is(201).hasJSON("job.args", `[{"a":1}]`).has("job.queue", "mw")
			if r.header.Get("X-Request-Id") != "trace-7" {
				s.t.Errorf("%v", r.header)
			}
		}},
	})
}

func TestSuiteOfTenants(t *testing.T) {
	const of = "X-OJS-Tenant"
	const one = `{"type":"mt.test","args":[],"options":{"queue":"mt"}}`
	playCases(t, []extensionCase{
		{"EXT-MT-001", func(s *stage) {
			s.ok("POST", "/jobs", one, of, "acme").has("job.meta.tenant_id", "acme")
		}},
		{"EXT-MT-002, EXT-MT-005", func(s *stage) {
			id := s.push(one, of, "acme")
			s.fetch("mt", 5, of, "globex").hasJSON("jobs", "[]")
			s.fetch("mt", 5, of, "acme").has("jobs.0.id", id)
		}},
		{"EXT-MT-003", func(s *stage) {
			s.push(one, of, "acme")
			s.ok("GET", "/admin/tenants/acme/stats", "").has("tenant_id", "acme").has("total_jobs", 1)
			s.ok("GET", "/admin/tenants/nobody/stats", "").has("total_jobs", 0)
			s.ok("GET", "/admin/tenants", "").has("items.0.id", "acme").has("items.0.total_jobs", 1).has("total", 1)
			s.ok("GET", "/admin/tenants/acme/jobs", "").has("items.0.meta.tenant_id", "acme").has("total", 1)
			s.send("PUT", "/admin/tenants/acme/limits", `{"max_jobs":1}`).is(422).has("error.code", "unsupported")
		}},
		{"EXT-MT-004", func(s *stage) {
			s.push(one, of, "acme")
			s.ok("GET", "/queues/mt", "", of, "acme").has("queue.name", "mt")
		}},
		{"EXT-MT-006", func(s *stage) {
			s.ok("POST", "/jobs", one).is(201).has("job.meta.tenant_id", nil)
		}},
		{"EXT-MT-007", func(s *stage) {
			s.ok("POST", "/jobs/batch", `{"jobs":[`+one+`,`+one+`]}`, of, "acme").has("jobs.0.meta.tenant_id", "acme").has("jobs.1.meta.tenant_id", "acme")
		}},
		{"EXT-MT-008", func(s *stage) {
			id := s.push(one, of, "acme")
			s.send("POST", "/jobs/"+id+"/cancel", "", of, "globex").is(403, 404)
			s.ok("GET", "/jobs/"+id, "").has("job.state", "available")
			s.ok("POST", "/jobs/"+id+"/cancel", "", of, "acme").has("job.state", "cancelled")
		}},
	})
}

func TestSuiteOfSchemas(t *testing.T) {
	const schema = `{"schema":{"type":"array","prefixItems":[{"type":"object","required":["to"]}]}}`
	playCases(t, []extensionCase{
		{"EXT-VER-002", func(s *stage) {
			s.ok("PUT", "/admin/schemas/mail.send/2", schema).has("type", "mail.send").has("version", 2)
		}},
		{"EXT-SCH-001..005", func(s *stage) {
			s.ok("PUT", "/admin/schemas/mail.send/1", schema).has("version", 1)
			s.ok("PUT", "/admin/schemas/mail.send/2", schema)
			r := s.ok("GET", "/admin/schemas", "")
			if len(r.list("schemas")) != 2 || len(r.list("items")) != 2 {
				s.t.Errorf("%s", r.text)
			}
			s.ok("GET", "/admin/schemas/mail.send", "").has("version", 2)
			s.ok("GET", "/admin/schemas/mail.send/1", "").has("version", 1)
		}},
		{"EXT-SCH-006", func(s *stage) {
			s.ok("PUT", "/admin/schemas/mail.send/1", schema)
			s.send("PUT", "/admin/schemas/mail.send/1", schema).is(409).has("error.code", "conflict")
		}},
		{"EXT-SCH-007..009", func(s *stage) {
			s.send("PUT", "/admin/schemas/mail.send/1", `{}`).is(400)
			s.send("GET", "/admin/schemas/nobody.knows", "").is(404)
			s.send("GET", "/admin/schemas/mail.send/9", "").is(404)
			s.send("DELETE", "/admin/schemas/mail.send/9", "").is(404)
		}},
		{"EXT-SCH-010..012", func(s *stage) {
			s.ok("PUT", "/admin/schemas/mail.send/1", schema)
			s.ok("PUT", "/admin/schemas/mail.send/2", schema)
			s.ok("DELETE", "/admin/schemas/mail.send/2", "").is(200)
			s.ok("GET", "/admin/schemas/mail.send", "").has("version", 1)
			s.send("POST", "/jobs", `{"type":"mail.send","version":1,"args":[{}]}`).is(400).has("error.code", "schema_validation")
			s.push(`{"type":"mail.send","version":1,"args":[{"to":"a@b.c"}]}`)
		}},
	})
}

func TestSuiteOfCheckpoints(t *testing.T) {
	playCases(t, []extensionCase{
		{"EXT-DUR-001..010", func(s *stage) {
			id := s.push(`{"type":"dur.test","args":[],"options":{"queue":"dur"}}`)
			s.send("GET", "/jobs/"+id+"/checkpoint", "").is(404)
			s.ok("PUT", "/jobs/"+id+"/checkpoint", `{"state":{"row":1},"metadata":{"by":"me"}}`).is(200).has("sequence", 1).has("state.row", 1)
			s.ok("PUT", "/jobs/"+id+"/checkpoint", `{"state":{"page":2}}`).has("sequence", 2).has("state.row", nil)
			s.ok("GET", "/jobs/"+id+"/checkpoint", "").has("state.page", 2).has("sequence", 2)
			s.ok("DELETE", "/jobs/"+id+"/checkpoint", "").has("deleted", true)
			s.ok("DELETE", "/jobs/"+id+"/checkpoint", "").has("deleted", false)
			s.ok("POST", "/jobs/"+id+"/checkpoint", `{"state":{}}`).has("sequence", 1)
		}},
		{"EXT-DUR-011..018", func(s *stage) {
			id := s.push(`{"type":"dur.test","args":[],"options":{"queue":"dur","retry":{"initial_interval":"PT0.05S","jitter":false}}}`)
			s.fetch("dur", 1)
			s.ok("PUT", "/jobs/"+id+"/checkpoint", `{"state":{"row":7}}`)
			s.ok("POST", "/workers/nack", `{"job_id":"`+id+`","error":{"code":"handler_error","message":"m","retryable":true}}`)
			s.ok("GET", "/jobs/"+id+"/checkpoint", "").has("state.row", 7)
			s.ok("POST", "/workers/fetch", `{"queues":["dur"],"block_ms":10000}`).has("jobs.0.last_checkpoint.row", 7)
			s.ok("POST", "/workers/ack", `{"job_id":"`+id+`"}`)
			s.send("PUT", "/jobs/"+id+"/checkpoint", `{"state":{"row":8}}`).is(409).has("error.code", "conflict")
			s.send("PUT", "/jobs/01970000-0000-7000-8000-000000000009/checkpoint", `{"state":{}}`).is(404)
		}},
		{"EXT-DUR-019..022", func(s *stage) {
			for _, base := range []string{"/checkpoints/", "/ojs/v1/checkpoints/"} {
				id := s.push(`{"type":"dur.test","args":[]}`)
				s.ok("GET", base+id+"/resume", "").has("has_checkpoint", false)
				s.ok("POST", base+id, `{"state":{"n":3},"step_index":2}`)
				s.ok("GET", base+id+"/resume", "").has("has_checkpoint", true).has("checkpoint.state.n", 3).has("checkpoint.step_index", 2)
				s.ok("DELETE", base+id, "")
			}
		}},
	})
}

func TestSuiteOfSeeing(t *testing.T) {
	playCases(t, []extensionCase{
		{"EXT-OBS-002", func(s *stage) {
			s.ok("GET", "/health", "").has("status", "ok").has("backend.status", "ok").has("queues.total", 1)
			s.push(`{"type":"a.b","args":[],"options":{"queue":"other"}}`)
			s.ok("GET", "/health", "").has("queues.total", 2)
			s.push(`{"type":"a.b","args":[]}`)
			s.ok("GET", "/health", "").has("queues.total", 2)
		}},
		{"EXT-OBS-003", func(s *stage) {
			s.push(`{"type":"a.b","args":[],"options":{"queue":"seen"}}`)
			r := s.ok("GET", ":/metrics", "", "Accept", "text/plain").is(200)
			if got := r.header.Get("Content-Type"); got != "text/plain" {
				s.t.Errorf("Content-Type: %q", got)
			}
			for _, line := range []string{`ojs_queue_depth{queue="seen",state="available"} 1`, `ojs_job_enqueued_total{queue="seen"} 1`, `ojs_dead_letter_depth{queue="seen"} 0`, `ojs_workers{state="running"} 0`} {
				if !strings.Contains(r.text, line+"\n") {
					s.t.Errorf("there is no %s in\n%s", line, r.text)
				}
			}
			r = s.ok("GET", ":/metrics", "")
			if got := r.header.Get("Content-Type"); got != "text/plain; version=0.0.4; charset=utf-8" {
				s.t.Errorf("Content-Type: %q", got)
			}
			s.ok("GET", "/metrics", "").has("jobs_enqueued_total", 1).has("jobs_active", 0).has("queues_active", 1).numbers("uptime_seconds", "workers_active", "avg_latency_ms", "throughput_per_second")
		}},
		{"EXT-OBS-004", func(s *stage) {
			s.send("GET", ":/ready", "").is(200, 503).has("status", "ok")
		}},
		{"EXT-OBS-005", func(s *stage) {
			if r := s.ok("GET", ":/health", "", "X-Request-ID", "probe-1"); r.header.Get("X-Request-Id") != "probe-1" {
				s.t.Errorf("%v", r.header)
			}
			if r := s.ok("GET", ":/health", ""); r.header.Get("X-Request-Id") == "" {
				s.t.Errorf("%v", r.header)
			}
		}},
		{"L0-OPS-030..033", func(s *stage) {
			r := s.send("GET", "/jobs/01970000-0000-7000-8000-000000000009", "").is(404).has("error.code", "not_found").has("error.retryable", false)
			r.str("error.hint")
			r.str("error.docs_url")
			if got := r.header.Get("Content-Type"); got != "application/openjobspec+json" {
				s.t.Errorf("Content-Type: %q", got)
			}
			id := s.push(`{"type":"a.b","args":[]}`)
			s.send("POST", "/workers/ack", `{"job_id":"`+id+`"}`).is(409).has("error.code", "conflict")
			s.send("POST", "/jobs", `{"args":[]}`).is(400).has("error.code", "invalid_request")
		}},
	})
}

// A purge as the public command line sends it, which has asked its user before: neither
// query nor body. An administrator's needs a word.
func TestPurgeWithoutAFilter(t *testing.T) {
	for _, c := range []struct{ method, path, body string }{{"DELETE", "/dead-letter", ""}, {"POST", "/dead-letter/purge", ""}, {"POST", "/dead-letter/purge", "{}"},
		{"DELETE", "/admin/dead-letter", `{"confirm":true}`}} {
		s := newStage(t)
		ids := []string{s.dead(), s.dead()}
		s.send(c.method, "/dead-letter"+map[string]string{"POST": "/purge"}[c.method], `{"queue":"x"}`).is(400)
		s.send("DELETE", "/admin/dead-letter", `{}`).is(400)
		s.ok(c.method, c.path+"?older_than=1h", c.body).has("deleted", 0)
		s.ok(c.method, c.path, c.body).has("deleted", 2)
		s.send("GET", "/jobs/"+ids[0], "").is(404)
	}
}

// A client of a version that repeats its ACK, is refused, and goes on to a FAIL, is told
// how the job has ended. Who sends no version is refused, and nothing changes for either.
func TestFailOfAnEndedJobByProfile(t *testing.T) {
	ends := map[string]func(*stage, string){
		"completed": func(s *stage, id string) { s.ok("POST", "/workers/ack", `{"job_id":"`+id+`","result":7}`) },
		"cancelled": func(s *stage, id string) { s.ok("DELETE", "/jobs/"+id, "") },
		"discarded": func(s *stage, id string) {
			s.ok("POST", "/workers/nack", `{"job_id":"`+id+`","error":{"code":"DISCARD","message":"m"}}`)
		},
	}
	const failed = `","error":{"code":"handler_error","message":"the acknowledgement failed","retryable":true}}`
	for state, end := range ends {
		t.Run(state, func(t *testing.T) {
			s := newStage(t)
			id := s.push(`{"type":"a.b","args":[]}`)
			token := s.fetch("default", 1).str("jobs.0.lease_token")
			end(s, id)
			before := s.ok("GET", "/jobs/"+id, "").text
			events := s.ok("GET", "/jobs/"+id+"/history", "").text
			for _, version := range []string{"1.0", "1.0.0", "1", "1.0.0-rc.1"} {
				s.send("POST", "/workers/ack", `{"job_id":"`+id+`"}`, "OJS-Version", version).is(409)
				s.ok("POST", "/workers/nack", `{"job_id":"`+id+failed, "OJS-Version", version).is(200).has("state", state).has("job.state", state).has("job_id", id)
			}
			s.send("POST", "/workers/nack", `{"job_id":"`+id+failed).is(409).has("error.code", "conflict").has("error.details.current_state", state)
			s.send("POST", "/workers/nack", `{"lease_token":"`+token+`","job_id":"`+id+failed, "OJS-Version", "1.0").is(409)
			if after := s.ok("GET", "/jobs/"+id, "").text; after != before {
				t.Errorf("before %s\nafter  %s", before, after)
			}
			if after := s.ok("GET", "/jobs/"+id+"/history", "").text; after != events {
				t.Errorf("before %s\nafter  %s", events, after)
			}
		})
	}
	s := newStage(t) // of jobs that have not ended nothing is glossed over
	id := s.push(`{"type":"a.b","args":[]}`)
	s.send("POST", "/workers/nack", `{"job_id":"`+id+failed, "OJS-Version", "1.0").is(409)
	s.fetch("default", 1)
	s.send("POST", "/workers/nack", `{"worker_id":"other","job_id":"`+id+failed, "OJS-Version", "1.0").is(409).has("error.details.reason", "lease_lost")
	s.send("POST", "/workers/nack", `{"job_id":"01970000-0000-7000-8000-000000000009`+failed, "OJS-Version", "1.0").is(404)
}

// A worker of each public SDK is told to be quiet, says so with every beat from then on,
// and goes on once the operator lets it: what it only echoes holds it no longer. As long as
// the operator's word stands, no word of the worker undoes it.
func TestADirectiveThatIsEchoed(t *testing.T) {
	for name, c := range map[string]struct{ version, beat string }{
		"Go":         {"1.0.0-rc.1", `{"worker_id":"w","active_jobs":0,"active_job_ids":[],"state":"%s"}`},
		"JavaScript": {"1.0", `{"worker_id":"w","active_jobs":0,"active_job_ids":[],"state":"%s"}`},
		"Python":     {"1.0", `{"worker_id":"w","active_jobs":[],"state":"%s","visibility_timeout_ms":30000}`},
	} {
		for _, wish := range []string{"quiet", "terminate"} {
			t.Run(name+" "+wish, func(t *testing.T) {
				s := newStage(t)
				beat := func(says, want string) {
					t.Helper()
					s.ok("POST", "/workers/heartbeat", fmt.Sprintf(c.beat, says), "OJS-Version", c.version).has("state", want).has("directive", want)
				}
				fetch := func(want int) {
					t.Helper()
					id := s.push(`{"type":"a.b","args":[]}`)
					r := s.ok("POST", "/workers/fetch", `{"queues":["default"],"worker_id":"w"}`, "OJS-Version", c.version)
					if got := len(r.list("jobs")); got != want {
						t.Errorf("%d jobs, want %d", got, want)
					}
					s.ok("DELETE", "/jobs/"+id, "")
				}
				beat("running", "running")
				s.ok("POST", "/admin/workers/w/"+wish, "")
				beat("running", wish) // it has not heard of it yet
				beat(wish, wish)
				fetch(0)
				beat("running", wish) // no word of its own undoes an operator's
				beat(wish, wish)
				fetch(0)
				s.ok("POST", "/admin/workers/w/resume", "")
				beat(wish, "running") // it only echoes
				beat(wish, "running")
				fetch(1)
				beat("running", "running")
				beat(wish, wish) // now it says so of itself
				fetch(0)
			})
		}
	}
}

// What clients read of a worker: its labels as it gave them, and the queues that it
// fetches from where it names none.
func TestWorkersAreShownAsTheyAre(t *testing.T) {
	s := newStage(t)
	s.ok("POST", "/workers/heartbeat", `{"worker_id":"w","active_jobs":0,"labels":["gpu","eu"]}`)
	s.ok("POST", "/workers/fetch", `{"queues":["b","a"],"worker_id":"w"}`)
	s.ok("GET", "/workers/w", "").hasJSON("labels", `["gpu","eu"]`).hasJSON("worker.queues", `["b","a"]`)
	s.ok("GET", "/workers", "").hasJSON("workers.0.queues", `["b","a"]`)
	s.ok("GET", "/admin/workers", "").hasJSON("items.0.labels", `["gpu","eu"]`)
	s.send("DELETE", "/admin/workers/w", "").is(409)
	s.send("DELETE", "/admin/workers/nobody", "").is(404)
}

// A policy whose first delay is longer than the longest one it inherits is told which of
// the two is which (contract C-48).
func TestACrossedPolicyIsExplained(t *testing.T) {
	s := newStage(t)
	for retry, want := range map[string]string{
		`{"initial_interval":"PT10M"}`:                        "retry.max_interval is inherited as PT300S, shorter than the initial_interval PT600S of this policy; set max_interval to PT600S or more as well",
		`{"max_interval":"PT0.5S"}`:                           "retry.max_interval is PT0.5S, shorter than the inherited initial_interval PT1S; set it to PT1S or more, or a shorter initial_interval as well",
		`{"initial_interval":"PT10S","max_interval_ms":2000}`: "retry.max_interval is PT2S, shorter than initial_interval PT10S; set it to PT10S or more",
	} {
		r := s.send("POST", "/jobs", `{"type":"a.b","args":[],"options":{"retry":`+retry+`}}`).is(422).has("error.type", "validation_error").has("error.details.field", "retry.max_interval")
		if got := r.str("error.message"); !strings.HasPrefix(got, want) {
			t.Errorf("%s\ngot  %s\nwant %s", retry, got, want)
		}
	}
}

// A maintenance outlives a restart.
func TestMaintenanceOutlivesARestart(t *testing.T) {
	store := openStore(t)
	open := func() *stage {
		server := httptest.NewServer(httpapi.New(sidecar.New(store, sidecar.Options{}), httpapi.Options{Log: slog.New(slog.DiscardHandler)}))
		t.Cleanup(server.Close)
		return &stage{t, server.URL}
	}
	first := open()
	first.push(`{"type":"a.b","args":[]}`)
	first.ok("POST", "/admin/system/maintenance", `{"enabled":true,"reason":"a new disk","estimated_duration":"1h"}`).has("maintenance", true)
	again := open()
	r := again.ok("GET", "/admin/maintenance", "").has("enabled", true).has("reason", "a new disk")
	if ends, err := time.Parse(time.RFC3339, r.str("ends_at")); err != nil || time.Until(ends) < 50*time.Minute {
		t.Errorf("%s, %v", r.text, err)
	}
	again.fetch("default", 1).hasJSON("jobs", "[]")
	again.ok("GET", "/health", "").has("status", "ok").has("maintenance.reason", "a new disk")
	again.ok("GET", "/admin/stats", "").has("maintenance.reason", "a new disk")
	again.ok("POST", "/admin/maintenance", `{"enabled":false}`).has("enabled", false)
	again.fetch("default", 1).has("jobs.0.type", "a.b")
	open().ok("GET", "/health", "").has("maintenance", nil)
}
