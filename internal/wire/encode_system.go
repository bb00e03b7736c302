package wire

import (
	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// AppendHealth appends how the server is (contract §3.22). Problem stays in the
// server, as anybody may read the answer.
func AppendHealth(dst []byte, h job.Health) []byte {
	word := wordOf(h)
	b := rawjson.Object(dst)
	b.Str("status", word)
	b.Str("version", job.SpecVersion)
	b.Int("uptime_seconds", int64(h.Uptime.Seconds()))
	b.Object("backend")
	b.Optional("type", h.Backend)
	b.Str("status", word)
	b.Optional("check", h.Check)
	b.Int("latency_ms", h.Latency.Milliseconds())
	b.End()
	b.Object("queues")
	b.Int("total", int64(h.Queues))
	b.Int("active", int64(h.Queues-h.Paused))
	b.Int("paused", int64(h.Paused))
	b.End()
	b.Object("workers")
	b.Int("total", int64(h.Workers))
	b.Int("active", int64(h.Workers-h.StaleNow))
	b.Int("connected", int64(h.Workers-h.StaleNow))
	b.Int("stale", int64(h.StaleNow))
	b.End()
	inMaintenance(&b, h.Maintenance)
	b.Time("server_time", h.Time)
	return b.Close()
}

// AppendStatus appends the answer to a probe.
func AppendStatus(dst []byte, ok bool) []byte {
	b := rawjson.Object(dst)
	return b.Str("status", condition(ok)).Close()
}

const degraded = "degraded"

// wordOf is the status of a server.
func wordOf(h job.Health) string {
	if h.OK && h.Degraded {
		return degraded
	}
	return condition(h.OK)
}

func condition(ok bool) string {
	if ok {
		return "ok"
	}
	return "unhealthy"
}

// About is what the manifest says of one server.
type About struct {
	Version string // of the implementation
	Backend string // of the store, "sqlite"
	BaseURL string // of the API, "http://localhost:7373/ojs/v1"

	Webhooks bool // are kept
	Delivers bool // and events are sent to them

	Endpoints [][2]string // the names and paths of what can be read without a parameter
}

// capabilities lists what the manifest promises, true only for what exists
// (contract §3.21).
var capabilities = []struct {
	name string
	have bool
}{
	{"batch_enqueue", true}, {"cron", true}, {"cron_jobs", true}, {"dead_letter", true}, {"delayed_jobs", true}, {"events", true},
	{"job_ttl", true}, {"priority_queues", true},
	{"fair_scheduling", true}, {"job_versioning", true},
	{"multi_tenancy", true}, {"pause_resume", true}, {"rate_limiting", true}, {"schema_validation", true},
	{uniqueJobs, true}, {webhooks, true}, {"workflows", true},
}

const (
	uniqueJobs = "unique_jobs"
	webhooks   = "webhooks"
)

// uniqueness says how far a unique key can be trusted (ojs-unique-jobs.md §8.3).
const uniqueness = `{"strength":"strong","mechanism":"the one writer looks for the key and inserts the job in one SQLite transaction, with a partial unique index under it"}`

// The extensions that a client looks for before it uses them, and their paths.
const (
	BatchAck = "batch_ack"
	AckPath  = "/workers/ack"
	Next     = "next"
	NextPath = "/workers/next"
)

// ReadManifest reads a manifest: the extensions of the server.
func ReadManifest(body []byte) (extensions []string, err error) {
	var r struct {
		Extensions []string `json:"extensions"`
	}
	err = read(body, &r)
	return r.Extensions, err
}

const home = "https://github.com/outrider-jobs/outrider"

// withWebhooks is the extension of a server that keeps webhooks, also where it sends nothing.
func withWebhooks(a About) string {
	if !a.Webhooks {
		return ""
	}
	return `,"` + webhooks + `"`
}

// AppendManifest appends the manifest (contract §3.21).
func AppendManifest(dst []byte, a About, p Profile) []byte {
	b := rawjson.Object(dst)
	b.Str("specversion", p.Version())
	b.Str("ojs_version", p.Version())
	b.Object("implementation")
	b.Str("name", "outrider")
	b.Str("version", a.Version)
	b.Str("language", "go")
	b.Str("homepage", home)
	b.Str("repository", home)
	b.End()
	b.Int("conformance_level", 4)
	b.Str("conformance_tier", "runtime")
	b.Raw("protocols", []byte(`["http"]`))
	b.Str("backend", a.Backend)
	b.Object("capabilities")
	for _, c := range capabilities {
		switch {
		case c.name == uniqueJobs && p == Bare: // an object, which one client cannot read (contract C-15)
			b.Raw(c.name, []byte(uniqueness))
		case c.name == webhooks:
			b.Bool(c.name, a.Delivers)
		default:
			b.Bool(c.name, c.have)
		}
	}
	b.End()
	b.Str("unique_job_strength", "strong")
	b.Raw("uniqueness", []byte(uniqueness))
	b.Raw("delivery", []byte(`{"guarantee":"at_least_once","fifo":true}`))
	b.Raw("extensions", []byte(`["admin-api","backpressure","`+BatchAck+`","bulk","cron","dead-letter","dead_letter","events","fair_scheduling","job_versioning","multi_tenancy","`+Next+`","rate-limiting","rate_limiting","unique_jobs"`+withWebhooks(a)+`,"workflows"]`))
	b.Object("endpoints")
	b.Str("base_url", a.BaseURL)
	b.Str("manifest", "/ojs/manifest")
	b.Str("batch_ack", "/ojs/v1"+AckPath)
	b.Str("next", "/ojs/v1"+NextPath)
	for _, e := range a.Endpoints {
		b.Str(e[0], e[1])
	}
	b.End()
	limits(&b)
	return b.Bool("schema_validation", true).Close()
}

// limits appends the bounds of contract §1.8, in bytes unless the name says otherwise.
func limits(b *rawjson.Writer) {
	b.Object("limits")
	for _, l := range []struct {
		name string
		n    int64
	}{
		{"max_job_size", job.MaxJobBytes}, {"max_batch_body_size", MaxBatchBytes}, {"max_batch_size", job.MaxBatch}, {"max_ack_batch_size", job.MaxAcks}, {"max_ack_batch_body_size", MaxAcksBytes},
		{"max_meta_size", job.MaxMetaBytes}, {"max_result_size", job.MaxResultBytes}, {"max_error_size", job.MaxErrorBytes},
		{"max_type_length", job.MaxTypeLen}, {"max_queue_length", job.MaxQueueLen}, {"max_json_depth", job.MaxDepth},
		{"max_fetch_count", MaxFetch}, {"max_wait_ms", MaxWait.Milliseconds()},
		{"max_page_size", PageMax}, {"max_events_page_size", EventsMax},
	} {
		b.Int(l.name, l.n)
	}
	b.End()
}
