package sidecar_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
)

const (
	leak = "SECRETFRAME"
	told = `"type":"Traced"` // is shown of every error
)

// omitWorld is a store in which jobs with backtraces lie, and a server that has
// been told to omit them since.
type omitWorld struct {
	t     *testing.T
	now   time.Time
	keeps *sidecar.Sidecar
	omits *sidecar.Sidecar
	n     int
}

func newOmitWorld(t *testing.T) *omitWorld {
	w := &omitWorld{t: t, now: storetest.Now}
	store := openStore(t)
	clock := func() time.Time { return w.now }
	w.keeps = sidecar.New(store, sidecar.Options{Now: clock})
	w.omits = sidecar.New(store, sidecar.Options{Now: clock, Backtraces: sidecar.OmitBacktraces})
	return w
}

func (w *omitWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// keyed is an envelope in a queue of its own, with every key a job may have.
func (w *omitWorld) keyed() job.Envelope {
	w.n++
	return job.Envelope{Type: "mail.send", Queue: fmt.Sprint("q", w.n), Args: json.RawMessage(`[]`), CustomID: "c",
		Deduplication: json.RawMessage(`{"id":"d"}`), Unique: fmt.Appendf(nil, `{"key":"u%d","on_conflict":"ignore"}`, w.n),
		Retry: json.RawMessage(`{"max_attempts":9}`)}
}

// failed is a stored job with a backtrace in every place of its error.
func (w *omitWorld) failed(e job.Envelope, code string) *job.Job {
	w.t.Helper()
	_, err := w.keeps.Enqueue(w.t.Context(), e)
	w.must(err)
	jobs, err := w.keeps.Fetch(w.t.Context(), job.FetchRequest{Queues: []string{e.Queue}, Worker: "w"})
	w.must(err)
	j, err := w.keeps.Fail(w.t.Context(), job.Claim{ID: jobs[0].ID}, w.failure(code))
	w.must(err)
	if !bytes.Contains(j.Error, []byte(leak)) || !bytes.Contains(j.Errors, []byte(leak)) {
		w.t.Fatalf("nothing to omit in %s", j.Errors)
	}
	return j
}

func (w *omitWorld) failure(code string) job.Failure {
	return job.Failure{Type: "Traced", Code: code, Message: "no", Backtrace: []string{leak},
		Details: json.RawMessage(`{"stack":"` + leak + `","cause":[{"StackTrace":"` + leak + `"}]}`)}
}

func (w *omitWorld) retryable() *job.Job { return w.failed(w.keyed(), "E") }

// again is the body of a PUSH that meets such a job by its custom id.
func (w *omitWorld) again() string {
	e := w.retryable().Envelope
	e.ID = ""
	return pushOf(w.t, e)
}

// pushOf is the body of a PUSH.
func pushOf(t *testing.T, e job.Envelope) string {
	t.Helper()
	c := checked(t, e)
	return string(c.AppendPush(nil))
}

// available is such a job, back in its queue.
func (w *omitWorld) available() *job.Job {
	j := w.retryable()
	w.now = w.now.Add(time.Minute)
	w.keeps.Recover(w.t.Context())
	return j
}

// active is such a job, held by a worker.
func (w *omitWorld) active() *job.Job {
	j := w.available()
	jobs, err := w.keeps.Fetch(w.t.Context(), job.FetchRequest{Queues: []string{j.Queue}})
	w.must(err)
	return jobs[0]
}

func (w *omitWorld) dead() *job.Job { return w.failed(w.keyed(), "DEAD_LETTER") }

// cron makes a schedule whose last job is such a job, and returns its name.
func (w *omitWorld) cron() string {
	w.t.Helper()
	e := w.keyed()
	name := e.Queue
	_, _, err := w.keeps.PutCron(w.t.Context(), job.CronSpec{Name: name, Expression: "@yearly", Overlap: job.OverlapAllow,
		Template: fmt.Appendf(nil, `{"type":"mail.send","args":[],"queue":%q,"retry":{}}`, e.Queue)})
	w.must(err)
	_, err = w.keeps.TriggerCron(w.t.Context(), name)
	w.must(err)
	jobs, err := w.keeps.Fetch(w.t.Context(), job.FetchRequest{Queues: []string{e.Queue}})
	w.must(err)
	_, err = w.keeps.Fail(w.t.Context(), job.Claim{ID: jobs[0].ID}, w.failure("E"))
	w.must(err)
	return name
}

// answers is every method of a service that answers jobs. One that answers none
// with an error says so.
var answers = map[string]struct {
	ask   func(w *omitWorld, s job.Service) ([]*job.Job, error)
	clean bool // what it answers has no errors
}{
	"Enqueue": {ask: func(w *omitWorld, s job.Service) ([]*job.Job, error) {
		var met []*job.Job
		for range 2 { // the second time all at once
			var es []job.Envelope
			for i := range 3 {
				e := w.keyed()
				w.failed(e, "E")
				if i > 0 {
					e.CustomID = ""
				}
				if i > 1 {
					e.Deduplication = nil
				}
				es = append(es, e)
				if len(met) < 3 {
					rs, err := s.Enqueue(w.t.Context(), e)
					w.must(err)
					met = append(met, rs[0].Job)
				}
			}
			rs, err := s.Enqueue(w.t.Context(), es...)
			w.must(err)
			for _, r := range rs {
				met = append(met, r.Job)
			}
		}
		return met, nil
	}},
	"EnqueueChecked": {ask: func(w *omitWorld, s job.Service) ([]*job.Job, error) {
		e := w.keyed()
		w.failed(e, "E")
		rs, err := s.EnqueueChecked(w.t.Context(), checked(w.t, e))
		w.must(err)
		return one(rs[0].Job, err)
	}},
	"Fetch": {ask: func(w *omitWorld, s job.Service) ([]*job.Job, error) {
		return s.Fetch(w.t.Context(), job.FetchRequest{Queues: []string{w.available().Queue}})
	}},
	"Ack": {ask: func(w *omitWorld, s job.Service) ([]*job.Job, error) {
		return one(s.Ack(w.t.Context(), job.Claim{ID: w.active().ID}, nil))
	}},
	"Next": {ask: func(w *omitWorld, s job.Service) ([]*job.Job, error) {
		acks := []job.AckRequest{{Claim: job.Claim{ID: w.active().ID}}}
		_, jobs, err := s.Next(w.t.Context(), acks, job.FetchRequest{Queues: []string{w.available().Queue}})
		return jobs, err
	}},
	"Fail": {ask: func(w *omitWorld, s job.Service) ([]*job.Job, error) {
		return one(s.Fail(w.t.Context(), job.Claim{ID: w.active().ID}, w.failure("E")))
	}},
	"Job": {ask: func(w *omitWorld, s job.Service) ([]*job.Job, error) {
		return one(s.Job(w.t.Context(), w.retryable().ID))
	}},
	"Jobs": {ask: func(w *omitWorld, s job.Service) ([]*job.Job, error) {
		page, err := s.Jobs(w.t.Context(), job.Filter{Queue: w.retryable().Queue})
		w.must(err)
		letters, err := s.Jobs(w.t.Context(), job.Filter{Queue: w.dead().Queue, Dead: true})
		return append(page.Jobs, letters.Jobs...), err
	}},
	"Cancel": {ask: func(w *omitWorld, s job.Service) ([]*job.Job, error) {
		c, err := s.Cancel(w.t.Context(), w.retryable().ID, "", "")
		return one(c.Job, err)
	}},
	"Activate": {clean: true, ask: func(w *omitWorld, s job.Service) ([]*job.Job, error) {
		e := w.keyed()
		e.Hold = true
		rs, err := w.keeps.Enqueue(w.t.Context(), e)
		w.must(err)
		c, err := s.Activate(w.t.Context(), rs[0].ID)
		return one(c.Job, err)
	}},
	"Revive": {clean: true, ask: func(w *omitWorld, s job.Service) ([]*job.Job, error) {
		c, err := s.Revive(w.t.Context(), w.dead().ID)
		return one(c.Job, err)
	}},
	"Retry": {clean: true, ask: func(w *omitWorld, s job.Service) ([]*job.Job, error) {
		c, err := s.Retry(w.t.Context(), w.dead().ID)
		return one(c.Job, err)
	}},
	"Detail": {ask: func(w *omitWorld, s job.Service) ([]*job.Job, error) {
		d, err := s.Detail(w.t.Context(), w.retryable().ID)
		return one(d.Job, err)
	}},
	"Reprioritize": {ask: func(w *omitWorld, s job.Service) ([]*job.Job, error) {
		c, err := s.Reprioritize(w.t.Context(), w.available().ID, 3)
		return one(c.Job, err)
	}},
	"PushEach": {ask: func(w *omitWorld, s job.Service) ([]*job.Job, error) {
		e := w.retryable().Envelope
		e.ID = ""
		p := job.BulkPush{Jobs: []job.BulkJob{{Checked: checked(w.t, e)}}, Idempotency: job.Idempotency{Key: "again", Digest: "x"}}
		r, err := s.PushEach(w.t.Context(), p)
		w.must(err)
		again, err := s.PushEach(w.t.Context(), p)
		return []*job.Job{r.Items[0].Job, again.Items[0].Job}, err
	}},
	"Explain": {ask: func(w *omitWorld, s job.Service) ([]*job.Job, error) {
		x, err := s.Explain(w.t.Context(), checked(w.t, w.retryable().Envelope))
		return one(x.Existing, err)
	}},
	"DedupOwner": {ask: func(w *omitWorld, s job.Service) ([]*job.Job, error) {
		return one(s.DedupOwner(w.t.Context(), w.retryable().Queue, "d"))
	}},
	"TriggerCron": {clean: true, ask: func(w *omitWorld, s job.Service) ([]*job.Job, error) {
		r, err := s.TriggerCron(w.t.Context(), w.cron())
		return one(r.Job, err)
	}},
	"CronHistory": {ask: func(w *omitWorld, s job.Service) ([]*job.Job, error) {
		runs, err := s.CronHistory(w.t.Context(), w.cron(), 0)
		var jobs []*job.Job
		for _, r := range runs {
			jobs = append(jobs, r.Job)
		}
		return jobs, err
	}},
}

func one(j *job.Job, err error) ([]*job.Job, error) { return []*job.Job{j}, err }

// reaches reports whether a value of type t can hold a job. Types within which it
// stands are looked at already: a step of a workflow may have steps.
func reaches(t reflect.Type, within ...reflect.Type) bool {
	if slices.Contains(within, t) {
		return false
	}
	within = append(within, t)
	switch t.Kind() {
	case reflect.Slice:
		return reaches(t.Elem(), within...)
	case reflect.Pointer:
		return t == reflect.TypeFor[*job.Job]() || reaches(t.Elem(), within...)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			if f.IsExported() && t != reflect.TypeFor[time.Time]() && reaches(f.Type, within...) {
				return true
			}
		}
	}
	return false
}

// TestEveryMethodOmitsBacktraces asks every method of a service that answers
// jobs for one whose backtraces were stored before, in this process and over
// HTTP (ojs-core.md §14.2).
func TestEveryMethodOmitsBacktraces(t *testing.T) {
	t.Parallel()
	for m := range reflect.TypeFor[job.Service]().Methods() {
		for i := range m.Type.NumOut() {
			if m.Name == "Bulk" { // its items name jobs and hold none
				continue
			}
			if _, ok := answers[m.Name]; !ok && reaches(m.Type.Out(i)) {
				t.Errorf("%s answers jobs and has no case here", m.Name)
			}
		}
	}
	for name, a := range answers {
		for _, where := range []string{"in this process", "over HTTP"} {
			t.Run(name+" "+where, func(t *testing.T) {
				t.Parallel()
				w := newOmitWorld(t)
				var s job.Service = w.omits
				if where == "over HTTP" {
					s = over(t, s)
				}
				jobs, err := a.ask(w, s)
				w.must(err)
				for _, j := range jobs {
					raw := string(j.AppendJSON(nil, job.View{ToHolder: true}))
					if strings.Contains(raw, leak) || strings.Contains(raw, told) == a.clean {
						t.Error(raw)
					}
				}
				if len(jobs) == 0 {
					t.Error("it answered no job")
				}
			})
		}
	}
}

// shown is what to ask of every route that answers jobs which may have failed.
var shown = map[string]func(w *omitWorld) (path, body string){
	"POST /ojs/v1/jobs": func(w *omitWorld) (string, string) {
		return "", w.again()
	},
	"POST /ojs/v1/jobs/batch": func(w *omitWorld) (string, string) {
		return "", `{"jobs":[` + w.again() + `]}`
	},
	"GET /ojs/v1/jobs":             func(w *omitWorld) (string, string) { return "?queue=" + w.retryable().Queue, "" },
	"GET /ojs/v1/jobs/:id":         byID((*omitWorld).retryable),
	"DELETE /ojs/v1/jobs/:id":      byID((*omitWorld).retryable),
	"POST /ojs/v1/jobs/:id/cancel": byID((*omitWorld).retryable),
	"POST /ojs/v1/jobs/:id/ack":    byID((*omitWorld).active),
	"POST /ojs/v1/jobs/fetch":      fetching,
	"POST /ojs/v1/workers/fetch":   fetching,
	"POST /ojs/v1/workers/ack": func(w *omitWorld) (string, string) {
		return "", fmt.Sprintf(`{"job_id":%q}`, w.active().ID)
	},
	"POST /ojs/v1/workers/next": fetching,
	"POST /ojs/v1/workers/nack": func(w *omitWorld) (string, string) {
		return "", fmt.Sprintf(`{"job_id":%q,"error":{"type":"Traced","message":"no","cause":{"stack":%q},"backtrace":%q}}`, w.active().ID, leak, leak)
	},
	"PATCH /ojs/v1/jobs/:id":        prioritizing,
	"PATCH /ojs/v1/admin/jobs/:id":  prioritizing,
	"POST /ojs/v1/jobs/bulk":        func(w *omitWorld) (string, string) { return "", `{"jobs":[` + w.again() + `]}` },
	"GET /ojs/v1/queues/:name/jobs": func(w *omitWorld) (string, string) { return w.retryable().Queue, "" },
	"GET /ojs/v1/dead-letter":       func(w *omitWorld) (string, string) { return "?queue=" + w.dead().Queue, "" },
	"GET /ojs/v1/dead-letter/:id":   byID((*omitWorld).dead),
	"POST /ojs/v1/unique/explain": func(w *omitWorld) (string, string) {
		return "", pushOf(w.t, w.retryable().Envelope)
	},
	"GET /ojs/v1/queues/:name/deduplication/:id": func(w *omitWorld) (string, string) { return w.retryable().Queue + "/d", "" },
	"GET /ojs/v1/queues/:name/debounce/:id":      func(w *omitWorld) (string, string) { return w.retryable().Queue + "/d", "" },
	"GET /ojs/v1/cron/:name/history":             func(w *omitWorld) (string, string) { return w.cron() + "?jobs=true", "" },
	"GET /ojs/v1/crons/:name/history":            func(w *omitWorld) (string, string) { return w.cron() + "?jobs=true", "" },
	"GET /ojs/v1/jobs/:id/history":               byID((*omitWorld).retryable),
	"GET /ojs/v1/jobs/:id/result":                byID((*omitWorld).retryable),
	"POST /ojs/v1/jobs/results": func(w *omitWorld) (string, string) {
		return "", fmt.Sprintf(`{"ids":[%q]}`, w.retryable().ID)
	},
	"GET /ojs/v1/events/:id/history":     byID((*omitWorld).retryable),
	"GET /ojs/v1/admin/jobs":             func(w *omitWorld) (string, string) { return "?queue=" + w.retryable().Queue, "" },
	"GET /ojs/v1/admin/jobs/:id":         byID((*omitWorld).retryable),
	"GET /ojs/v1/admin/jobs/:id/trace":   byID((*omitWorld).retryable),
	"POST /ojs/v1/admin/jobs/:id/cancel": byID((*omitWorld).retryable),
	"GET /ojs/v1/admin/dead-letter":      func(w *omitWorld) (string, string) { return "?queue=" + w.dead().Queue, "" },
	"GET /ojs/v1/admin/dead-letter/:id":  byID((*omitWorld).dead),
	"GET /ojs/v1/admin/tenants/:id/jobs": func(w *omitWorld) (string, string) {
		e := w.keyed()
		e.Meta = json.RawMessage(`{"tenant_id":"acme"}`)
		w.failed(e, "E")
		return "acme", ""
	},
	"GET /ojs/v1/events/:event_id": func(w *omitWorld) (string, string) {
		es, err := w.keeps.Events(w.t.Context(), job.EventFilter{JobID: w.retryable().ID, Types: []string{"job.failed"}})
		w.must(err)
		return wire.EventID(es[0]), ""
	},
	"GET /ojs/v1/events": func(w *omitWorld) (string, string) { return "?job_id=" + string(w.retryable().ID), "" },
}

func byID(make func(*omitWorld) *job.Job) func(w *omitWorld) (string, string) {
	return func(w *omitWorld) (string, string) { return string(make(w).ID), "" }
}

func fetching(w *omitWorld) (string, string) {
	return "", fmt.Sprintf(`{"queues":[%q]}`, w.available().Queue)
}

func prioritizing(w *omitWorld) (string, string) { return string(w.available().ID), `{"priority":3}` }

// blank is the routes that answer no job, or none that may have failed. A stream tells
// what the log of events holds, which GET /ojs/v1/events shows.
var blank = `POST /ojs/v1/workflows, GET /ojs/v1/workflows, GET /ojs/v1/workflows/:id, GET /ojs/v1/workflows/:id/progress,
DELETE /ojs/v1/workflows/:id, POST /ojs/v1/workflows/:id/cancel, GET /ojs/v1/admin/tenants/:id/stats,
GET /ojs/v1/admin/pools, GET /ojs/v1/admin/pools/:name, PUT /ojs/v1/admin/pools/:name, DELETE /ojs/v1/admin/pools/:name, GET /ojs/v1/admin/scheduling/stats,
GET /ojs/v1/rate-limits, GET /ojs/v1/rate-limits/:key, PUT /ojs/v1/rate-limits/:key, PUT /ojs/v1/rate-limits/:key/override, DELETE /ojs/v1/rate-limits/:key/override,
PUT /ojs/v1/jobs/:id/progress, POST /ojs/v1/jobs/:id/progress, GET /ojs/v1/jobs/:id/progress, POST /ojs/v1/workers/progress,
PUT /ojs/v1/jobs/:id/checkpoint, POST /ojs/v1/jobs/:id/checkpoint, GET /ojs/v1/jobs/:id/checkpoint, DELETE /ojs/v1/jobs/:id/checkpoint,
POST /ojs/v1/checkpoints/:id, DELETE /ojs/v1/checkpoints/:id, GET /ojs/v1/checkpoints/:id/resume,
POST /ojs/v1/ojs/v1/checkpoints/:id, DELETE /ojs/v1/ojs/v1/checkpoints/:id, GET /ojs/v1/ojs/v1/checkpoints/:id/resume,
POST /ojs/v1/schemas, GET /ojs/v1/schemas, GET /ojs/v1/schemas/:name, GET /ojs/v1/schemas/:name/versions, GET /ojs/v1/schemas/:name/:version,
DELETE /ojs/v1/schemas/:name, DELETE /ojs/v1/schemas/:name/:version, PUT /ojs/v1/admin/schemas/:name/:version,
GET /ojs/v1/admin/schemas, GET /ojs/v1/admin/schemas/:name, GET /ojs/v1/admin/schemas/:name/versions,
GET /ojs/v1/admin/schemas/:name/:version, DELETE /ojs/v1/admin/schemas/:name, DELETE /ojs/v1/admin/schemas/:name/:version,
GET /ojs/v1/events/stream, GET /ojs/v1/jobs/:id/events, GET /ojs/v1/jobs/:id/progress/stream, GET /ojs/v1/queues/:name/events, GET /ojs/v1/admin/stats/stream, GET /ojs/v1/ws,
GET /ojs/v1/webhooks/subscriptions, POST /ojs/v1/webhooks/subscriptions, GET /ojs/v1/webhooks/subscriptions/:id, PUT /ojs/v1/webhooks/subscriptions/:id,
PATCH /ojs/v1/webhooks/subscriptions/:id, DELETE /ojs/v1/webhooks/subscriptions/:id, POST /ojs/v1/webhooks/subscriptions/:id/test, POST /ojs/v1/webhooks/subscriptions/:id/rotate-secret,
GET /ojs/v1/jobs/:id/retries, GET /ojs/v1/admin/workers, GET /ojs/v1/admin/workers/:id, DELETE /ojs/v1/admin/workers/:id,
GET /ojs/v1/admin/dead-letter/stats, POST /ojs/v1/admin/dead-letter/retry, POST /ojs/v1/admin/dead-letter/:id/retry, DELETE /ojs/v1/admin/dead-letter/:id,
DELETE /ojs/v1/admin/dead-letter, DELETE /ojs/v1/dead-letter, GET /ojs/v1/admin/tenants, GET /ojs/v1/admin/tenants/:id, PUT /ojs/v1/admin/tenants/:id,
PUT /ojs/v1/admin/tenants/:id/limits, DELETE /ojs/v1/admin/tenants/:id, GET /ojs/v1/admin/observability/health, GET /ojs/v1/health/detail,
GET /ojs/v1/middleware, GET /ojs/v1/metrics, GET /ojs/v1/admin/maintenance, POST /ojs/v1/admin/maintenance, GET /ojs/v1/admin/config,
GET /ojs/v1/admin/system/maintenance, POST /ojs/v1/admin/system/maintenance, GET /ojs/v1/admin/system/config,
DELETE /ojs/v1/cron/:name, DELETE /ojs/v1/crons/:name, DELETE /ojs/v1/dead-letter/:id,
DELETE /ojs/v1/queues/:name/debounce/:id, DELETE /ojs/v1/queues/:name/deduplication/:id, DELETE /ojs/v1/unique-jobs/:key,
DELETE /ojs/v1/workers/:id, POST /ojs/v1/admin/jobs/:id/retry, POST /ojs/v1/admin/workers/directive,
POST /ojs/v1/admin/workers/:id/quiet, POST /ojs/v1/admin/workers/:id/resume, POST /ojs/v1/admin/workers/:id/terminate, GET /ojs/v1/cron, GET /ojs/v1/cron/:name, GET /ojs/v1/crons, GET /ojs/v1/crons/:name,
GET /ojs/v1/dead-letter/stats, GET /ojs/v1/health, GET /ojs/v1/outbox, GET /ojs/v1/outbox/:name/parked, GET /ojs/v1/queues,
GET /ojs/v1/queues/:name, GET /ojs/v1/queues/:name/stats, GET /ojs/v1/unique-jobs, GET /ojs/v1/workers, GET /ojs/v1/workers/:id,
GET /ojs/v1/workers/:id/health, PATCH /ojs/v1/cron/:name, PATCH /ojs/v1/crons/:name, POST /ojs/v1/cron, POST /ojs/v1/crons,
POST /ojs/v1/cron/:name/pause, POST /ojs/v1/cron/:name/resume, POST /ojs/v1/cron/:name/trigger, POST /ojs/v1/crons/:name/pause,
POST /ojs/v1/crons/:name/resume, POST /ojs/v1/crons/:name/trigger, POST /ojs/v1/dead-letter/:id/retry, POST /ojs/v1/dead-letter/purge,
POST /ojs/v1/dead-letter/retry, POST /ojs/v1/jobs/:id/activate, POST /ojs/v1/outbox/:name/discard, POST /ojs/v1/outbox/:name/replay,
POST /ojs/v1/outbox/poke, POST /ojs/v1/workers/beat, POST /ojs/v1/workers/deregister, POST /ojs/v1/workers/heartbeat,
GET /ojs/v1/queues/:name/priority-stats, GET /ojs/v1/queues/:name/config, GET /ojs/v1/admin/queues/:name/config, GET /ojs/v1/admin/queues,
GET /ojs/v1/admin/queues/:name, GET /ojs/v1/admin/stats, GET /ojs/v1/admin/stats/history, DELETE /ojs/v1/admin/queues/:name/jobs, DELETE /ojs/v1/queues/:name,
POST /ojs/v1/queues, POST /ojs/v1/queues/:name/drain, POST /ojs/v1/queues/:name/pause, POST /ojs/v1/queues/:name/resume, POST /ojs/v1/queues/:name/purge,
POST /ojs/v1/admin/queues/:name/drain, POST /ojs/v1/admin/queues/:name/pause, POST /ojs/v1/admin/queues/:name/resume,
PATCH /ojs/v1/queues/:name/config, PATCH /ojs/v1/admin/queues/:name/config, PUT /ojs/v1/queues/:name/config, PUT /ojs/v1/admin/queues/:name/config, PUT /ojs/v1/admin/queues/:name/rate-limit,
POST /ojs/v1/jobs/bulk/cancel, POST /ojs/v1/jobs/bulk/retry, POST /ojs/v1/jobs/bulk/delete, POST /ojs/v1/admin/jobs/bulk/cancel,
POST /ojs/v1/admin/jobs/bulk/retry, POST /ojs/v1/admin/jobs/bulk/delete, POST /ojs/v1/workers/register, PUT /ojs/v1/cron/:name, PUT /ojs/v1/crons/:name`

// TestEveryRouteOmitsBacktraces asks every route that answers jobs for one whose
// backtraces were stored before (ojs-core.md §14.2).
func TestEveryRouteOmitsBacktraces(t *testing.T) {
	t.Parallel()
	router := httpapi.New(newOmitWorld(t).omits, httpapi.Options{}).(interface{ Routes() []*echo.Route })
	silent := map[string]bool{}
	for _, route := range strings.Split(strings.ReplaceAll(blank, "\n", " "), ", ") {
		silent[strings.TrimSpace(route)] = true
	}
	for _, r := range router.Routes() {
		route := r.Method + " " + r.Path
		if r.Method == "HEAD" || !strings.HasPrefix(r.Path, "/ojs/v1") || silent[route] {
			continue
		}
		ask, ok := shown[route]
		if !ok {
			t.Errorf("%s: say whether it answers jobs, and with which request", route)
			continue
		}
		t.Run(route, func(t *testing.T) {
			t.Parallel()
			w := newOmitWorld(t)
			param, body := ask(w)
			path := r.Path
			if strings.Contains(path, ":") { // the parameters stand in place of theirs, a query behind
				param, query, _ := strings.Cut(param, "?")
				for _, v := range strings.Split(param, "/") {
					head, tail, _ := strings.Cut(path, ":")
					_, tail, more := strings.Cut(tail, "/")
					if path = head + v; more {
						path += "/" + tail
					}
				}
				path += "?" + query
			} else {
				path += param
			}
			rec := httptest.NewRecorder()
			httpapi.New(w.omits, httpapi.Options{Log: slog.New(slog.DiscardHandler)}).ServeHTTP(rec, httptest.NewRequest(r.Method, "http://localhost"+path, strings.NewReader(body)))
			if got := rec.Body.String(); rec.Code > 299 || strings.Contains(got, leak) || !strings.Contains(got, told) {
				t.Errorf("%s %s: %d %s", r.Method, path, rec.Code, got)
			}
		})
	}
}
