package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// staged is a store that counts its transactions, and does with each what a store may:
// run it more than once, lose it at its commit, or answer late.
type staged struct {
	job.Store
	mu        sync.Mutex
	began     int
	runs      int                         // that come to nothing, before the one that counts
	commit    func() error                // after the last run; an error undoes it
	answer    func()                      // after the commit
	available func(queues []string) error // before a claim looks
	inserted  func()
	paused    string // a queue: there is no verb that pauses one
}

var errUndone = errors.New("this run was undone")

func (s *staged) Update(ctx context.Context, fn func(job.Tx) error) error {
	s.mu.Lock()
	s.began++
	runs, commit, answer := s.runs, s.commit, s.answer
	s.mu.Unlock()
	for n := 0; ; n++ {
		err := s.Store.Update(ctx, func(tx job.Tx) error {
			err := fn(stagedTx{tx, s})
			if err == nil && n < runs {
				err = errUndone
			} else if err == nil && commit != nil {
				err = commit()
			}
			return err
		})
		if errors.Is(err, errUndone) {
			continue
		}
		if answer != nil {
			answer()
		}
		return err
	}
}

type stagedTx struct {
	job.Tx
	of *staged
}

func (x stagedTx) Available(queues []string, n int) ([]*job.Job, error) {
	x.of.mu.Lock()
	before, paused := x.of.available, x.of.paused
	x.of.mu.Unlock()
	queues = slices.DeleteFunc(slices.Clone(queues), func(q string) bool { return q == paused })
	if before != nil {
		if err := before(queues); err != nil {
			return nil, err
		}
	}
	return x.Tx.Available(queues, n)
}

func (x stagedTx) InsertJobs(js []*job.Job) ([]bool, error) {
	stored, err := x.Tx.InsertJobs(js)
	if x.of.inserted != nil {
		x.of.inserted()
	}
	return stored, err
}

// set changes what the store does from now on, and counts anew.
func (s *staged) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = 0
	change()
}

func (s *staged) transactions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.began
}

// onStage is bubble with a staged store. Nobody may be left waiting in the end.
func onStage(t *testing.T, test func(t *testing.T, w *world, s *staged)) {
	t.Helper()
	s := &staged{}
	bubbleOn(t, func(store job.Store) job.Store {
		s.Store = store
		return s
	}, func(t *testing.T, w *world) {
		t.Cleanup(func() {
			if a, b := &w.answers, &w.wakeups; len(a.open) > 0 || len(b.waiting) > 0 || b.present.Load() != 0 {
				t.Errorf("left behind: %d questions, %d lines, %d fetchers", len(a.open), len(b.waiting), b.present.Load())
			}
		})
		synctest.Wait()
		test(t, w, s)
	})
}

// fetched is what came of a FETCH, and when.
type fetched struct {
	jobs  []*job.Job
	err   error
	after time.Duration
}

// waits begins a FETCH, of one job from the queue mail where it does not say, and
// returns once it waits.
func (w *world) waits(ctx context.Context, f job.FetchRequest) <-chan fetched {
	w.t.Helper()
	if f.Queues == nil {
		f.Queues = []string{mail}
	}
	if f.Wait == 0 {
		f.Wait = maxWait
	}
	done, began := make(chan fetched, 1), time.Now()
	go func() {
		jobs, err := w.Fetch(ctx, f)
		done <- fetched{jobs, err, time.Since(began)}
	}()
	synctest.Wait()
	return done
}

// got are the ids that a FETCH came with. It fails if none came by now.
func (w *world) got(done <-chan fetched) (ids []job.ID) {
	w.t.Helper()
	synctest.Wait()
	select {
	case f := <-done:
		if f.err != nil {
			w.t.Errorf("fetch: %v", f.err)
		}
		for _, j := range f.jobs {
			if j.State != job.Active || j.Lease.Token == "" || j.Lease.Token != w.read(j.ID).Lease.Token {
				w.t.Errorf("got %s, which is %s", j.ID, j.State)
			}
			ids = append(ids, j.ID)
		}
	default:
		w.t.Error("the fetch waits still")
	}
	return ids
}

// stillWaits makes sure that a FETCH has not come back.
func (w *world) stillWaits(when string, done <-chan fetched) {
	w.t.Helper()
	synctest.Wait()
	select {
	case f := <-done:
		w.t.Errorf("%s: the fetch came with %d jobs, %v", when, len(f.jobs), f.err)
	default:
	}
}

// leaves ends the FETCHes that wait still.
func (w *world) leaves(all ...<-chan fetched) {
	w.Quiet()
	for _, done := range all {
		<-done
	}
}

// Whatever brings a job, it is claimed for a FETCH that waits in the same transaction:
// one commit, and the same job, events and reservation as for a FETCH that comes later.
func TestServedInOneCommit(t *testing.T) {
	t.Parallel()
	failed := func(w *world, retry string) job.ID {
		id := w.push(func(e *job.Envelope) { e.Retry = json.RawMessage(retry) }).ID
		w.fail(w.take("before", time.Hour), job.Failure{Type: "E"})
		return id
	}
	for name, bring := range map[string]func(w *world) (id job.ID, then func()){
		"push": func(w *world) (job.ID, func()) {
			id := newID()
			return id, func() {
				if j := w.push(func(e *job.Envelope) { e.ID = id }); j.State != job.Available || j.Attempt != 0 || j.Lease.Token != "" {
					w.t.Errorf("the PUSH answers with a job that is %s, attempt %d", j.State, j.Attempt)
				}
			}
		},
		"unique push": func(w *world) (job.ID, func()) {
			id := newID()
			return id, func() {
				w.push(func(e *job.Envelope) { e.ID, e.Unique = id, json.RawMessage(`{}`) })
			}
		},
		"given back": func(w *world) (job.ID, func()) {
			w.push(nil)
			j := w.take("before", time.Hour)
			return j.ID, func() {
				if j := w.fail(j, job.Failure{Requeue: true}); j.State != job.Available {
					w.t.Errorf("it answers with a job that is %s", j.State)
				}
			}
		},
		"a delay that ends": func(w *world) (job.ID, func()) {
			return w.push(func(e *job.Envelope) { e.Delay = time.Second }).ID, func() { time.Sleep(time.Second) }
		},
		"a retry": func(w *world) (job.ID, func()) {
			return failed(w, `{"max_attempts":3,"initial_interval":"PT1S","jitter":false}`), func() { time.Sleep(time.Second) }
		},
		"an operator": func(w *world) (job.ID, func()) {
			id := failed(w, `{"max_attempts":1}`)
			return id, func() {
				if _, err := w.Retry(w.t.Context(), id); err != nil {
					w.t.Error(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onStage(t, func(t *testing.T, w *world, s *staged) {
				id, then := bring(w)
				f := w.waits(t.Context(), job.FetchRequest{Worker: "w", Visibility: time.Minute})
				s.set(func() {})
				then()
				if got := w.got(f); !slices.Equal(got, []job.ID{id}) || s.transactions() != 1 {
					t.Errorf("%d jobs in %d transactions", len(got), s.transactions())
				}
				j := w.read(id)
				if j.State != job.Active || j.Lease.Worker != "w" || !j.Lease.Until.Equal(w.Sidecar.now().Add(time.Minute)) {
					t.Errorf("the job is %s, with %+v", j.State, j.Lease)
				}
				es, err := w.Events(t.Context(), job.EventFilter{JobID: id, Limit: 1000})
				if last := es[len(es)-1]; err != nil || last.Type != "job.started" || !strings.Contains(string(last.Data), `"w"`) {
					t.Errorf("the last event is %s %s, %v", last.Type, last.Data, err)
				}
				time.Sleep(time.Minute + time.Second)
				if j := w.read(id); j.State == job.Active {
					t.Error("the job is reserved for ever")
				}
			})
		})
	}
}

// A worker that ended its jobs and waits for the next gets them as a FETCH does.
func TestNextIsServed(t *testing.T) {
	t.Parallel()
	onStage(t, func(t *testing.T, w *world, s *staged) {
		w.push(nil)
		held := w.take("w", time.Hour)
		done := make(chan []*job.Job, 1)
		go func() {
			acked, jobs, err := w.Next(t.Context(), []job.AckRequest{{Claim: job.Claim{ID: held.ID}}}, job.FetchRequest{Queues: []string{mail}, Wait: maxWait})
			if err != nil || len(acked) != 1 || acked[0].Err != nil {
				t.Errorf("got %v, %v", acked, err)
			}
			done <- jobs
		}()
		synctest.Wait()
		w.is("before", held.ID, job.Completed)
		s.set(func() {})
		id := w.push(nil).ID
		if jobs := <-done; len(jobs) != 1 || jobs[0].ID != id || s.transactions() != 1 {
			t.Errorf("got %d jobs in %d transactions", len(jobs), s.transactions())
		}
	})
}

// A batch goes to those who wait, in their order and as many as they asked for, by
// priority; what is left is there for those who come. Who came last waits on.
func TestABatchIsServed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		jobs, left int
		counts     []int
		want       string
	}{
		{10, 3, []int{1, 5, 1}, "[[0] [1 2 3 4 5] [6]]"},
		{10, 0, []int{5, 5, 5}, "[[0 1 2 3 4] [5 6 7 8 9] waits]"},
		{2, 0, []int{9, 9}, "[[0 1] waits]"},
		{1, 0, []int{1, 1, 1}, "[[0] waits waits]"},
	} {
		t.Run(fmt.Sprint(c.jobs, c.counts), func(t *testing.T) {
			t.Parallel()
			onStage(t, func(t *testing.T, w *world, s *staged) {
				var waiting []<-chan fetched
				for _, n := range c.counts {
					waiting = append(waiting, w.waits(t.Context(), job.FetchRequest{Count: n}))
				}
				es := make([]job.Envelope, c.jobs)
				for i := range es {
					es[i] = job.Envelope{Type: "a.b", Queue: mail, Priority: i, Args: json.RawMessage(`[]`)}
				}
				s.set(func() {})
				rs, err := w.Enqueue(t.Context(), es...)
				if err != nil || s.transactions() != 1 {
					t.Errorf("%d transactions, %v", s.transactions(), err)
				}
				synctest.Wait()
				var all []any
				for _, f := range waiting {
					if len(f) == 0 {
						all = append(all, "waits")
						continue
					}
					places := []int{}
					for _, id := range w.got(f) {
						places = append(places, c.jobs-1-slices.IndexFunc(rs, func(r job.Receipt) bool { return r.ID == id }))
					}
					all = append(all, places)
				}
				if got := fmt.Sprint(all); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
				if q, err := w.Queue(t.Context(), mail); err != nil || q.Counts[job.Available] != int64(c.left) {
					t.Errorf("%d are left, %v", q.Counts[job.Available], err)
				}
				w.leaves(waiting[len(waiting)-strings.Count(c.want, "waits"):]...)
			})
		})
	}
}

// One transaction hands out no more than a large FETCH could ask for. Whoever waits
// beyond that is woken, and nobody goes without.
func TestServingIsBounded(t *testing.T) {
	t.Parallel()
	onStage(t, func(t *testing.T, w *world, s *staged) {
		const n = 3 * maxCount
		var waiting []<-chan fetched
		for range n {
			waiting = append(waiting, w.waits(t.Context(), job.FetchRequest{}))
		}
		es := make([]job.Envelope, n)
		for i := range es {
			es[i] = job.Envelope{Type: "a.b", Queue: mail, Args: json.RawMessage(`[]`)}
		}
		looks, most := 0, 0
		s.set(func() {
			s.available = func([]string) error { looks++; return nil } // one at a time looks
			s.commit = func() error { looks, most = 0, max(most, looks); return nil }
		})
		if _, err := w.Enqueue(t.Context(), es...); err != nil {
			t.Fatal(err)
		}
		for _, f := range waiting {
			w.got(f)
		}
		if most != maxCount {
			t.Errorf("one transaction served %d, want %d", most, maxCount)
		}
	})
}

// Runs of a transaction that come to nothing hand out nothing, and each job goes to one.
func TestServedOnceInHoweverManyRuns(t *testing.T) {
	t.Parallel()
	onStage(t, func(t *testing.T, w *world, s *staged) {
		s.set(func() { s.runs = 3 })
		first := w.waits(t.Context(), job.FetchRequest{})
		second := w.waits(t.Context(), job.FetchRequest{})
		one := w.push(nil).ID
		if got := w.got(first); !slices.Equal(got, []job.ID{one}) {
			t.Errorf("the first got %v", got)
		}
		w.stillWaits("after one job", second)
		two := w.push(nil).ID
		if got := w.got(second); !slices.Equal(got, []job.ID{two}) {
			t.Errorf("the second got %v", got)
		}
	})
}

// A PUSH that is lost at its commit takes nobody who waits with it: who was to have its
// job waits on, in its place, holds no memory, and gets the job of the next PUSH.
func TestAPushThatIsLost(t *testing.T) {
	t.Parallel()
	onStage(t, func(t *testing.T, w *world, s *staged) {
		room := &counted{}
		first := w.waits(t.Context(), job.FetchRequest{Room: room})
		second := w.waits(t.Context(), job.FetchRequest{})
		full := job.Errorf(job.Unavailable, "the disk is full")
		for range 3 {
			s.set(func() { s.commit = func() error { return full } })
			if _, err := w.Enqueue(t.Context(), job.Envelope{Type: "a.b", Queue: mail, Args: json.RawMessage(`[]`)}); !errors.Is(err, full) || s.transactions() != 1 {
				t.Errorf("got %v in %d transactions", err, s.transactions())
			}
			w.stillWaits("after a PUSH that was lost", first)
			if room.held != 0 {
				t.Errorf("the first holds %d bytes", room.held)
			}
		}
		s.set(func() { s.commit = nil })
		id := w.push(nil).ID
		if got := w.got(first); !slices.Equal(got, []job.ID{id}) || s.transactions() != 1 || room.held == 0 {
			t.Errorf("the first got %v in %d transactions", got, s.transactions())
		}
		w.stillWaits("after one job", second)
		w.leaves(second)
	})
}

// counted is a room that counts.
type counted struct{ held int }

func (c *counted) Take(n int) bool { c.held += n; return true }
func (c *counted) Reset()          { c.held = 0 }

// A job is stored whatever is in the way of those who wait for it: what their claim meets
// is told to them, as to a FETCH that comes alone, and to no PUSH.
func TestAPushWhoseServiceFails(t *testing.T) {
	t.Parallel()
	bad := job.Errorf(job.Internal, "a row is damaged")
	for name, c := range map[string]struct {
		runs   int // that are made well before the one in which it fails
		always bool
		fail   func() error
	}{
		"fails":             {0, false, func() error { return bad }},
		"fails in a redo":   {1, false, func() error { return bad }},
		"panics":            {0, false, func() error { panic("a fault") }},
		"fails for all":     {0, true, func() error { return bad }},
		"fails for all two": {1, true, func() error { return bad }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onStage(t, func(t *testing.T, w *world, s *staged) {
				first := w.waits(t.Context(), job.FetchRequest{})
				looks, runs := 0, 0
				s.set(func() {
					s.available = func([]string) error {
						if looks++; looks == c.runs+1 || looks > c.runs && c.always {
							return c.fail()
						}
						return nil
					}
					s.commit = func() error {
						if runs++; runs <= c.runs {
							return job.Errorf(job.Internal, "a neighbour has spoilt this run")
						}
						return nil
					}
				})
				j := w.push(nil) // for which it is woken then
				synctest.Wait()
				f := <-first
				if c.always != (len(f.jobs) == 0) || c.always != errors.Is(f.err, bad) {
					t.Errorf("the fetch came with %d jobs, %v", len(f.jobs), f.err)
				}
				if want := map[bool]job.State{false: job.Active, true: job.Available}[c.always]; w.read(j.ID).State != want {
					t.Errorf("the job is %s", w.read(j.ID).State)
				}
			})
		})
	}
}

// A job is for those who may have it: not for a worker that was told to be quiet or says
// that it is, nor for one who has left, or without memory, who is told so.
func TestServedPassesOverWhoMayHaveNone(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]job.FetchRequest{
		"directed": {Worker: "directed"},
		"says so":  {Worker: "says so"},
		"no room":  {Room: none{}},
		"has left": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onStage(t, func(t *testing.T, w *world, s *staged) {
				w.beat(name)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				first := w.waits(ctx, f)
				second := w.waits(t.Context(), job.FetchRequest{Worker: "another"})
				var err error
				switch name {
				case "directed":
					_, err = w.Direct(t.Context(), name, job.Quiet)
				case "says so":
					_, err = w.Beat(t.Context(), job.Beat{Worker: job.WorkerInfo{ID: name, State: job.Quiet}})
				}
				if err != nil {
					t.Error(err)
				}
				s.set(func() {
					if name == "has left" {
						s.inserted = leave
					}
				})
				id := w.push(nil).ID
				if got := w.got(second); !slices.Equal(got, []job.ID{id}) {
					t.Errorf("the second got %v", got)
				}
				f := <-first
				if failed := job.KindOf(f.err) == job.Unavailable; len(f.jobs) != 0 || failed != (name == "no room" || name == "has left") {
					t.Errorf("the first got %d jobs, %v", len(f.jobs), f.err)
				}
				if name == "no room" && s.transactions() != 1 {
					t.Errorf("%d transactions", s.transactions())
				}
			})
		})
	}
}

// A queue that hands nothing out costs nobody who waits for it a place in line.
func TestServedFromAQueueThatIsPaused(t *testing.T) {
	t.Parallel()
	onStage(t, func(t *testing.T, w *world, s *staged) {
		s.set(func() { s.paused = "paused" })
		first := w.waits(t.Context(), job.FetchRequest{Queues: []string{"paused", mail}})
		second := w.waits(t.Context(), job.FetchRequest{Queues: []string{mail}})
		for range 3 {
			w.push(func(e *job.Envelope) { e.Queue = "paused" })
		}
		w.stillWaits("for a queue that is paused", first)
		es := []job.Envelope{{Type: "a.b", Queue: "paused", Args: json.RawMessage(`[]`)}, {Type: "a.b", Queue: mail, Args: json.RawMessage(`[]`)}}
		s.set(func() {})
		rs, err := w.Enqueue(t.Context(), es...)
		if got := w.got(first); err != nil || len(got) != 1 || got[0] != rs[1].ID || s.transactions() != 1 {
			t.Errorf("got %v in %d transactions, %v", got, s.transactions(), err)
		}
		w.stillWaits("after one job", second)
		w.leaves(second)
	})
}

// Who is told of the job only with the commit waits for that, however long it takes and
// though its time is up or its caller has gone: a job that is claimed has an owner.
func TestServedWhileItLeaves(t *testing.T) {
	t.Parallel()
	const long = 5 * time.Second
	for name, lost := range map[string]bool{"kept": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onStage(t, func(t *testing.T, w *world, s *staged) {
				ctx, leave := context.WithCancel(t.Context())
				late := w.waits(t.Context(), job.FetchRequest{Wait: time.Second})
				gone := w.waits(ctx, job.FetchRequest{})
				quiet := w.waits(t.Context(), job.FetchRequest{})
				s.set(func() {
					s.commit = func() error {
						time.Sleep(long) // of the bubble
						if lost {
							return job.Errorf(job.Unavailable, "the disk is full")
						}
						return nil
					}
				})
				pushed := make(chan error)
				go func() {
					e := job.Envelope{Type: "a.b", Queue: mail, Args: json.RawMessage(`[]`)}
					_, err := w.Enqueue(t.Context(), e, e, e)
					pushed <- err
				}()
				time.Sleep(long / 2)
				leave()
				w.Quiet()
				for _, f := range []<-chan fetched{late, gone, quiet} {
					w.stillWaits("before the commit", f)
				}
				if err := <-pushed; (err != nil) != lost {
					t.Errorf("push: %v", err)
				}
				for _, f := range []<-chan fetched{late, gone, quiet} {
					f := <-f
					left := lost && errors.Is(f.err, context.Canceled)
					if f.after != long || (len(f.jobs) == 1) == lost || f.err != nil && !left {
						t.Errorf("after %s: %d jobs, %v", f.after, len(f.jobs), f.err)
					}
				}
			})
		})
	}
}

// A reservation that was claimed beside a PUSH is counted from its answer too.
func TestServedLate(t *testing.T) {
	t.Parallel()
	const long, lease = 2500 * time.Millisecond, 4 * time.Second
	onStage(t, func(t *testing.T, w *world, s *staged) {
		f := w.waits(t.Context(), job.FetchRequest{Worker: "w", Visibility: lease})
		s.set(func() {
			s.answer = func() {
				s.set(func() { s.answer = nil })
				time.Sleep(long)
			}
		})
		id := w.push(nil).ID
		w.got(f)
		time.Sleep(lease - tick)
		w.is("a tick before the end of its reservation", id, job.Active)
		time.Sleep(2 * tick)
		w.is("at the end of its reservation", id, job.Available)
	})
}

// A job that expires before it can be claimed is nobody's, and lets those go that waited
// for it: who waits gets the first of them.
func TestServedWithAJobThatExpires(t *testing.T) {
	t.Parallel()
	onStage(t, func(t *testing.T, w *world, s *staged) {
		id := newID()
		behind := w.push(func(e *job.Envelope) { e.Hold = true }).ID
		if err := w.update(t.Context(), func(t *turn) error {
			j, err := t.Job(behind)
			if err != nil {
				return err
			}
			j.After = id
			return t.rewrite(j)
		}); err != nil {
			t.Fatal(err)
		}
		first := w.waits(t.Context(), job.FetchRequest{})
		second := w.waits(t.Context(), job.FetchRequest{})
		s.set(func() {
			s.inserted = func() { w.skew.Store(int64(2 * time.Second)) }
		})
		j := w.push(func(e *job.Envelope) { e.ID, e.ExpiresAt = id, time.Now().Add(time.Second) })
		if j.State != job.Available {
			t.Errorf("the PUSH answers with a job that is %s", j.State)
		}
		w.is("expired", id, job.Discarded)
		if got := w.got(first); !slices.Equal(got, []job.ID{behind}) {
			t.Errorf("the first got %v", got)
		}
		w.stillWaits("after one job", second)
		w.leaves(second)
	})
}

// Nobody who waits keeps a PUSH from being one transaction that does nothing else.
func TestNobodyIsServed(t *testing.T) {
	t.Parallel()
	onStage(t, func(t *testing.T, w *world, s *staged) {
		other := w.waits(t.Context(), job.FetchRequest{Queues: []string{"other"}})
		s.set(func() { s.available = func([]string) error { t.Error("somebody looked"); return nil } })
		w.push(nil)
		if s.transactions() != 1 {
			t.Errorf("%d transactions", s.transactions())
		}
		w.stillWaits("for another queue", other)
		s.set(func() { s.available = nil })
		w.leaves(other)
	})
}

// crowd is a server with many who wait and leave, and many who push, over a store that
// undoes, loses and delays.
type crowd struct {
	*world
	stage *staged
	mu    sync.Mutex
	r     *rand.Rand
	owner map[job.ID]string // the lease by which somebody has got the job
}

func (c *crowd) roll(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.r.IntN(n)
}

// fetch is one FETCH, whose caller may leave, and which may give its jobs back.
func (c *crowd) fetch(ctx context.Context) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	if c.roll(3) == 0 {
		wait := time.Duration(c.roll(20)) * time.Millisecond / 2
		go func() { time.Sleep(wait); leave() }()
	}
	f := job.FetchRequest{Queues: slices.Clone(bellQueues), Count: 1 + c.roll(4), Wait: time.Duration(1+c.roll(40)) * time.Millisecond / 2}
	c.mu.Lock()
	c.r.Shuffle(3, func(i, k int) { f.Queues[i], f.Queues[k] = f.Queues[k], f.Queues[i] })
	c.mu.Unlock()
	f.Queues = f.Queues[c.roll(3):]
	switch c.roll(8) {
	case 0:
		f.Room = none{}
	case 1:
		f.Queues = append(f.Queues, f.Queues...)
	case 2, 3:
		f.Wait = maxWait
	}
	jobs, err := c.Fetch(ctx, f)
	if err != nil && job.KindOf(err) != job.Unavailable {
		c.t.Errorf("fetch: %v", err)
	}
	for _, j := range jobs {
		c.mu.Lock()
		_, twice := c.owner[j.ID]
		c.owner[j.ID] = j.Lease.Token
		c.mu.Unlock()
		if twice || len(jobs) > f.Count || j.State != job.Active {
			c.t.Errorf("%s is %s, of %d jobs, and was handed out before: %v", j.ID, j.State, len(jobs), twice)
		}
		if c.roll(6) > 0 {
			continue
		}
		c.mu.Lock()
		delete(c.owner, j.ID)
		c.mu.Unlock()
		for { // the store loses some
			_, err := c.Fail(context.Background(), job.Claim{ID: j.ID, Token: j.Lease.Token}, job.Failure{Requeue: true, Undelivered: true})
			if err == nil {
				break
			} else if kind := job.KindOf(err); kind == job.Conflict { // it was replaced
				break
			} else if kind != job.Unavailable {
				c.t.Errorf("give back: %v", err)
				break
			}
		}
	}
}

// push is one PUSH, of a few jobs or one, some of which is refused.
func (c *crowd) push(ctx context.Context) {
	es := make([]job.Envelope, 1+c.roll(2)*c.roll(12))
	for i := range es {
		es[i] = job.Envelope{Type: "a.b", Queue: bellQueues[c.roll(3)], Priority: c.roll(3), Args: json.RawMessage(`[]`)}
		switch c.roll(8) {
		case 0:
			es[i].Delay = time.Duration(c.roll(10)) * time.Millisecond
		case 1:
			es[i].Unique = json.RawMessage(`{"on_conflict":"replace"}`)
		case 2:
			es[i].ID, es[i].Args = job.ID(fmt.Sprintf("01970000-0000-7000-8000-%012d", c.roll(3))), json.RawMessage(fmt.Sprint("[", c.roll(2), "]"))
		}
	}
	if _, err := c.Enqueue(ctx, es...); err != nil && job.KindOf(err) != job.Unavailable && job.KindOf(err) != job.Duplicate {
		c.t.Errorf("push: %v", err)
	}
}

// settled makes sure that everybody who waits has reason to, and that each job that
// is claimed is somebody's.
func (c *crowd) settled() {
	synctest.Wait()
	c.wakeups.mu.Lock()
	lines := map[string]int{}
	for q, l := range c.wakeups.waiting {
		lines[q] = l.Len()
	}
	c.wakeups.mu.Unlock()
	if err := c.world.store.View(context.Background(), func(tx job.ReadTx) error {
		page, err := tx.Jobs(job.Filter{States: []job.State{job.Available, job.Active, job.Cancelled}, Limit: 10_000})
		c.mu.Lock()
		defer c.mu.Unlock()
		held := map[job.ID]bool{}
		for _, j := range page.Jobs {
			if j.State == job.Available && lines[j.Queue] > 0 {
				c.t.Errorf("a job lies in %s, for which %d wait", j.Queue, lines[j.Queue])
			} else if j.State == job.Active {
				if c.owner[j.ID] != j.Lease.Token {
					c.t.Errorf("%s is reserved, and its worker has %q", j.ID, c.owner[j.ID])
				}
			}
			held[j.ID] = j.State != job.Available // or was, and was replaced
		}
		for id := range c.owner {
			if !held[id] {
				c.t.Errorf("a worker has %s, which is not reserved", id)
			}
		}
		return err
	}); err != nil {
		c.t.Error(err)
	}
}

// disturb makes the store undo, lose and delay some transactions.
func (c *crowd) disturb() {
	c.stage.set(func() {
		c.stage.commit = func() error {
			switch c.roll(12) {
			case 0:
				return job.Errorf(job.Unavailable, "the disk is full")
			case 1:
				return errUndone
			}
			return nil
		}
		c.stage.available = func([]string) error {
			if c.roll(20) == 0 {
				return job.Errorf(job.Unavailable, "a page cannot be read")
			}
			return nil
		}
		c.stage.answer = func() {
			if n := c.roll(8); n < 4 {
				time.Sleep(time.Duration(n) * time.Millisecond / 2)
			}
		}
	})
}

// Whoever waits, leaves, pushes or fails, in whatever order: no job is handed out twice,
// or to nobody, and none lies while somebody waits for it.
func TestServedInACrowd(t *testing.T) {
	t.Parallel()
	seeds := uint64(12)
	if raced {
		seeds = 4
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			onStage(t, func(t *testing.T, w *world, s *staged) {
				c := &crowd{world: w, stage: s, r: rand.New(rand.NewPCG(seed, 3)), owner: map[job.ID]string{}}
				c.disturb()
				for range 10 {
					ctx, leave := context.WithCancel(t.Context())
					var all sync.WaitGroup
					for range 30 {
						wait := time.Duration(c.roll(40)) * time.Millisecond / 2
						one := c.fetch
						if c.roll(2) == 0 {
							one = c.push
						}
						all.Go(func() { time.Sleep(wait); one(ctx) })
					}
					time.Sleep(50 * time.Millisecond)
					c.settled()
					leave()
					all.Wait()
				}
				time.Sleep(time.Minute)
				c.settled()
			})
		})
	}
}

// torn is the log of an embedder, with a fault.
type torn struct{ slog.Handler }

func (torn) Enabled(context.Context, slog.Level) bool  { return true }
func (torn) Handle(context.Context, slog.Record) error { panic("the log has a fault") }

// Who was served has its jobs on disk, and gets them whatever the log does that is told
// of another job of the same transaction.
func TestWhoWasServedGetsItsJobsWhateverTheLogDoes(t *testing.T) {
	t.Parallel()
	onStage(t, func(t *testing.T, w *world, _ *staged) {
		log := w.log
		w.log = slog.New(torn{})
		defer func() { w.log = log }()
		waiting := newWaiter(t.Context(), job.FetchRequest{Queues: []string{mail}})
		w.wakeups.arm(waiting)
		w.wakeups.rest(waiting)
		taken := w.wakeups.take(mail, easy, func(*waiter) bool { return true })
		got := w.beginClaim(taken.f)
		failed := &job.Job{Status: job.Status{State: job.Discarded, Error: json.RawMessage(`{"type":"fault"}`)}}
		func() {
			defer func() { _ = recover() }() // as an HTTP handler does
			w.stored(&turn{changes: []change{{job: failed, from: job.Active}}, serving: &serving{served: []service{{taken, got}}}})
			t.Error("the log has no fault")
		}()
		if waiting.held != nil {
			t.Fatal("it is held for ever")
		}
		if w.wakeups.rise(waiting) != got {
			t.Error("it did not get what was claimed for it")
		}
		got.asked.over()
		w.wakeups.leave(waiting)
	})
}
