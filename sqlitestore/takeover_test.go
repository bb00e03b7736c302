package sqlitestore

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
)

//go:embed testdata/schema3.sql
var schema3 string

// tables3 are those of schema 3.
var tables3 = []string{"jobs", "queues", "workers", "events", "marks", "crons"}

// tokens are as servers make them, and as they do not.
var tokens = []string{strings.Repeat("0af9", 8), "T", "t", "abc", "ABCD", "00", "0g", "token with spaces", "é", "éé", "0x10", "-1", "12.5"}

// household fills a store with all that there is, and some of it in the state in which
// only a busy server has it.
func household(t *testing.T, s *Store) {
	t.Helper()
	now := storetest.Now
	do := func(fn func(job.Tx) error) {
		t.Helper()
		if err := s.Update(t.Context(), fn); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	add := func(then func(*job.Job) error, ask func(*job.Job)) job.ID {
		t.Helper()
		n++
		j := storetest.New(t, fmt.Sprint("q", n%3), func(j *job.Job) {
			j.Priority, j.Args = n%7-3, json.RawMessage(fmt.Sprintf(`[%d, "ä", 1e400]`, n))
			if ask != nil {
				ask(j)
			}
		})
		do(func(tx job.Tx) error { return tx.InsertJob(j) })
		if then != nil { // later, as a server does it
			do(func(tx job.Tx) error {
				j, err := tx.Job(j.ID)
				if err != nil {
					return err
				}
				if err := then(j); err != nil {
					return err
				}
				return tx.UpdateJob(j)
			})
		}
		return j.ID
	}
	start := func(token, worker string) func(*job.Job) error {
		return func(j *job.Job) error {
			return j.Start(now.Add(time.Duration(n)*time.Second), job.Lease{Token: token, Worker: worker, Length: time.Minute})
		}
	}
	fail := func(f job.Failure) func(*job.Job) error {
		return func(j *job.Job) error {
			return errors.Join(start("t", "w")(j), j.Fail(now.Add(time.Hour), job.Claim{ID: j.ID}, f, 0.5))
		}
	}
	for i, token := range tokens {
		add(start(token, fmt.Sprint("w", i%4)), nil)
	}
	for i := range 20 { // every state, plain
		add(nil, nil)
		add(nil, func(j *job.Job) { j.Hold = true })
		add(nil, func(j *job.Job) { j.Delay = time.Duration(i) * time.Minute })
		add(func(j *job.Job) error {
			return errors.Join(start("t", "")(j), j.Complete(now.Add(time.Hour), job.Claim{ID: j.ID}, json.RawMessage(`{"r": [1,  2]}`)))
		}, nil)
		add(fail(job.Failure{Type: "net.x", Message: "no", Backtrace: []string{"a", "b"}}), func(j *job.Job) { j.Retry = json.RawMessage(`{"max_attempts":5}`) })
		add(fail(job.Failure{Type: fmt.Sprint("E", i%3), Message: "dead", Code: "DEAD_LETTER"}), nil)
		add(func(j *job.Job) error { return j.Cancel(now, "w", "why") }, nil)
		add(func(j *job.Job) error {
			return errors.Join(start(tokens[i%len(tokens)], "gone")(j), j.Lose(now.Add(time.Hour), "worker_death", 0.5))
		}, nil)
		add(func(j *job.Job) error {
			return errors.Join(start("t", "w")(j), j.Fail(now.Add(time.Hour), job.Claim{ID: j.ID}, job.Failure{Requeue: true, Undelivered: true}, 0))
		}, nil)
	}
	for i, policy := range policies {
		if policy == "" || policy == "?" {
			continue
		}
		for k := range 4 { // those before have left their keys, or lost them
			add(nil, func(j *job.Job) {
				j.Type, j.Args, j.Unique = fmt.Sprint("keyed.p", i, ".k", k), json.RawMessage(fmt.Sprintf(`["%d.%d"]`, i, k)), json.RawMessage(policy)
			})
			add(func(j *job.Job) error { return j.Cancel(now, "", "") }, func(j *job.Job) {
				j.Type, j.Args, j.Unique = fmt.Sprint("keyed.c", i, ".k", k), json.RawMessage(fmt.Sprintf(`["c%d.%d"]`, i, k)), json.RawMessage(policy)
			})
		}
	}
	for i := range 4 {
		add(nil, func(j *job.Job) { j.Deduplication = json.RawMessage(fmt.Sprintf(`{"id":"d%d","ttl":900000000}`, i)) })
		add(nil, func(j *job.Job) { j.Deduplication = json.RawMessage(fmt.Sprintf(`{"id":"endless%d"}`, i)) })
		add(func(j *job.Job) error { j.ReleaseDedup(); return nil }, func(j *job.Job) { j.Deduplication = json.RawMessage(fmt.Sprintf(`{"id":"freed%d"}`, i)) })
		add(nil, func(j *job.Job) { j.CustomID = fmt.Sprint("order ", i, " ä") })
		add(nil, func(j *job.Job) { j.Extra = json.RawMessage(`{"x_mine":{"a":[1,2.50]}}`) })
		add(nil, func(j *job.Job) { j.TTL, j.Timeout, j.Visibility = time.Hour, 7*time.Second, 9*time.Second })
		add(nil, func(j *job.Job) { j.Args = json.RawMessage(`["` + strings.Repeat("x", 100_000+i) + `"]`) })
	}
	rewritten := add(nil, func(j *job.Job) { j.Delay = time.Hour })
	do(func(tx job.Tx) error {
		j, err := tx.Job(rewritten)
		if err != nil {
			return err
		}
		j.Args, j.Meta, j.RewrittenAt = json.RawMessage(`["rewritten"]`), json.RawMessage(`{"trace_id":"t1"}`), now
		return tx.RewriteJob(j)
	})
	runs := add(start("run", "w1"), nil)
	for range 3 {
		add(func(j *job.Job) error { j.After = runs; return nil }, func(j *job.Job) { j.Hold = true })
	}
	for _, id := range []job.ID{add(nil, nil), runs} {
		do(func(tx job.Tx) error { // a long history
			for range 120 {
				j, err := tx.Job(id)
				if err != nil {
					return err
				}
				if j.State == job.Available {
					err = start("t", "w")(j)
				} else {
					err = j.Fail(now.Add(time.Hour), job.Claim{ID: j.ID}, job.Failure{Requeue: true, Undelivered: true}, 0)
				}
				if err != nil {
					return err
				}
				if err := tx.UpdateJob(j); err != nil {
					return err
				}
			}
			return nil
		})
	}
	gone := add(nil, nil)
	do(func(tx job.Tx) error { return tx.DeleteJob(gone) })
	do(func(tx job.Tx) error {
		c := storetest.NewCron("c", func(c *job.Cron) { c.LastJob = runs })
		for range job.MaxCronRuns + 1 {
			c.Note(job.CronRun{At: now, Skipped: job.SkippedDST})
		}
		return errors.Join(tx.PutCron(c), tx.PutCron(storetest.NewCron("ä", nil)),
			tx.PutWorker(job.WorkerInfo{ID: "w1", Queues: []string{"q1"}, Labels: map[string]string{"a": "b"}, Directive: "quiet", StartedAt: now, BeatAt: now}),
			tx.AddEvent(job.Event{Type: "worker.started", Time: now, Data: json.RawMessage(`{"worker_id":"w1"}`)}),
			s.w.saveQueue(func() *queueRow { q := s.w.queues["q2"]; q.Paused = 1; return q }()))
	})
}

// answers are all the answers that a store gives, as text, in which the numbers of rows do not show.
func answers(t *testing.T, s *Store) map[string]string {
	t.Helper()
	all := map[string]string{}
	note := func(name string, v any, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		b, merr := json.Marshal(v)
		if merr != nil {
			t.Errorf("%s: %v", name, merr)
		}
		all[name] = string(b)
	}
	now := storetest.Now
	var jobs []*job.Job
	walk := func(name string, f job.Filter) {
		t.Helper()
		var ids []job.ID
		for pages := 0; ; pages++ {
			if pages > 1000 {
				t.Fatalf("%s: it leads in a circle", name)
			}
			var page job.Page
			if err := s.View(t.Context(), func(r job.ReadTx) (err error) { page, err = r.Jobs(f); return err }); err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			if f.Cursor == "" {
				note(name+" total", []any{page.Total, page.AtLeast}, nil)
			}
			for _, j := range page.Jobs {
				ids = append(ids, j.ID)
			}
			if f.Limit == 1000 {
				jobs = append(jobs, page.Jobs...)
			}
			if f.Cursor = page.Next; f.Cursor == "" {
				break
			}
		}
		sorted := slices.Sorted(slices.Values(ids))
		if len(slices.Compact(sorted)) != len(ids) {
			t.Errorf("%s: some job is listed twice", name)
		}
		if f.Dead { // those that died at one instant in any order
			ids = slices.Sorted(slices.Values(ids))
		}
		note(name, ids, nil)
	}
	walk("all", job.Filter{Limit: 1000})
	for _, f := range []job.Filter{{Limit: 7}, {Dead: true, Limit: 3}, {Dead: true, Limit: 2, ErrorType: "E1"}, {Dead: true, Limit: 4, Queue: "q1"},
		{Holding: true, Limit: 3}, {Holding: true, Limit: 5, States: []job.State{job.Available}}, {Queue: "q2", Limit: 9}, {Type: "keyed.*", Limit: 5},
		{States: []job.State{job.Active, job.Retryable}, Limit: 6}, {Since: now, Until: now.Add(time.Second), Limit: 50}} {
		walk(fmt.Sprintf("list %+v", f), f)
	}
	if err := s.View(t.Context(), func(r job.ReadTx) error {
		for _, j := range jobs {
			whole, err := r.Job(j.ID)
			note("job "+string(j.ID), whole.Envelope, err)
			note("status "+string(j.ID), whole.Status, nil)
			es, err := r.History(j.ID)
			note("history "+string(j.ID), es, err)
			if j.Fingerprint != "" {
				twins, err := r.Twins(j.Fingerprint, "")
				note("twins "+string(j.ID), idsOf(twins), err)
			}
			if key, _ := j.DedupKey(); key != "" {
				owner, err := r.DedupOwner(j.Queue, key, now)
				note("owner "+string(j.ID), idsOf([]*job.Job{owner}), err)
			}
			if j.CustomID != "" {
				owner, err := r.Custom(j.Queue, j.CustomID)
				note("custom "+string(j.ID), idsOf([]*job.Job{owner}), err)
			}
		}
		es, err := r.Events(job.EventFilter{Limit: 1 << 20})
		note("events", es, err)
		if err == nil {
			all := len(es)
			for after := int64(0); len(es) > 0; {
				if es, err = r.Events(job.EventFilter{Limit: 7, After: after}); err == nil && len(es) > 0 {
					after, all = es[len(es)-1].Seq, all-len(es)
				}
			}
			note("events that no page has", all, err)
		}
		for i := 0; i < len(jobs); i += 10 {
			es, err = r.Events(job.EventFilter{Limit: 1 << 20, JobID: jobs[i].ID})
			note("events of "+string(jobs[i].ID), es, err)
		}
		es, err = r.Events(job.EventFilter{Limit: 50, Types: []string{"job.c*"}, Queues: []string{"q1"}, Since: now.Add(time.Second)})
		note("some events", es, err)
		stats, err := r.DeadStats()
		note("dead", stats, err)
		held, err := r.Holders("")
		note("holders", held, err)
		of, err := r.Held("w1")
		note("held", idsOf(of), err)
		queues, err := r.Queues()
		note("queues", queues, err)
		workers, err := r.Workers()
		note("workers", workers, err)
		crons, err := r.Crons()
		note("crons", crons, err)
		_, err = r.Job(storetest.New(t, "q", nil).ID)
		note("a job that is not there", job.KindOf(err), nil)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), func(tx job.Tx) error {
		for _, q := range []string{"q0", "q1", "q2"} {
			ready, err := tx.Available([]string{q}, 1000)
			note("claim "+q, idsOf(ready), err)
		}
		for _, state := range job.States {
			due, err := tx.Due(state, now.Add(2000*time.Hour), math.MaxInt32)
			note("due "+string(state), idsOf(due), err)
			at, err := tx.NextDue(state)
			note("next "+string(state), at, err)
		}
		for _, j := range jobs {
			waiting, err := tx.Waiting(j.ID)
			if len(waiting) > 0 || err != nil {
				note("waiting for "+string(j.ID), idsOf(waiting), err)
			}
		}
		dead, err := tx.Dead(job.Filter{}, 1000)
		note("oldest dead", slices.Sorted(slices.Values(idsOf(dead))), err)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func idsOf(js []*job.Job) (ids []job.ID) {
	for _, j := range js {
		if j != nil {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

// rowsOf are the rows of all jobs as they are stored, but for their numbers.
func rowsOf(t *testing.T, s *Store) map[string]string {
	t.Helper()
	columns := strings1(t, s.w.conn, "SELECT name FROM pragma_table_info('job_bodies') WHERE name <> 'n' UNION ALL SELECT name FROM pragma_table_info('job_states') WHERE name <> 'n'")
	all := map[string]string{}
	for _, name := range columns {
		for _, row := range strings1(t, s.w.conn, "SELECT id || ' "+name+" ' || quote("+name+") FROM jobs") {
			all[row[:37]+name] = row
		}
	}
	return all
}

// A file of schema 3 is taken over whole: each job, each event, each list and each key
// is as if this version had stored it, and the work goes on.
func TestTakeOverOfAllThereIs(t *testing.T) {
	s := opened(t)
	household(t, s)
	storetest.Audit(t, s)
	path := ofAge(t, s, schema3, 3, tables3...)
	var told bytes.Buffer
	old, err := Open(t.Context(), path, Options{alone: true, Log: slog.New(slog.NewTextHandler(&told, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = old.Close() })
	for _, want := range []string{"until that is done nobody is answered", "an older version cannot open it any more", "from=3 to=6"} {
		if !strings.Contains(told.String(), want) {
			t.Errorf("told %q, want %q", told.String(), want)
		}
	}
	if got, want := shape(t, old.w.conn), shape(t, s.w.conn); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	compare := func(what string, got, want map[string]string) {
		t.Helper()
		for name, w := range want {
			if g := got[name]; g != w {
				t.Errorf("%s, %s\ngot  %.600s\nwant %.600s", what, name, g, w)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d, want %d", what, len(got), len(want))
		}
	}
	compare("rows", rowsOf(t, old), rowsOf(t, s))
	compare("answers", answers(t, old), answers(t, s))
	storetest.Audit(t, old)
	// And on: both do the same, over old events and new.
	for _, store := range []*Store{s, old} {
		if err := store.Update(t.Context(), func(tx job.Tx) error {
			ready, err := tx.Available([]string{"q0", "q1"}, 60)
			if err != nil {
				return err
			}
			for i, j := range ready {
				if err := j.Start(storetest.Now.Add(2*time.Hour), job.Lease{Token: "u", Worker: "w9", Length: time.Minute}); err != nil {
					continue // it has expired
				}
				if i%2 == 0 {
					if err := j.Complete(storetest.Now.Add(2*time.Hour), job.Claim{ID: j.ID}, nil); err != nil {
						return err
					}
				}
				if err := tx.UpdateJob(j); err != nil {
					return err
				}
				if i%10 == 0 {
					if err := tx.DeleteJob(j.ID); err != nil {
						return err
					}
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	compare("answers later", answers(t, old), answers(t, s))
	storetest.Audit(t, old)
	for _, store := range []*Store{s, old} { // of the log, what is older than the newest
		if err := store.Update(t.Context(), func(tx job.Tx) error {
			_, err := tx.PruneEvents(storetest.Now.Add(time.Second), 40)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	compare("answers when the log was pruned", answers(t, old), answers(t, s))
}
