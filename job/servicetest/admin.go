package servicetest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// administering is what those ask who run the server (contract §3.22, §3.23).
var administering = []verdict{
	{"a job is shown with the policy that holds for it", policyShown},
	{"in a maintenance nothing is handed out and nothing promoted, and the rest goes on", maintained},
	{"a maintenance ends by itself, and wakes who waits", maintenanceEnds},
	{"a maintenance that is none is refused", maintenanceRefused},
	{"only a stale worker is forgotten", forgetsStale},
	{"tenants are known by their jobs", tenantsKnown},
	{"what happens is counted", metricsCounted},
	{"a worker that tells no queues has those that it fetches from", queuesOfFetch},
	{"labels come back as they were given, an object or a list", labelsKept},
}

func policyShown(k *kit) {
	k.configure(queue, `{"default_retry":{"max_attempts":9,"jitter":false}}`)
	j := k.push(func(e *job.Envelope) {
		e.Retry = []byte(`{"initial_interval":"PT2.5S","non_retryable_errors":["Auth"]}`)
	})
	d, err := k.s.Detail(k.ctx(), j.ID)
	want := job.DefaultRetry()
	want.MaxAttempts, want.Jitter, want.InitialInterval, want.NonRetryableErrors = 9, false, 2500*time.Millisecond, []string{"Auth"}
	if err != nil || d.ID != j.ID || d.State != job.Available || !reflect.DeepEqual(d.Policy, want) {
		k.t.Errorf("%+v, %v, want %+v", d.Policy, err, want)
	}
	if _, err := k.s.Detail(k.ctx(), newID()); job.KindOf(err) != job.NotFound || err == nil {
		k.t.Errorf("a job that is not there: %v", err)
	}
}

func (k *kit) maintenance(ask job.MaintenanceAsk) job.Maintenance {
	k.t.Helper()
	m, err := k.s.SetMaintenance(k.ctx(), ask)
	if err != nil {
		k.t.Fatal(err)
	}
	read, err := k.s.Maintenance(k.ctx())
	h, herr := k.s.Health(k.ctx())
	if err != nil || herr != nil || read != m || h.Maintenance != m || m.On != ask.On {
		k.t.Fatalf("asked for %+v: answered %+v, read %+v, in health %+v; %v, %v", ask, m, read, h.Maintenance, err, herr)
	}
	return m
}

func maintained(k *kit) {
	if m, err := k.s.Maintenance(k.ctx()); err != nil || m != (job.Maintenance{}) {
		k.t.Errorf("at first: %+v, %v", m, err)
	}
	k.named("before")
	running := k.one(job.FetchRequest{})
	began := k.maintenance(job.MaintenanceAsk{On: true, Reason: "a new disk"})
	if began.Reason != "a new disk" || time.Since(began.Started).Abs() > patience || !began.Ends.IsZero() {
		k.t.Errorf("%+v", began)
	}
	waits := k.named("waits")
	later := k.push(func(e *job.Envelope) { e.ScheduledAt = time.Now().Add(blink) })
	if _, err := k.s.Ack(k.ctx(), claimOf(running), nil); err != nil {
		k.t.Errorf("ack: %v", err)
	}
	if got := k.fetch(job.FetchRequest{Count: 9, Wait: 4 * blink}); len(got) != 0 {
		k.t.Errorf("it hands out %d jobs", len(got))
	}
	if s := k.read(later.ID).State; s != job.Scheduled {
		k.t.Errorf("a scheduled job is %s", s)
	}
	changed := k.maintenance(job.MaintenanceAsk{On: true, Duration: time.Hour})
	if changed.Reason != began.Reason || !changed.Started.Equal(began.Started) || time.Until(changed.Ends) < 50*time.Minute {
		k.t.Errorf("changed: %+v", changed)
	}
	answered := make(chan []*job.Job, 1)
	go func() {
		jobs, _ := k.s.Fetch(k.ctx(), job.FetchRequest{Queues: []string{queue}, Wait: patience})
		answered <- jobs
	}()
	k.maintenance(job.MaintenanceAsk{})
	if got := <-answered; len(got) != 1 || got[0].ID != waits.ID {
		k.t.Errorf("afterwards: %v", got)
	}
	if got := k.fetch(job.FetchRequest{Wait: patience}); len(got) != 1 || got[0].ID != later.ID {
		k.t.Errorf("the scheduled one: %v", got)
	}
}

func maintenanceEnds(k *kit) {
	j := k.named("waits")
	m := k.maintenance(job.MaintenanceAsk{On: true, Duration: 10 * blink})
	got := k.fetch(job.FetchRequest{Wait: patience})
	if len(got) != 1 || got[0].ID != j.ID {
		k.t.Fatalf("got %v", got)
	}
	if early := m.Ends.Sub(got[0].StartedAt); early > 0 {
		k.t.Errorf("it was handed out %s before the end", early)
	}
	if m, err := k.s.Maintenance(k.ctx()); err != nil || m.On {
		k.t.Errorf("%+v, %v", m, err)
	}
}

func maintenanceRefused(k *kit) {
	for _, c := range []struct {
		ask  job.MaintenanceAsk
		want job.Kind
	}{
		{job.MaintenanceAsk{On: true, Reason: strings.Repeat("x", job.MaxReason+1)}, job.TooLarge},
		{job.MaintenanceAsk{On: true, Duration: -time.Second}, job.Invalid},
	} {
		if _, err := k.s.SetMaintenance(k.ctx(), c.ask); err == nil || job.KindOf(err) != c.want {
			k.t.Errorf("%s: %v", c.ask.Duration, err)
		}
	}
	if m, err := k.s.Maintenance(k.ctx()); err != nil || m.On {
		k.t.Errorf("%+v, %v", m, err)
	}
}

func forgetsStale(k *kit) {
	k.beat(job.Beat{Worker: job.WorkerInfo{ID: "lives"}})
	for id, want := range map[string]job.Kind{"lives": job.Conflict, "unknown": job.NotFound, "": job.Invalid} {
		if _, err := k.s.ForgetWorker(k.ctx(), id); err == nil || job.KindOf(err) != want {
			k.t.Errorf("%q: %v", id, err)
		}
	}
	if _, err := k.s.Worker(k.ctx(), "lives"); err != nil {
		k.t.Error(err)
	}
}

func tenantsKnown(k *kit) {
	names, err := k.s.Tenants(k.ctx(), "", 10)
	if err != nil || len(names) != 0 {
		k.t.Errorf("at first: %v, %v", names, err)
	}
	for i, meta := range []string{`{"tenant_id":"globex"}`, `{"tenant_id":"acme"}`, `{}`, `{"tenant_id":"globex"}`, `{"tenant_id":"Zeta"}`, `{"tenant_id":"of a name that is none"}`} {
		k.push(func(e *job.Envelope) { e.Type, e.Meta = fmt.Sprintf("t%d", i), []byte(meta) })
	}
	for _, c := range []struct {
		after string
		n     int
		want  []string
	}{{"", 10, []string{"Zeta", "acme", "globex"}}, {"", 2, []string{"Zeta", "acme"}}, {"acme", 2, []string{"globex"}}, {"globex", 2, nil}, {"", 0, nil}} {
		if names, err := k.s.Tenants(k.ctx(), c.after, c.n); err != nil || !slices.Equal(names, c.want) {
			k.t.Errorf("%d behind %q: %v, %v, want %v", c.n, c.after, names, err, c.want)
		}
	}
}

func metricsCounted(k *kit) {
	k.configure("small", `{"backpressure":{"max_depth":1}}`)
	for i := range 3 {
		k.named(fmt.Sprintf("j%d", i))
	}
	k.push(func(e *job.Envelope) { e.Queue = "small" })
	if _, err := k.s.Enqueue(k.ctx(), envelope(func(e *job.Envelope) { e.Queue = "small" })); err == nil {
		k.t.Fatal("a full queue takes a job")
	}
	got := k.fetch(job.FetchRequest{Count: 3})
	if _, err := k.s.Ack(k.ctx(), claimOf(got[0]), nil); err != nil {
		k.t.Fatal(err)
	}
	for _, f := range []struct {
		job *job.Job
		why job.Failure
	}{{got[1], job.Failure{Type: "E", Code: "DEAD_LETTER"}}, {got[2], job.Failure{Requeue: true}}} {
		if _, err := k.s.Fail(k.ctx(), claimOf(f.job), f.why); err != nil {
			k.t.Fatal(err)
		}
	}
	k.beat(job.Beat{Worker: job.WorkerInfo{ID: "a"}})
	k.beat(job.Beat{Worker: job.WorkerInfo{ID: "b", State: "quiet"}})
	m, err := k.s.Metrics(k.ctx())
	if err != nil || m.Workers != (job.WorkerCounts{Running: 1, Quiet: 1}) || time.Since(m.At).Abs() > patience {
		k.t.Fatalf("%+v, %v", m, err)
	}
	want := map[string]job.Totals{"default": {}, queue: {Enqueued: 3, Completed: 1, Failed: 1, Discarded: 1}, "small": {Enqueued: 1, Rejected: 1}}
	for _, q := range m.Queues {
		if q.Totals != want[q.Name] {
			k.t.Errorf("%s: %+v, want %+v", q.Name, q.Totals, want[q.Name])
		}
		if q.Name == queue && (q.Dead != 1 || q.Counts[job.Completed] != 1 || q.Counts[job.Available] != 1) {
			k.t.Errorf("%+v", q)
		}
	}
	if len(m.Queues) != len(want) {
		k.t.Errorf("%d queues", len(m.Queues))
	}
}

func queuesOfFetch(k *kit) {
	k.beat(job.Beat{Worker: job.WorkerInfo{ID: "silent"}})
	k.beat(job.Beat{Worker: job.WorkerInfo{ID: "tells", Queues: []string{"mine"}}})
	for _, id := range []string{"silent", "tells", "unknown"} {
		k.fetch(job.FetchRequest{Worker: id, Queues: []string{"x"}})
		k.fetch(job.FetchRequest{Worker: id, Queues: []string{"b", "a"}})
	}
	k.beat(job.Beat{Worker: job.WorkerInfo{ID: "silent"}})
	ws, err := k.s.Workers(k.ctx())
	if err != nil || len(ws) != 2 || !slices.Equal(ws[0].Queues, []string{"b", "a"}) || !slices.Equal(ws[1].Queues, []string{"mine"}) {
		k.t.Errorf("%+v, %v", ws, err)
	}
	if w, err := k.s.Worker(k.ctx(), "silent"); err != nil || !slices.Equal(w.Queues, []string{"b", "a"}) {
		k.t.Errorf("%+v, %v", w, err)
	}
}

func labelsKept(k *kit) {
	for _, w := range []job.WorkerInfo{{ID: "list", LabelList: []string{"gpu", "eu"}}, {ID: "named", Labels: map[string]string{"zone": "b", "gpu": ""}}} {
		k.beat(job.Beat{Worker: w})
		k.beat(job.Beat{Worker: job.WorkerInfo{ID: w.ID}})
		got, err := k.s.Worker(k.ctx(), w.ID)
		if err != nil || !slices.Equal(got.LabelList, w.LabelList) || fmt.Sprint(got.Labels) != fmt.Sprint(w.Labels) {
			k.t.Errorf("%s: %+v, %v", w.ID, got, err)
		}
	}
	k.beat(job.Beat{Worker: job.WorkerInfo{ID: "list", Labels: map[string]string{"now": "named"}}})
	if got, err := k.s.Worker(k.ctx(), "list"); err != nil || got.LabelList != nil || got.Labels["now"] != "named" {
		k.t.Errorf("%+v, %v", got, err)
	}
}
