package main

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

const (
	// topWindow is how long rates are taken over, once the screen has been there so long.
	topWindow = 10 * time.Second
	// topFailWindow is how long a failure counts.
	topFailWindow = 5 * time.Minute
	// topBack is how many events are looked through for failures at first.
	topBack = 20_000
	// topDetails is how many queues are asked for their oldest job in one frame.
	topDetails = 20
)

// topFrame is what one look has seen.
type topFrame struct {
	At      time.Time           `json:"at"`
	Uptime  int64               `json:"uptime_seconds"`
	Jobs    map[job.State]int64 `json:"jobs"`
	Dead    int64               `json:"dead_letter"`
	In      float64             `json:"enqueued_per_second"`
	Out     float64             `json:"completed_per_second"`
	Fail    float64             `json:"failed_per_second"`
	Waited  int64               `json:"avg_waited_ms"` // of the last hour
	Queues  []topQueue          `json:"queues"`
	Workers []topWorker         `json:"workers"`
	Failing []topFailing        `json:"failing"`
}

// topQueue is a queue. Rates are per second.
type topQueue struct {
	Name      string     `json:"name"`
	State     string     `json:"state"`
	Waiting   int64      `json:"available"`
	Active    int64      `json:"active"`
	Scheduled int64      `json:"scheduled"`
	Retryable int64      `json:"retryable"`
	In        float64    `json:"enqueued_per_second"`
	Out       float64    `json:"completed_per_second"`
	Fail      float64    `json:"failed_per_second"`
	Oldest    *time.Time `json:"oldest_available_at"`
}

type topWorker struct {
	ID     string    `json:"id"`
	State  string    `json:"state"`
	Active int       `json:"active_jobs"`
	Host   string    `json:"hostname"`
	BeatAt time.Time `json:"last_heartbeat_at"`
}

// topFailing is a type whose jobs have failed lately.
type topFailing struct {
	Type   string    `json:"type"`
	Failed int       `json:"failed"`
	Last   time.Time `json:"last_failed_at"`
	Error  string    `json:"last_error"`
}

// topCounts are the counters of a look, from which rates are made.
type topCounts struct {
	at     time.Time
	uptime time.Duration
	queues map[string]job.Totals
}

type topFail struct {
	kind, error string
	at          time.Time
}

// ask looks at the server: at counters that it keeps, the newest events, and the oldest
// job of those queues that have the most to do. None of it grows with the store.
func (t *top) ask(ctx context.Context) error {
	m, err := t.client.Metrics(ctx)
	if err != nil {
		return err
	}
	queues, err := t.client.Queues(ctx)
	if err != nil {
		return err
	}
	workers, err := t.client.Workers(ctx)
	if err != nil {
		return err
	}
	f := &topFrame{At: m.At, Uptime: int64(m.Uptime.Seconds()), Jobs: map[job.State]int64{}, In: m.PerSecond.Enqueued, Out: m.PerSecond.Completed,
		Fail: m.PerSecond.Failed, Waited: m.AvgWaited.Milliseconds(), Queues: []topQueue{}, Workers: []topWorker{}}
	for _, s := range job.States {
		f.Jobs[s] = 0
	}
	status := map[string]string{}
	for _, q := range queues {
		if status[q.Name] = "active"; q.Paused {
			status[q.Name] = "paused"
		} else if q.Draining {
			status[q.Name] = "draining"
		}
	}
	for _, q := range m.Queues {
		for s, n := range q.Counts {
			f.Jobs[s] += n
		}
		f.Dead += q.Dead
		f.Queues = append(f.Queues, topQueue{Name: q.Name, State: cmp.Or(status[q.Name], "active"), Waiting: q.Counts[job.Available],
			Active: q.Counts[job.Active], Scheduled: q.Counts[job.Scheduled], Retryable: q.Counts[job.Retryable]})
	}
	for _, w := range workers {
		state := cmp.Or(w.Directive, w.State, "running")
		if w.Stale {
			state = "stale"
		}
		f.Workers = append(f.Workers, topWorker{w.ID, state, w.Active, w.Hostname, w.BeatAt})
	}
	slices.SortStableFunc(f.Workers, func(a, b topWorker) int { return cmp.Compare(b.Active, a.Active) })
	known := t.rates(f, m)
	if err := t.details(ctx, f, known); err != nil {
		return err
	}
	if f.Failing, err = t.failing(ctx, m.At); err != nil {
		return err
	}
	t.frame = f
	return nil
}

// rates makes rates from what has been counted since an earlier look. It reports false
// where there is none, or the server has been started anew since.
func (t *top) rates(f *topFrame, m job.Metrics) bool {
	now := topCounts{m.At, m.Uptime, map[string]job.Totals{}}
	for _, q := range m.Queues {
		now.queues[q.Name] = q.Totals
	}
	if n := len(t.counts); n > 0 && (now.uptime < t.counts[n-1].uptime || !now.at.After(t.counts[n-1].at)) {
		t.counts = nil
	}
	t.counts = append(t.counts, now)
	for len(t.counts) > 2 && now.at.Sub(t.counts[1].at) >= topWindow {
		t.counts = t.counts[1:]
	}
	was := t.counts[0]
	seconds := now.at.Sub(was.at).Seconds()
	if seconds <= 0 {
		return false
	}
	f.In, f.Out, f.Fail = 0, 0, 0
	for i := range f.Queues {
		q := &f.Queues[i]
		a, b := was.queues[q.Name], now.queues[q.Name]
		q.In, q.Out, q.Fail = float64(b.Enqueued-a.Enqueued)/seconds, float64(b.Completed-a.Completed)/seconds, float64(b.Failed-a.Failed)/seconds
		f.In, f.Out, f.Fail = f.In+q.In, f.Out+q.Out, f.Fail+q.Fail
	}
	return true
}

// details asks the queues with the most to do for their oldest job and, where rates are
// not known from counters, for those of the last minutes.
func (t *top) details(ctx context.Context, f *topFrame, rates bool) error {
	slices.SortStableFunc(f.Queues, func(a, b topQueue) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Active, a.Active), cmp.Compare(a.Name, b.Name))
	})
	for i := range f.Queues[:min(topDetails, len(f.Queues))] {
		q := &f.Queues[i]
		if rates && q.Waiting == 0 {
			continue
		}
		r, err := t.client.QueueStats(ctx, q.Name)
		if err != nil {
			return err
		}
		if !r.Oldest.IsZero() {
			q.Oldest = &r.Oldest
		}
		if p := r.Stats.PerSecond; !rates {
			q.In, q.Out, q.Fail = p.Enqueued, p.Completed, p.Failed
		}
	}
	return nil
}

// failing reads the failures since the last look, and counts those of the last minutes by
// type, the most frequent first.
func (t *top) failing(ctx context.Context, now time.Time) ([]topFailing, error) {
	span, err := t.client.EventSpan(ctx)
	if err != nil {
		return nil, err
	}
	oldest := max(span.Last-topBack, span.First-1, 0)
	if t.frame == nil || t.seen > span.Last {
		t.seen = oldest
	}
	es, err := t.client.Events(ctx, job.EventFilter{Types: []string{"job.failed"}, After: max(t.seen, oldest), Since: now.Add(-topFailWindow), Limit: 1000})
	if err != nil {
		return nil, err
	}
	t.seen = span.Last
	if len(es) == 1000 {
		t.seen = es[len(es)-1].Seq // the next look goes on behind it
	}
	for _, e := range es {
		t.seen = max(t.seen, e.Seq)
		var d struct {
			Error eventError `json:"error"`
		}
		_ = json.Unmarshal(e.Data, &d) // what is not like that has no error
		t.fails = append(t.fails, topFail{e.JobType, cmp.Or(d.Error.Type, d.Error.Code) + ": " + d.Error.Message, e.Time})
	}
	t.fails = slices.DeleteFunc(t.fails, func(f topFail) bool { return f.at.Before(now.Add(-topFailWindow)) })
	return failingOf(t.fails), nil
}

func failingOf(fails []topFail) []topFailing {
	all := []topFailing{}
	places := map[string]int{}
	for _, f := range fails {
		at, ok := places[f.kind]
		if !ok {
			at = len(all)
			places[f.kind] = at
			all = append(all, topFailing{Type: f.kind})
		}
		all[at].Failed++
		all[at].Last, all[at].Error = f.at, f.error
	}
	slices.SortStableFunc(all, func(a, b topFailing) int { return cmp.Compare(b.Failed, a.Failed) })
	return all
}
