package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// fake is a job.Service made of functions. A nil function answers with the zero value.
type fake struct {
	fakeAdmin
	fakeProgress
	fakeSchemas
	queueFake
	fakePools
	fakeFollow
	calls      atomic.Int64 // of any method
	enqueue    func(context.Context, ...job.Envelope) ([]job.Receipt, error)
	fetch      func(context.Context, job.FetchRequest) ([]*job.Job, error)
	ack        func(context.Context, job.Claim, json.RawMessage) (*job.Job, error)
	next       func(context.Context, []job.AckRequest, job.FetchRequest) ([]job.Acked, []*job.Job, error) // nil: as the methods it is made of
	fail       func(context.Context, job.Claim, job.Failure) (*job.Job, error)
	beat       func(context.Context, job.Beat) (job.BeatReply, error)
	job        func(context.Context, job.ID) (*job.Job, error)
	jobs       func(context.Context, job.Filter) (job.Page, error)
	cancel     func(context.Context, job.ID, string, string) (job.Change, error)
	activate   func(context.Context, job.ID) (job.Change, error)
	revive     func(context.Context, job.ID) (job.Change, error)
	retry      func(context.Context, job.ID) (job.Change, error)
	deleteDead func(context.Context, job.ID) error
	deadStats  func(context.Context) (job.DeadStats, error)
	queue      func(context.Context, string) (job.Queue, error)
	queues     func(context.Context) ([]job.Queue, error)
	events     func(context.Context, job.EventFilter) ([]job.Event, error)
	health     func(context.Context) (job.Health, error)

	register   func(context.Context, job.WorkerInfo) (job.Registration, error)
	deregister func(context.Context, string) ([]job.ID, error)
	workers    func(context.Context) ([]job.WorkerInfo, error)
	worker     func(context.Context, string) (job.WorkerInfo, error)
	direct     func(context.Context, string, string) (job.WorkerInfo, error)
	directAll  func(context.Context, string) (int, error)
	reviveDead func(context.Context, job.Filter) (int64, error)
	purgeDead  func(context.Context, time.Time) (int64, error)
	history    func(context.Context, job.ID) ([]job.Event, error)

	explain      func(context.Context, job.Checked) (job.Explanation, error)
	claims       func(context.Context, job.Filter) (job.HeldKeys, error)
	releaseKey   func(context.Context, string) (int, error)
	dedupOwner   func(context.Context, string, string) (*job.Job, error)
	releaseDedup func(context.Context, string, string) (bool, error)

	putCron     func(context.Context, job.CronSpec) (*job.Cron, bool, error)
	changeCron  func(context.Context, string, job.CronPatch) (*job.Cron, error)
	cron        func(context.Context, string) (*job.Cron, error)
	crons       func(context.Context, job.CronFilter) (job.CronPage, error)
	deleteCron  func(context.Context, string) (*job.Cron, error)
	triggerCron func(context.Context, string) (job.CronJob, error)
	cronHistory func(context.Context, string, int) ([]job.CronJob, error)

	startWorkflow  func(context.Context, job.WorkflowSpec) (*job.Workflow, bool, error)
	workflow       func(context.Context, job.ID) (*job.Workflow, error)
	workflows      func(context.Context, job.WorkflowFilter) (job.WorkflowPage, error)
	cancelWorkflow func(context.Context, job.ID) (*job.Workflow, error)
	limits         func(context.Context, job.LimitFilter) (job.LimitPage, error)
	limit          func(context.Context, string) (job.LimitInfo, error)
	override       func(context.Context, string, job.Pace) (job.LimitInfo, error)
	dropLimit      func(context.Context, string) (job.LimitInfo, error)
	tenant         func(context.Context, string) (job.TenantStats, error)
}

func (f *fake) Enqueue(context.Context, ...job.Envelope) ([]job.Receipt, error) {
	panic("what came over HTTP is checked already")
}

func (f *fake) EnqueueChecked(ctx context.Context, cs ...job.Checked) ([]job.Receipt, error) {
	f.calls.Add(1)
	es := make([]job.Envelope, len(cs))
	for i, c := range cs {
		es[i] = c.Envelope()
	}
	return f.enqueue(ctx, es...)
}

func (f *fake) Fetch(ctx context.Context, r job.FetchRequest) ([]*job.Job, error) {
	f.calls.Add(1)
	return f.fetch(ctx, r)
}

func (f *fake) Ack(ctx context.Context, c job.Claim, result json.RawMessage) (*job.Job, error) {
	f.calls.Add(1)
	return f.ack(ctx, c, result)
}

func (f *fake) AckAll(ctx context.Context, acks []job.AckRequest) ([]job.Acked, error) {
	f.calls.Add(1)
	acked := make([]job.Acked, len(acks))
	for i, a := range acks {
		j, err := f.ack(ctx, a.Claim, a.Result)
		if acked[i].Err = err; err == nil {
			acked[i].FinishedAt = j.FinishedAt
		}
	}
	return acked, nil
}

func (f *fake) Next(ctx context.Context, acks []job.AckRequest, r job.FetchRequest) ([]job.Acked, []*job.Job, error) {
	if f.next != nil {
		f.calls.Add(1)
		return f.next(ctx, acks, r)
	}
	acked, _ := f.AckAll(ctx, acks) // never fails
	jobs, err := f.fetch(ctx, r)
	return acked, jobs, err
}

func (f *fake) Fail(ctx context.Context, c job.Claim, why job.Failure) (*job.Job, error) {
	f.calls.Add(1)
	return f.fail(ctx, c, why)
}

func (f *fake) Beat(ctx context.Context, b job.Beat) (job.BeatReply, error) {
	f.calls.Add(1)
	return f.beat(ctx, b)
}

func (f *fake) Job(ctx context.Context, id job.ID) (*job.Job, error) {
	f.calls.Add(1)
	return f.job(ctx, id)
}

func (f *fake) Jobs(ctx context.Context, q job.Filter) (job.Page, error) {
	f.calls.Add(1)
	return f.jobs(ctx, q)
}

func (f *fake) Cancel(ctx context.Context, id job.ID, by, reason string) (job.Change, error) {
	f.calls.Add(1)
	return f.cancel(ctx, id, by, reason)
}

func (f *fake) Activate(ctx context.Context, id job.ID) (job.Change, error) {
	f.calls.Add(1)
	return f.activate(ctx, id)
}

func (f *fake) Revive(ctx context.Context, id job.ID) (job.Change, error) {
	f.calls.Add(1)
	return f.revive(ctx, id)
}

func (f *fake) Retry(ctx context.Context, id job.ID) (job.Change, error) {
	f.calls.Add(1)
	return f.retry(ctx, id)
}

func (f *fake) DeleteDead(ctx context.Context, id job.ID) error {
	f.calls.Add(1)
	return f.deleteDead(ctx, id)
}

func (f *fake) DeadStats(ctx context.Context) (job.DeadStats, error) {
	f.calls.Add(1)
	return f.deadStats(ctx)
}

func (f *fake) Queue(ctx context.Context, name string) (job.Queue, error) {
	f.calls.Add(1)
	return f.queue(ctx, name)
}

func (f *fake) Queues(ctx context.Context) ([]job.Queue, error) {
	f.calls.Add(1)
	return f.queues(ctx)
}

func (f *fake) Events(ctx context.Context, q job.EventFilter) ([]job.Event, error) {
	f.calls.Add(1)
	return f.events(ctx, q)
}

func (f *fake) Health(ctx context.Context) (job.Health, error) {
	f.calls.Add(1)
	return f.health(ctx)
}

func (f *fake) Register(ctx context.Context, w job.WorkerInfo) (job.Registration, error) {
	f.calls.Add(1)
	return f.register(ctx, w)
}

func (f *fake) Deregister(ctx context.Context, id string) ([]job.ID, error) {
	f.calls.Add(1)
	return f.deregister(ctx, id)
}

func (f *fake) Workers(ctx context.Context) ([]job.WorkerInfo, error) {
	f.calls.Add(1)
	return f.workers(ctx)
}

func (f *fake) Worker(ctx context.Context, id string) (job.WorkerInfo, error) {
	f.calls.Add(1)
	return f.worker(ctx, id)
}

func (f *fake) Direct(ctx context.Context, id, wish string) (job.WorkerInfo, error) {
	f.calls.Add(1)
	return f.direct(ctx, id, wish)
}

func (f *fake) DirectAll(ctx context.Context, wish string) (int, error) {
	f.calls.Add(1)
	return f.directAll(ctx, wish)
}

func (f *fake) ReviveDead(ctx context.Context, q job.Filter) (int64, error) {
	f.calls.Add(1)
	return f.reviveDead(ctx, q)
}

func (f *fake) PurgeDead(ctx context.Context, before time.Time) (int64, error) {
	f.calls.Add(1)
	return f.purgeDead(ctx, before)
}

func (f *fake) History(ctx context.Context, id job.ID) ([]job.Event, error) {
	f.calls.Add(1)
	return f.history(ctx, id)
}

func (f *fake) Explain(ctx context.Context, e job.Checked) (job.Explanation, error) {
	f.calls.Add(1)
	return f.explain(ctx, e)
}

func (f *fake) HeldKeys(ctx context.Context, q job.Filter) (job.HeldKeys, error) {
	f.calls.Add(1)
	return f.claims(ctx, q)
}

func (f *fake) ReleaseKey(ctx context.Context, key string) (int, error) {
	f.calls.Add(1)
	return f.releaseKey(ctx, key)
}

func (f *fake) DedupOwner(ctx context.Context, queue, id string) (*job.Job, error) {
	f.calls.Add(1)
	return f.dedupOwner(ctx, queue, id)
}

func (f *fake) ReleaseDedup(ctx context.Context, queue, id string) (bool, error) {
	f.calls.Add(1)
	return f.releaseDedup(ctx, queue, id)
}

func (f *fake) PutCron(ctx context.Context, s job.CronSpec) (*job.Cron, bool, error) {
	f.calls.Add(1)
	return f.putCron(ctx, s)
}

func (f *fake) ChangeCron(ctx context.Context, name string, p job.CronPatch) (*job.Cron, error) {
	f.calls.Add(1)
	return f.changeCron(ctx, name, p)
}

func (f *fake) Cron(ctx context.Context, name string) (*job.Cron, error) {
	f.calls.Add(1)
	return f.cron(ctx, name)
}

func (f *fake) Crons(ctx context.Context, q job.CronFilter) (job.CronPage, error) {
	f.calls.Add(1)
	return f.crons(ctx, q)
}

func (f *fake) DeleteCron(ctx context.Context, name string) (*job.Cron, error) {
	f.calls.Add(1)
	return f.deleteCron(ctx, name)
}

func (f *fake) TriggerCron(ctx context.Context, name string) (job.CronJob, error) {
	f.calls.Add(1)
	return f.triggerCron(ctx, name)
}

func (f *fake) CronHistory(ctx context.Context, name string, n int) ([]job.CronJob, error) {
	f.calls.Add(1)
	return f.cronHistory(ctx, name, n)
}

func (f *fake) StartWorkflow(ctx context.Context, spec job.WorkflowSpec) (*job.Workflow, bool, error) {
	f.calls.Add(1)
	return f.startWorkflow(ctx, spec)
}

func (f *fake) Workflow(ctx context.Context, id job.ID) (*job.Workflow, error) {
	f.calls.Add(1)
	return f.workflow(ctx, id)
}

func (f *fake) Workflows(ctx context.Context, q job.WorkflowFilter) (job.WorkflowPage, error) {
	f.calls.Add(1)
	return f.workflows(ctx, q)
}

func (f *fake) CancelWorkflow(ctx context.Context, id job.ID) (*job.Workflow, error) {
	f.calls.Add(1)
	return f.cancelWorkflow(ctx, id)
}

func (f *fake) Limits(ctx context.Context, q job.LimitFilter) (job.LimitPage, error) {
	f.calls.Add(1)
	return f.limits(ctx, q)
}

func (f *fake) Limit(ctx context.Context, key string) (job.LimitInfo, error) {
	f.calls.Add(1)
	return f.limit(ctx, key)
}

func (f *fake) OverrideLimit(ctx context.Context, key string, p job.Pace) (job.LimitInfo, error) {
	f.calls.Add(1)
	return f.override(ctx, key, p)
}

func (f *fake) DropLimitOverride(ctx context.Context, key string) (job.LimitInfo, error) {
	f.calls.Add(1)
	return f.dropLimit(ctx, key)
}

func (f *fake) TenantStats(ctx context.Context, id string) (job.TenantStats, error) {
	f.calls.Add(1)
	return f.tenant(ctx, id)
}

// quiet are options whose answers never change.
func quiet() Options {
	return Options{
		Log: slog.New(slog.DiscardHandler), Version: "1.2.3", Hosts: []string{"jobs.internal"},
		Now:          func() time.Time { return noon },
		NewRequestID: func() string { return "req_test" },
		Outboxes:     outboxes(),
		Streams:      ended(), // or the answers of some routes would go on
		Webhooks:     hooked{},
		Settings: []wire.Setting{{Name: "lag_seconds", Value: []string{"30s"}, Origin: "--lag-seconds"}, {Name: "database", Origin: "default"},
			{Name: "queues", Value: []string{"a", "b"}, List: true, Origin: "OUTRIDER_QUEUES"}},
	}
}

// ended are the streams of a server that stops.
func ended() *Streams {
	s := NewStreams(0)
	s.End(0)
	return s
}

// serve answers one request that is written as text: the request line,
// headers, an empty line, the body. Host is localhost where none is given.
func serve(h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	if body != "" {
		r = httptest.NewRequest(method, target, strings.NewReader(body))
	}
	r.Host = "localhost:7373"
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// failure is the error object of an answer.
type failure struct {
	Code, Message string
	Details       map[string]any
	Retryable     bool
	RequestID     string `json:"request_id"`
}

func failureOf(t *testing.T, body io.Reader) failure {
	t.Helper()
	raw, _ := io.ReadAll(body)
	var b struct{ Error *failure }
	d := json.NewDecoder(bytes.NewReader(raw))
	if err := d.Decode(&b); err != nil || b.Error == nil || b.Error.Message == "" {
		t.Fatalf("not an error body: %s", raw)
	}
	return *b.Error
}

var _ job.Service = (*fake)(nil)

func routes(h http.Handler) []*echo.Route { return h.(*meter).Routes() }
