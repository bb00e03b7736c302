package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// noon is the one instant of the tests.
var noon = time.Date(2026, 3, 15, 12, 0, 0, 0, time.UTC)

// Jobs of the tests are told apart by the end of their id; see world.
const (
	idOne  job.ID = "01970000-0000-7000-8000-000000000001"
	idTwo  job.ID = "01970000-0000-7000-8000-000000000002"
	idDead job.ID = "01970000-0000-7000-8000-00000000dead"
)

// failures are the errors that world answers with for the id that ends in the key.
var failures = map[string]error{
	"e001": job.Errorf(job.NotFound, "job 01970000-0000-7000-8000-00000000e001 does not exist"),
	"e002": &job.Error{Kind: job.Conflict, Message: "job 01970000-0000-7000-8000-00000000e002 is completed, expected active for ACK",
		Details: map[string]any{"job_id": "01970000-0000-7000-8000-00000000e002", "current_state": "completed", "expected_state": "active"}},
	"e003": job.Errorf(job.Finished, "job 01970000-0000-7000-8000-00000000e003 is completed and can no longer be cancelled"),
	"e004": job.Errorf(job.Duplicate, "job 01970000-0000-7000-8000-00000000e004 exists already"),
	"e005": job.Errorf(job.TooLarge, "result of job 01970000-0000-7000-8000-00000000e005 is 1048577 bytes, at most 1048576 are kept"),
	"e006": job.Errorf(job.Unavailable, "the store is busy"),
	"e007": job.Errorf(job.Internal, "read job: %w", errors.New("SQL logic error in /secret/path")),
	"e008": errors.New("a foreign error with a SECRET"),
}

func failing(id job.ID) error { return failures[string(id)[max(0, len(id)-4):]] }

func push(e job.Envelope) *job.Job {
	if e.ID == "" {
		e.ID = idOne
	}
	c, err := e.Check()
	if err != nil {
		panic(err)
	}
	j, err := c.Push(noon)
	if err != nil {
		panic(err)
	}
	return j
}

func mail(id job.ID) *job.Job {
	return push(job.Envelope{ID: id, Type: "mail.send", Queue: "mail", Args: json.RawMessage(`[{"to":"a@b.c"}]`),
		Priority: 5, MaxAttempts: 3, Timeout: 30 * time.Second, Extra: json.RawMessage(`{"timeout":30,"trace":"t1"}`)})
}

func started(id job.ID) *job.Job {
	j := mail(id)
	if err := j.Start(noon, job.Lease{Token: "token-" + string(id[len(id)-4:]), Worker: "w1", Length: 30 * time.Minute}); err != nil {
		panic(err)
	}
	return j
}

func dead(id job.ID) *job.Job {
	j := started(id)
	if err := j.Fail(noon, job.Claim{ID: id}, job.Failure{Type: "SmtpError", Code: "DEAD_LETTER", Message: "refused"}, 0); err != nil {
		panic(err)
	}
	return j
}

// world is a fake with an answer to everything.
func world() *fake {
	f := &fake{}
	addLimits(f)
	addPools(f)
	enqueuing(f)
	working(f)
	listing(f)
	changing(f)
	counting(f)
	queueing(f)
	rostering(f)
	keeping(f)
	timing(f)
	flowing(f)
	progressing(f)
	schooling(f)
	administering(f)
	return f
}

func enqueuing(f *fake) {
	f.enqueue = func(_ context.Context, es ...job.Envelope) ([]job.Receipt, error) {
		var rs []job.Receipt
		for _, e := range es {
			if err := failing(e.ID); err != nil {
				return nil, err
			}
			if e.Type == "schema.unfit" {
				return nil, job.Unfit("urn:x", []job.SchemaFault{{Path: "args[0]", Message: "missing property 'to'"}})
			}
			if e.Type == "unique.rejected" {
				return nil, rejected(len(es), len(rs))
			}
			r := job.Receipt{Job: push(e)}
			if e.ID == idTwo {
				r.Existing, r.Verdict = true, job.SameID
			} else if j, v := met(e.Type); j != nil {
				r = job.Receipt{Job: j, Existing: true, Verdict: v}
			} else if e.Type == "unique.replacing" {
				r.Replaced = idTwo
			}
			rs = append(rs, r)
		}
		return rs, nil
	}
}

func working(f *fake) {
	f.fetch = func(_ context.Context, r job.FetchRequest) ([]*job.Job, error) {
		switch r.Queues[0] {
		case "empty":
			return nil, nil
		case "broken":
			return nil, failures["e006"]
		}
		return []*job.Job{started(idOne), started(idTwo)}[:min(2, r.Count)], nil
	}
	f.ack = func(_ context.Context, c job.Claim, result json.RawMessage) (*job.Job, error) {
		if err := failing(c.ID); err != nil {
			return nil, err
		}
		j := started(c.ID)
		return j, j.Complete(noon, c, result)
	}
	f.fail = func(_ context.Context, c job.Claim, why job.Failure) (*job.Job, error) {
		if err := failing(c.ID); err != nil {
			return nil, err
		}
		j := started(c.ID)
		return j, j.Fail(noon, c, why, 0.5)
	}
	f.beat = func(_ context.Context, b job.Beat) (job.BeatReply, error) {
		r := job.BeatReply{Directive: "running", Time: noon}
		for i, c := range b.Jobs {
			switch i {
			case 0:
				r.Extended = append(r.Extended, c.ID)
			case 1:
				r.Cancelled = append(r.Cancelled, c.ID)
			default:
				r.Lost = append(r.Lost, c.ID)
			}
		}
		return r, nil
	}
}

func listing(f *fake) {
	f.job = func(_ context.Context, id job.ID) (*job.Job, error) {
		if id == idDead {
			return dead(id), nil
		}
		return telling(started(id)), failing(id)
	}
	f.jobs = func(_ context.Context, q job.Filter) (job.Page, error) {
		if q.Dead {
			return job.Page{Jobs: []*job.Job{dead(idDead)}, Total: 1}, nil
		}
		return job.Page{Jobs: []*job.Job{mail(idTwo), mail(idOne)}[:min(2, q.Limit)], Total: 45, Next: "next"}, nil
	}
}

// changing fills in the verbs of an operator.
func changing(f *fake) {
	change := func(id job.ID, j *job.Job, do func(*job.Job) error) (job.Change, error) {
		if err := failing(id); err != nil {
			return job.Change{}, err
		}
		before := j.State
		return job.Change{Job: j, Previous: before}, do(j)
	}
	f.cancel = func(_ context.Context, id job.ID, by, reason string) (job.Change, error) {
		return change(id, mail(id), func(j *job.Job) error { return j.Cancel(noon, by, reason) })
	}
	f.activate = func(_ context.Context, id job.ID) (job.Change, error) {
		j := push(job.Envelope{ID: id, Type: "a.b", Queue: "q", Args: json.RawMessage(`[]`), MaxAttempts: 3, Hold: true})
		return change(id, j, func(j *job.Job) error { return j.Activate(noon) })
	}
	f.revive = func(_ context.Context, id job.ID) (job.Change, error) {
		return change(id, dead(id), func(j *job.Job) error { return j.Revive(noon) })
	}
	f.retry = func(_ context.Context, id job.ID) (job.Change, error) {
		if id == idTwo {
			j := mail(id)
			return job.Change{}, j.Revive(noon)
		}
		return f.revive(context.Background(), id)
	}
	f.deleteDead = func(_ context.Context, id job.ID) error { return failing(id) }
	f.reviveDead = func(_ context.Context, q job.Filter) (int64, error) {
		if q.Queue == "broken" {
			return 3, failures["e006"]
		}
		return int64(1200 + q.Limit), nil
	}
	f.purgeDead = func(_ context.Context, before time.Time) (int64, error) {
		return int64(noon.Sub(before) / time.Hour), nil
	}
}

// counting fills in what is only read.
func counting(f *fake) {
	f.deadStats = func(context.Context) (job.DeadStats, error) {
		return job.DeadStats{Total: 3, ByQueue: map[string]int64{"mail": 2, "a": 1}, ByType: map[string]int64{"mail.send": 3}, Oldest: noon, Newest: noon}, nil
	}
	f.queue = func(_ context.Context, name string) (job.Queue, error) {
		if name == "broken" {
			return job.Queue{}, failures["e006"]
		}
		if name != "mail" {
			return job.Queue{}, job.Errorf(job.NotFound, "there is no queue %q", name)
		}
		return aQueue("mail"), nil
	}
	f.queues = func(context.Context) ([]job.Queue, error) { return []job.Queue{aQueue("default"), aQueue("mail")}, nil }
	f.events = func(_ context.Context, q job.EventFilter) ([]job.Event, error) {
		j := started(idOne)
		if err := j.Complete(noon, job.Claim{ID: idOne}, nil); err != nil {
			return nil, err
		}
		es := j.TakeEvents()
		if slices.Contains(q.Types, "job.debounced") {
			es = []job.Event{
				{Type: "job.debounced", Time: noon, JobID: idOne, JobType: "mail.send", Queue: "mail", Data: json.RawMessage(`{"debounce_id":"order:17"}`)},
				{Type: "job.deduplicated", Time: noon, JobID: idOne, JobType: "mail.send", Queue: "mail",
					Data: json.RawMessage(`{"deduplication_id":"order:17","deduplicated_job_id":"` + string(idTwo) + `"}`)},
				{Type: "job.duplicated", Time: noon, JobID: idOne, JobType: "mail.send", Queue: "mail"},
			}
		}
		for i := range es {
			es[i].Seq = int64(i + 1)
		}
		return es[:min(len(es), q.Limit)], nil
	}
	f.span = func(context.Context) (job.EventSpan, error) { return job.EventSpan{First: 1, Last: 3}, nil }
	f.follow = func(ctx context.Context, _ job.EventFilter, fn func(job.News) error) error {
		es, _ := f.events(ctx, job.EventFilter{Limit: 3})
		_ = fn(job.News{Seen: 1})
		_ = fn(job.News{Seen: 3, Events: es[1:]})
		<-ctx.Done()
		return ctx.Err()
	}
	f.health = func(context.Context) (job.Health, error) {
		return job.Health{OK: true, Backend: "sqlite", Latency: 2 * time.Millisecond, Uptime: 90 * time.Second, Time: noon, Queues: 3, Paused: 1, Workers: 5, StaleNow: 2}, nil
	}
}

// rostering fills in the workers: there is one.
func rostering(f *fake) {
	one := job.WorkerInfo{ID: string(idOne), Hostname: "host-1", PID: 42, Queues: []string{"mail", "default"}, Concurrency: 5,
		Labels: map[string]string{"zone": "b", "env": "prod"}, Version: "1.4.0", State: "drain", Directive: "quiet",
		Active: 2, StartedAt: noon.Add(-time.Hour), BeatAt: noon}
	f.register = func(context.Context, job.WorkerInfo) (job.Registration, error) {
		return job.Registration{Time: noon, Heartbeat: 5 * time.Second, Silence: 45 * time.Second, Visibility: 30 * time.Minute}, nil
	}
	unknown := func(id string) error {
		if id == one.ID {
			return nil
		}
		e := job.Errorf(job.NotFound, "there is no worker %q", id)
		e.Details = map[string]any{"resource_type": "worker", "resource_id": id}
		return e
	}
	f.deregister = func(_ context.Context, id string) ([]job.ID, error) { return []job.ID{idTwo}, unknown(id) }
	f.workers = func(context.Context) ([]job.WorkerInfo, error) {
		return []job.WorkerInfo{one, {ID: "w2", Stale: true, StartedAt: noon.Add(-time.Hour), BeatAt: noon.Add(-time.Minute)}}, nil
	}
	f.worker = func(_ context.Context, id string) (job.WorkerInfo, error) { return one, unknown(id) }
	f.direct = func(_ context.Context, id, wish string) (job.WorkerInfo, error) {
		w := one
		_ = w.Direct(wish) // a route has no other
		return w, unknown(id)
	}
	f.directAll = func(_ context.Context, wish string) (int, error) {
		w := one
		return 2, w.Direct(wish)
	}
	f.history = func(ctx context.Context, id job.ID) ([]job.Event, error) {
		if err := failing(id); err != nil {
			return nil, err
		}
		return f.events(ctx, job.EventFilter{Limit: job.HistoryLimit})
	}
}

func aQueue(name string) job.Queue {
	return job.Queue{Name: name, CreatedAt: noon, Dead: 1,
		Counts: map[job.State]int64{job.Available: 2, job.Active: 1, job.Discarded: 4}}
}
