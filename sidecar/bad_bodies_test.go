package sidecar_test

import (
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
)

var update = flag.Bool("update", false, "rewrite the golden answers in testdata")

const badGolden = "testdata/bad_bodies.golden"

// A body is written short here; badBodies makes it whole.
type badBodies struct {
	verb, path string
	whole      func(string) string
	bodies     []string
}

func inside(before, after string) func(string) string {
	return func(s string) string { return before + s + after }
}

func as(s string) string { return s }

var (
	nest    = func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	long    = func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	mebi    = 1 << 20
	unknown = `"job_id":"0197f6a0-0000-7000-8000-00000000dead"`
)

// What httpapi's own table of bad bodies holds is not repeated here: these go on
// to the edges (contract §2.2, §2.4, §3.8 to §3.11).
var bads = []badBodies{
	{"PUSH", "/ojs/v1/jobs", as, []string{
		"\x00", "\xff\xfe{}", "tru", "-", "1e400", `"\ud800"`, nest(129), `{"type":"a.b","args":[]`, `{"type":"a.b","args":[1e]}`,
		`{"type":"a.b","args":["\x"]}`, "{\"type\":\"a.b\",\"args\":[\"a\nb\"]}", `{"type":"a.b","args":["` + "\xed\xa0\x80" + `"]}`,
		`{"type":"a.b","args":["` + "\xc0\xaf" + `"]}`, `{"type":"a.b","args":[-Infinity]}`, `{"type":"a.b","args":[+1]}`, `{"type":"a.b","args":[.5]}`,
		`{"args":[],"TYPE":"a.b"}`, `{"type":"a.b","ARGS":[]}`, `{"type":"a.b","args":[],"\u0074ype":"c.d"}`, `{"type":"a.b","args":[],"x":1,"x":1}`,
		`{"type":"a.b","args":[],"x\ud800":1,"x\udfff":2}`, `{"type":"a.b","args":` + nest(128) + `}`, `{"type":"a.b","args":[],"meta":{"a":` + nest(127) + `}}`,
		`{"type":"a.b","args":[` + long(mebi) + `]}`, `{"type":"a.b","args":[],"meta":{"a":` + long(64<<10) + `}}`,
	}},
	{"PUSH type", "/ojs/v1/jobs", inside(`{"args":[],"type":`, `}`), []string{
		`7`, `true`, `["a"]`, `{}`, `"a."`, `"a..b"`, `"1a.b"`, `"a._b"`, `"a.b c"`, `"a.-b.c"`, `"a-b.c.d"`, `"a.b.-c"`, `"A"`, `"é"`, `"a\u0000b"`, `"a\ud800"`, `"a/b"`,
		long(256), `"a.b\n"`, `" a.b"`,
	}},
	{"PUSH args", "/ojs/v1/jobs", inside(`{"type":"a.b","args":`, `}`), []string{`0`, `false`, `""`, `"[]"`, `1e400`}},
	{"PUSH member", "/ojs/v1/jobs", inside(`{"type":"a.b","args":[],`, `}`), []string{
		`"specversion":1`, `"specversion":null`, `"specversion":""`, `"specversion":"1.0.0-rc.2"`, `"specversion":"1.0.0-RC.1"`,
		`"id":7`, `"id":{}`, `"id":"0197f6a0000070008000000000000001"`, `"id":"0197f6a0-0000-7000-8000-00000000000g"`, `"id":"0197f6a0-0000-6000-8000-000000000001"`,
		`"id":"{0197f6a0-0000-7000-8000-000000000001}"`, `"id":"0197f6a0-0000-7000-8000-00000000000\u0000"`,
		`"queue":7`, `"queue":[]`, `"queue":"-a"`, `"queue":".a"`, `"queue":"a_b"`, `"queue":"a b"`, `"queue":"a/b"`, `"queue":"É"`, `"queue":"a\u0000"`, `"queue":"\udc00"`, `"queue":` + long(129),
		`"meta":7`, `"meta":"{}"`, `"metadata":[]`, `"options":{"meta":7}`, `"options":{"metadata":"x"}`, `"options":"x"`, `"options":7`,
		`"priority":-101`, `"priority":true`, `"priority":[]`, `"priority":"5"`, `"priority":"URGENT"`, `"priority":1e400`, `"priority":9223372036854775808`, `"priority":0.1`, `"options":{"priority":101}`,
		`"timeout":1.5`, `"timeout":"30"`, `"timeout":true`, `"timeout":{}`, `"timeout":9223372036854775808`, `"timeout":3153600001`, `"timeout_ms":-1`, `"timeout_ms":0.5`, `"timeout_ms":"PT1S"`, `"timeout_ms":1e400`,
		`"visibility_timeout":0`, `"visibility_timeout":-1`, `"visibility_timeout":"PT0S"`, `"visibility_timeout":"30s"`, `"visibility_timeout":1.5`, `"visibility_timeout":[]`, `"visibility_timeout_ms":0`, `"visibility_timeout_ms":"1"`, `"visibility_timeout_ms":1e18`,
		`"scheduled_at":1773567000`, `"scheduled_at":""`, `"scheduled_at":"tomorrow"`, `"scheduled_at":"2026-02-30T00:00:00Z"`, `"scheduled_at":"2026-03-15 09:30:00Z"`, `"scheduled_at":"2026-03-15T09:30Z"`,
		`"scheduled_at":"2026-03-15T24:00:00Z"`, `"scheduled_at":"2026-03-15T09:30:00+1"`, `"scheduled_at":"+5s"`, `"scheduled_at":"+PT"`, `"scheduled_at":"-PT5S"`, `"scheduled_at":"++PT5S"`, `"scheduled_at":"+P101Y"`,
		`"scheduled_at":"+PT99999999999999999999S"`, `"scheduled_at":"2026-03-15T09:30:00Z\u0000"`, `"delay_until":7`, `"delay_until":"later"`,
		`"delay":-1`, `"delay":true`, `"delay":"5s"`, `"delay":1e400`, `"delay":3153600001`, `"delay_ms":-1`, `"delay_ms":1.5`, `"delay_ms":"5"`,
		`"expires_at":7`, `"expires_at":"2026-03-15"`, `"expires_at":"2026-03-15T09:30:00"`, `"expires_at":"+P1"`, `"ttl_ms":-1`, `"ttl_ms":"1"`, `"enqueue_ttl":-1`, `"enqueue_ttl":"x"`, `"options":{"expires_at":"never"}`,
		`"pending":1`, `"pending":"true"`, `"pending":{}`, `"options":{"pending":"no"}`, `"options":{"pending":true,"pending":false}`,
		`"tags":"x"`, `"tags":[1]`, `"tags":{}`, `"tags":["a",["b"]]`, `"options":{"tags":7}`,
		`"scheduled_at":"2036-03-15T09:30:00Z","delay_ms":5`, `"delay":1,"delay_until":"PT2S"`, `"expires_at":"2036-03-15T09:30:00Z","ttl_ms":5`, `"ttl_ms":1,"enqueue_ttl":1`,
		`"max_attempts":-1`, `"max_attempts":"3"`, `"max_attempts":7,"retry":{"max_attempts":2}`, `"retry":{},"retry_policy":{}`, `"custom_job_id":""`, `"custom_job_id":7`,
		`"custom_job_id":"a","job_id":"b"`, `"options":{"job_id":"a","jobId":"b"}`,
		`"schema":7`, `"schema":""`, `"schema":"no-scheme"`, `"schema":":x"`, `"schema":"urn:a b"`,
	}},
	{"PUSH retry", "/ojs/v1/jobs", inside(`{"type":"a.b","args":[],"retry":`, `}`), []string{
		`7`, `"3"`, `true`, `[]`, `{"max_attempts":-1e3}`, `{"max_attempts":2147483648}`, `{"max_attempts":1e400}`, `{"max_attempts":true}`, `{"max_attempts":[]}`, `{"maxAttempts":-1}`,
		`{"initial_interval":1}`, `{"initial_interval":null}`, `{"initial_interval":""}`, `{"initial_interval":"P1.5D"}`, `{"initial_interval":"PT1S "}`, `{"initial_interval":"pt1s"}`, `{"initial_interval":"PT1H1H"}`,
		`{"initial_interval":"PT1M1H"}`, `{"initial_interval":"PT-1S"}`, `{"initial_interval":"P1Y","max_interval":"P101Y"}`, `{"initial_interval":"PT1\u0000S"}`, `{"initialInterval":"1s"}`,
		`{"initial_interval_ms":-1}`, `{"initial_interval_ms":1.5}`, `{"initial_interval_ms":"1"}`, `{"initial_interval_ms":9223372036854775808}`, `{"base_delay_ms":0}`,
		`{"backoff_coefficient":0}`, `{"backoff_coefficient":-2}`, `{"backoff_coefficient":0.9999999}`, `{"backoff_coefficient":1e400}`, `{"backoff_coefficient":true}`, `{"backoff_coefficient":null}`, `{"backoffCoefficient":"2"}`,
		`{"max_interval":"PT0S"}`, `{"max_interval":null}`, `{"max_interval":-1}`, `{"max_interval_ms":999}`, `{"max_interval_ms":1e400}`, `{"maxInterval":"x"}`, `{"initial_interval":"PT5M0.001S"}`,
		`{"jitter":null}`, `{"jitter":0.5}`, `{"jitter":[]}`, `{"non_retryable_errors":null}`, `{"non_retryable_errors":{}}`, `{"non_retryable_errors":["a",null]}`, `{"non_retryable_errors":[["a"]]}`, `{"nonRetryableErrors":"a"}`,
		`{"on_exhaustion":null}`, `{"on_exhaustion":true}`, `{"on_exhaustion":"DISCARD"}`, `{"on_exhaustion":"discard\u0000"}`, `{"onExhaustion":"keep"}`,
		`{"backoff_strategy":"Exponential"}`, `{"backoff_type":7}`, `{"strategy":null}`, `{"backoff":{}}`, `{"retries":3}`, `{"":1}`, `{"\ud800":1}`, `{"jitter":true,"jitter":true}`,
		`{"max_attempts":1,"maxAttempts":1}`, `{"initial_interval":"PT1S","initial_interval_ms":1000}`, `{"max_interval":"PT9M","maxInterval":"PT9M"}`, `{"backoff_coefficient":2,"backoffCoefficient":2}`,
		`{"non_retryable_errors":[],"nonRetryableErrors":[]}`, `{"on_exhaustion":"discard","onExhaustion":"discard"}`, `{"backoff_strategy":"linear","strategy":"linear"}`,
	}},
	{"PUSH options", "/ojs/v1/jobs", inside(`{"type":"a.b","args":[],"specversion":"1.0.0-rc.1","options":{`, `}}`), []string{
		`"retry":{"initial_interval":"1s"}`, `"retry":7`, `"retry_policy":"x"`, `"max_attempts":-1`, `"max_attempts":"3"`, `"max_attempts":1.5`, `"queue":"a","priority":"x"`, `"max_attempts":1,"retry":{"max_attempts":2}`,
	}},
	{"BATCH", "/ojs/v1/jobs/batch", as, []string{
		"\x00", `{"jobs":7}`, `{"jobs":"[]"}`, `{"jobs":[null]}`, `{"jobs":[[]]}`, `{"jobs":[{}]}`, `{"jobs":[],"jobs":[]}`, `{"Jobs":[{"type":"a.b","args":[]}]}`,
		`{"jobs":[{"type":"a.b","args":[]},{"type":"a.b","args":[]},{"type":"a.b","args":[],"priority":101}]}`, `{"jobs":[{"type":"a.b","args":[]},{"type":"a.b","args":[],"x":1,"x":2}]}`,
		`{"jobs":[{"type":"a.b","args":[]},{"type":"a.b","args":[],"retry":{"max_attempts":-1}}]}`, `{"jobs":[{"type":"a.b","args":[]},{"type":"a.b","args":[` + long(mebi) + `]}]}`,
		`{"jobs":[{"type":"a.b","args":[]},{"type":"a.b","args":[],"meta":{"a":` + long(64<<10) + `}}]}`, `{"jobs":[{"type":"a.b","args":` + nest(127) + `}]}`,
		`{"jobs":[{"type":"a.b","args":[],"id":"0197f6a0-0000-7000-8000-000000000001"},{"type":"c.d","args":[],"id":"0197f6a0-0000-7000-8000-000000000001"}]}`,
	}},
	{"FETCH", "/ojs/v1/workers/fetch", as, []string{
		`[]`, `7`, `{"queues":7}`, `{"queues":{}}`, `{"queues":["a",null]}`, `{"queues":["a",["b"]]}`, `{"queues":["a"],"count":true}`, `{"queues":["a"],"count":0.5}`, `{"queues":["a"],"count":1e400}`, `{"queues":["a"],"count":9223372036854775808}`,
		`{"queues":["a"],"limit":"1"}`, `{"queues":["a"],"worker_id":{}}`, `{"queues":["a"],"visibility_timeout_ms":1.5}`, `{"queues":["a"],"visibility_timeout_ms":"30000"}`, `{"queues":["a"],"visibility_timeout_ms":1e400}`,
		`{"queues":["a"],"block_ms":"1"}`, `{"queues":["a"],"wait_ms":0.1}`, `{"queues":["a"],"timeout":[]}`, `{"queues":["a"],"x":` + long(mebi) + `}`, `{"queues":["a"],"x":` + nest(128) + `}`,
	}},
	{"ACK", "/ojs/v1/workers/ack", as, []string{
		``, `[]`, `{"job_id":{}}`, `{"id":7}`, `{"job_id":"0197F6A0-0000-7000-8000-00000000DEAD"}`, `{"job_id":"\u0000"}`, `{"job_id":"\ud800"}`, `{` + unknown + `}`, `{` + unknown + `,"result":null}`,
		`{` + unknown + `,"job_id":"a"}`, `{` + unknown + `,"worker_id":` + long(256) + `}`, `{` + unknown + `,"lease_token":` + long(256) + `}`, `{` + unknown + `,"result":` + nest(128) + `}`, `{` + unknown + `,"result":` + long(mebi+64<<10) + `}`,
	}},
	{"FAIL", "/ojs/v1/workers/nack", as, []string{
		``, `null`, `{"job_id":7,"error":{"message":"x"}}`, `{` + unknown + `}`, `{` + unknown + `,"error":[]}`, `{` + unknown + `,"error":7}`, `{` + unknown + `,"error":{"details":{}}}`, `{` + unknown + `,"error":{"message":null}}`,
		`{` + unknown + `,"error":{"type":7}}`, `{` + unknown + `,"error":{"type":[]}}`, `{` + unknown + `,"error":{"code":7}}`, `{` + unknown + `,"error":{"message":{}}}`, `{` + unknown + `,"error":{"message":"a","message":"b"}}`,
		`{` + unknown + `,"error":{"type":"E","message":"a","retryable":1}}`, `{` + unknown + `,"error":{"type":"E","message":"a","backtrace":7}}`, `{` + unknown + `,"error":{"type":"E","message":"a","backtrace":["x",{}]}}`,
		`{` + unknown + `,"error":{"type":"E","message":"a"},"retry_after":true}`, `{` + unknown + `,"error":{"type":"E","message":"a"},"retry_after":1e400}`, `{` + unknown + `,"error":{"type":"E","message":"a"},"retry_after":"PT"}`, `{` + unknown + `,"error":{"type":"E","message":"a"},"delay_ms":-1}`,
		`{` + unknown + `,"error":{"message":"a"},"requeue":1}`, `{` + unknown + `,"requeue":true}`, `{` + unknown + `,"error":{"message":"a"}}`, `{` + unknown + `,"error":{"message":` + long(mebi+64<<10) + `}}`,
		`{` + unknown + `,"error":{"type":"E"}}`, `{` + unknown + `,"error":{"code":"handler_error"}}`, `{` + unknown + `,"error":{"type":"E","message":null}}`, `{` + unknown + `,"error":{"type":"","code":"","message":"a"}}`,
		`{` + unknown + `,"error":{"type":"E","message":"a","x":1,"x":2}}`, `{` + unknown + `,"error":{"type":"E","message":` + long(64<<10) + `}}`, `{` + unknown + `,"error":{"type":"E","message":"a","x":` + long(64<<10) + `}}`,
		`{` + unknown + `,"error":{"type":"E","message":"a","details":[` + long(64<<10) + `]}}`, `{` + unknown + `,"error":{"type":"E","message":"a"},"retry_after":1,"delay_ms":2}`, `{` + unknown + `,"id":"0197f6a0-0000-7000-8000-00000000beef","error":{"type":"E","message":"a"}}`,
		`{` + unknown + `,"error":{"type":"E","message":"a"}}`, `{` + unknown + `,"error":{"code":"handler_error","message":"","retryable":true}}`,
	}},
	{"BEAT", "/ojs/v1/workers/heartbeat", as, []string{
		``, `[]`, `{"worker_id":7}`, `{"worker_id":null}`, `{"worker_id":` + long(256) + `}`, `{"worker_id":"w","worker_id":"w"}`, `{"worker_id":"w","active_jobs":1.5}`, `{"worker_id":"w","active_jobs":2147483648}`, `{"worker_id":"w","active_jobs":true}`,
		`{"worker_id":"w","active_jobs":["a",null]}`, `{"worker_id":"w","active_job_ids":"a"}`, `{"worker_id":"w","job_id":7}`, `{"worker_id":"w","leases":"x"}`, `{"worker_id":"w","leases":{"a":"1","a":"2"}}`, `{"worker_id":"w","leases":{"a":null}}`,
		`{"worker_id":"w","visibility_timeout_ms":-1}`, `{"worker_id":"w","visibility_timeout_ms":1e400}`, `{"worker_id":"w","state":7}`, `{"worker_id":"w","shutdown":"yes"}`, `{"worker_id":"w","hostname":[]}`, `{"worker_id":"w","version":7}`,
		`{"worker_id":"w","pid":1.5}`, `{"worker_id":"w","pid":"1"}`, `{"worker_id":"w","concurrency":-1}`, `{"worker_id":"w","queues":"q"}`, `{"worker_id":"w","labels":"x"}`, `{"worker_id":"w","started_at":7}`, `{"worker_id":"w","x":` + long(mebi) + `}`,
	}},
}

// realServer is a sidecar over a store behind HTTP, and its clock that of the world.
func realServer(t *testing.T) (*sidecar.Sidecar, *httptest.Server) {
	t.Helper()
	s := sidecar.New(openStore(t), sidecar.Options{})
	server := httptest.NewServer(httpapi.New(s, httpapi.Options{Log: slog.New(slog.DiscardHandler), NewRequestID: func() string { return "req_test" }}))
	t.Cleanup(server.Close)
	// A body that is too large is refused by its length, so none of it need be sent.
	server.Client().Transport.(*http.Transport).ExpectContinueTimeout = time.Minute
	return s, server
}

func send(t *testing.T, server *httptest.Server, path, body string) (int, object) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if len(body) > mebi {
		r.Header.Set("Expect", "100-continue")
	}
	w, err := server.Client().Do(r)
	if err != nil {
		t.Fatalf("%s %.80q: %v", path, body, err)
	}
	return w.StatusCode, decode(t, readAll(t, w.Body))
}

// Each bad body has a golden answer: status, code, type, details, message. None
// is a 5xx, and none leaves a trace.
func TestBadBodiesHaveGoldenAnswers(t *testing.T) {
	t.Parallel()
	s, server := realServer(t)
	var got strings.Builder
	for _, group := range bads {
		fmt.Fprintf(&got, "\n== %s\n", group.verb)
		for _, body := range group.bodies {
			status, answer := send(t, server, group.path, group.whole(body))
			e, _ := answer["error"].(object)
			if status < 400 || status >= 500 || e["request_id"] != "req_test" || e["message"] == "" || e["hint"] == "" || e["retryable"] != false {
				t.Errorf("%s %.80q: %d %v", group.verb, body, status, answer)
			}
			if len(body) > 200 {
				body = fmt.Sprintf("%.60s… (%d bytes)", body, len(body))
			}
			fmt.Fprintf(&got, "%q\n\t%d %v %v %s\n\t%v\n", body, status, e["code"], e["type"], write(t, e["details"]), e["message"])
		}
	}
	leavesNothing(t, s)
	if *update {
		if err := os.WriteFile(badGolden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(badGolden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("the answers are not those of %s:\n%s", badGolden, differing(string(want), got.String()))
	}
}

// differing is the lines that only one of two texts has.
func differing(want, got string) string {
	var b strings.Builder
	for _, side := range [][3]string{{"- ", want, got}, {"+ ", got, want}} {
		for line := range strings.Lines(side[1]) {
			if !strings.Contains(side[2], line) {
				b.WriteString(side[0] + line)
			}
		}
	}
	return b.String()
}

// leavesNothing makes sure that no job, no event, no counter and no worker is stored.
func leavesNothing(t *testing.T, s *sidecar.Sidecar) {
	t.Helper()
	jobs, err := s.Jobs(t.Context(), job.Filter{})
	events, err2 := s.Events(t.Context(), job.EventFilter{Limit: 10})
	queues, err3 := s.Queues(t.Context())
	health, err4 := s.Health(t.Context())
	if err != nil || err2 != nil || err3 != nil || err4 != nil || jobs.Total != 0 || len(events) != 0 || len(queues) != 1 || health.Workers != 0 {
		t.Errorf("%d jobs, %v, queues %v, %d workers; %v, %v, %v, %v", jobs.Total, events, queues, health.Workers, err, err2, err3, err4)
	}
	for _, q := range queues {
		for state, n := range q.Counts {
			if n != 0 || q.Dead != 0 {
				t.Errorf("%s counts %d %s, %d dead", q.Name, n, state, q.Dead)
			}
		}
	}
}

// What is odd and still right is taken, and comes back byte for byte (contract §1.5).
func TestOddBodiesComeBackAsTheyCame(t *testing.T) {
	t.Parallel()
	_, server := realServer(t)
	for _, tt := range []struct{ member, value string }{
		{"args", `["\ud800","\udc00\ud800","\u0000"]`}, {"args", `[1e400,-0,-0.0,9223372036854775808,1.10,1E+2,0e0]`}, {"args", `[{"a":1,"a":2}]`},
		{"args", `[{"\ud800":1}, [ ],null ]`}, {"args", nest(127)}, {"args", `[` + long(mebi-40) + `]`},
		{"meta", `{"a":1,"a":"\udfff","b":1e400}`}, {"meta", `{"":{"x":[]}}`}, {"meta", `{"a":` + long(64<<10-8) + `}`},
		{"x_own", `{"a":1,"a":2}`}, {"x_own", `"\ud800\u0000"`}, {"version", `2.0`}, {"tags", `["\ud83d","é\u00e9"]`}, {"tags", `[]`},
		{"scheduled_at", `"2026-02-12t10:30:00.123456789+23:59"`}, {"expires_at", `"9999-12-31T23:59:59Z"`},
		{"schema", `"urn:ojs:schema:a.b:v1"`}, {"max_attempts", `7`}, {"custom_job_id", `"c"`}, {"dead", `true`}, {"total_attempts", `7`}, {"job", `{"id":1}`}, {"", `null`}, {"retry", `{"x_note":{"a":[1e400]},"max_attempts":3.0}`}, {"timeout", `5e0`}, {"visibility_timeout", `"PT1M"`},
	} {
		body := `{"type":"a.b","args":[],"` + tt.member + `":` + tt.value + `}`
		if tt.member == "args" {
			body = `{"type":"a.b","args":` + tt.value + `}`
		}
		r, err := server.Client().Post(server.URL+"/ojs/v1/jobs", "", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		raw := readAll(t, r.Body)
		if r.StatusCode != 201 {
			t.Errorf("%.120s: %d %.300s", body, r.StatusCode, raw)
			continue
		}
		again, err := server.Client().Get(server.URL + r.Header.Get("Location"))
		if err != nil {
			t.Fatal(err)
		}
		for _, answer := range []string{raw, readAll(t, again.Body)} {
			if !strings.Contains(answer, `"`+tt.member+`":`+tt.value) {
				t.Errorf("%.120s: came back in %.300s", body, answer)
			}
		}
	}
}

// Each breaks one rule of the documents, and is refused with the name of its field.
func TestBadBodiesByRule(t *testing.T) {
	t.Parallel()
	_, server := realServer(t)
	for _, tt := range []struct{ rule, member, field string }{
		{"ojs-core.md §5.2, RFC 3339: a point, no comma", `"scheduled_at":"2036-03-15T09:30:00,5Z"`, "scheduled_at"},
		{"ojs-core.md §5.2, RFC 3339: two digits of the hour", `"scheduled_at":"2036-03-15T9:30:00Z"`, "scheduled_at"},
		{"ojs-core.md §5.2, RFC 3339: an offset below 24:00", `"expires_at":"2036-03-15T09:30:00+24:00"`, "expires_at"},
		{"ojs-core.md §5.2: schema is a URI", `"schema":"1:x"`, "schema"},
		{"ojs-core.md §5.2: schema is a URI", `"schema":"urn:a\u0000b"`, "schema"},
		{"ojs-core.md §5.2: unique is an object", `"unique":7`, "unique"},
		{"contract §1.5: no member twice in unique", `"unique":{"keys":["type"],"keys":["args"]}`, "unique.keys"},
		{"contract §2.2: tags are strings", `"tags":[null]`, "tags"},
		{"ojs-retry.md §11: retry is an object", `"retry":"x","options":{"max_attempts":3}`, "retry"},
	} {
		status, answer := send(t, server, "/ojs/v1/jobs", `{"type":"a.b","args":[],`+tt.member+`}`)
		e, _ := answer["error"].(object)
		details, _ := e["details"].(object)
		if status < 400 || status >= 500 || details["field"] != tt.field {
			t.Errorf("%s: %s was answered %d %v", tt.rule, tt.member, status, answer)
		}
	}
}
