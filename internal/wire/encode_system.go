package wire

import "github.com/outrider-jobs/outrider/job"

// AppendHealth appends how the server is (contract §3.22). Problem stays in the
// server: the answer is open to everybody.
func AppendHealth(dst []byte, h job.Health) []byte {
	word := condition(h.OK)
	if h.OK && h.Degraded {
		word = degraded
	}
	b := str(append(dst, '{'), "status", word)
	b = str(b, "version", job.SpecVersion)
	b = num(b, "uptime_seconds", int64(h.Uptime.Seconds()))
	b = append(key(b, "backend"), '{')
	if h.Backend != "" {
		b = str(b, "type", h.Backend)
	}
	b = str(b, "status", word)
	if h.Check != "" {
		b = str(b, "check", h.Check)
	}
	b = append(num(b, "latency_ms", h.Latency.Milliseconds()), '}')
	b = append(key(b, "queues"), '{')
	b = num(b, "total", int64(h.Queues))
	b = num(b, "active", int64(h.Queues-h.Paused))
	b = append(num(b, "paused", int64(h.Paused)), '}')
	b = append(key(b, "workers"), '{')
	b = num(b, "total", int64(h.Workers))
	b = num(b, "active", int64(h.Workers-h.StaleNow))
	b = num(b, "connected", int64(h.Workers-h.StaleNow))
	b = append(num(b, "stale", int64(h.StaleNow)), '}')
	return append(at(b, "server_time", h.Time), '}')
}

// AppendStatus appends the answer to a probe.
func AppendStatus(dst []byte, ok bool) []byte {
	return append(str(append(dst, '{'), "status", condition(ok)), '}')
}

const degraded = "degraded"

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
}

// capabilities lists what the manifest promises, true only for what exists
// (contract §3.21).
var capabilities = []struct {
	name string
	have bool
}{
	{"batch_enqueue", true}, {"cron", true}, {"cron_jobs", true}, {"dead_letter", true}, {"delayed_jobs", true}, {"events", true},
	{"job_ttl", true}, {"priority_queues", true},
	{"fair_scheduling", false}, {"job_versioning", false},
	{"multi_tenancy", false}, {"pause_resume", false}, {"rate_limiting", false}, {"schema_validation", false},
	{uniqueJobs, true}, {"webhooks", false}, {"workflows", false},
}

const uniqueJobs = "unique_jobs"

// uniqueness says how far a unique key can be trusted (ojs-unique-jobs.md §8.3).
const uniqueness = `{"strength":"strong","mechanism":"the one writer looks for the key and inserts the job in one SQLite transaction, with a partial unique index under it"}`

const home = "https://github.com/outrider-jobs/outrider"

// AppendManifest appends the manifest (contract §3.21).
func AppendManifest(dst []byte, a About, p Profile) []byte {
	b := str(append(dst, '{'), "specversion", p.Version())
	b = str(b, "ojs_version", p.Version())
	b = append(key(b, "implementation"), '{')
	b = str(b, "name", "outrider")
	b = str(b, "version", a.Version)
	b = str(b, "language", "go")
	b = str(b, "homepage", home)
	b = append(str(b, "repository", home), '}')
	b = num(b, "conformance_level", 1)
	b = str(b, "conformance_tier", "runtime")
	b = append(key(b, "protocols"), `["http"]`...)
	b = str(b, "backend", a.Backend)
	b = append(key(b, "capabilities"), '{')
	for _, c := range capabilities {
		if c.name == uniqueJobs && p == Bare { // an object, which one client cannot read (contract C-15)
			b = append(key(b, c.name), uniqueness...)
		} else {
			b = flag(b, c.name, c.have)
		}
	}
	b = str(append(b, '}'), "unique_job_strength", "strong")
	b = append(key(b, "uniqueness"), uniqueness...)
	b = append(key(b, "delivery"), `{"guarantee":"at_least_once","fifo":true}`...)
	b = append(key(b, "extensions"), `["cron","dead-letter","dead_letter","events","unique_jobs"]`...)
	b = append(key(b, "endpoints"), '{')
	b = str(b, "base_url", a.BaseURL)
	b = str(b, "manifest", "/ojs/manifest")
	b = append(str(b, "health", "/ojs/v1/health"), '}')
	b = flag(limits(b), "schema_validation", false)
	return append(b, '}')
}

// limits appends the bounds of contract §1.8, in bytes where nothing else is said.
func limits(b []byte) []byte {
	b = append(key(b, "limits"), '{')
	for _, l := range []struct {
		name string
		n    int64
	}{
		{"max_job_size", job.MaxJobBytes}, {"max_batch_body_size", MaxBatchBytes}, {"max_batch_size", job.MaxBatch},
		{"max_meta_size", job.MaxMetaBytes}, {"max_result_size", job.MaxResultBytes}, {"max_error_size", job.MaxErrorBytes},
		{"max_type_length", job.MaxTypeLen}, {"max_queue_length", job.MaxQueueLen}, {"max_json_depth", job.MaxDepth},
		{"max_fetch_count", MaxFetch}, {"max_wait_ms", MaxWait.Milliseconds()},
		{"max_page_size", PageMax}, {"max_events_page_size", EventsMax},
	} {
		b = num(b, l.name, l.n)
	}
	return append(b, '}')
}
