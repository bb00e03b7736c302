package sidecar

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// turn is one transaction of the service. It can do what a transaction of the
// store can, but stores jobs and events by its own methods alone: they collect what
// has changed, and do what belongs to the same transaction.
type turn struct {
	job.WorkTx
	s       *Sidecar
	jobs    job.JobWriter
	changes []change
	limits  *limiting // nil as long as no job of its has a rate limit
	room    [2]change // for changes: most transactions change one job or two
	serving *serving  // nil as long as nobody waited for its jobs
	gates   *gates    // nil as long as no queue of its is limited as a whole

	released int         // changes of which release has seen what follows
	ended    *endedFlows // nil as long as no workflow has ended
	told     bool        // it has written events
}

// change is what a transaction has done to one job.
type change struct {
	job  *job.Job  // as it is now
	from job.State // before; None for a new job
	next job.ID    // of one that has ended: whom those wait for now that waited for it

	promoted, demoted bool // it stays available, and has come in line, or is behind now
}

// ends reports whether the job has ended.
func (c change) ends() bool { return c.job.State.Terminal() && !c.from.Terminal() }

// update runs fn in one transaction, and tells of what it has saved once that is on
// disk. It is the only way to write to the store. fn may run more than once.
func (s *Sidecar) update(ctx context.Context, fn func(*turn) error) error {
	t := &turn{s: s}
	run := func(tx job.Tx) error {
		s.unserve(t)
		t.WorkTx, t.jobs, t.changes, t.released, t.gates, t.ended, t.told = tx, tx, t.room[:0], 0, nil, nil, false
		if t.limits != nil {
			t.limits.opens = time.Time{}
		}
		if err := fn(t); err != nil {
			return err
		}
		if err := t.release(); err != nil {
			return err
		}
		return s.serve(t)
	}
	for {
		err := s.store.Update(ctx, run)
		if err == nil {
			s.stored(t)
			return nil
		}
		refused := t.serving != nil && t.serving.refused
		s.unserve(t)
		if !refused {
			return err
		}
		// That is no fault of fn, and the turn serves nobody now.
	}
}

// stored tells of what a turn has done once that is on disk. Those whom it has served get
// their jobs also where the log of an embedder panics.
func (s *Sidecar) stored(t *turn) {
	defer s.handOver(t)
	if t.told {
		s.news.tell()
	}
	s.committed(t.everything(), t.gates)
	s.passed(t.gates)
	if t.limits != nil && !t.limits.opens.IsZero() {
		s.clock.wake(dutyOpen, later(t.limits.opens, s.now()))
	}
}

// save stores what has become of a job.
func (t *turn) save(j *job.Job) error { return t.put(j, t.store) }

// store saves a job, without what follows from it for its limit.
func (t *turn) store(j *job.Job) error { return t.jobs.UpdateJob(j) }

// rewrite is save for a job whose args or meta have changed, too.
func (t *turn) rewrite(j *job.Job) error { return t.put(j, t.jobs.RewriteJob) }

func (t *turn) put(j *job.Job, write func(*job.Job) error) error {
	c := change{job: j, from: j.Was()}
	if c.from == job.Active && j.State != job.Active || c.ends() {
		config := t.configOf(j.Queue)
		if c.from == job.Active && config.Concurrency > 0 {
			t.opens(j.Queue, 1)
		}
		if c.from == job.Active {
			t.poolOpens(j.Queue)
		}
		if c.ends() {
			c.next = j.Leave()
			if config.Retention != (job.QueueRetention{}) {
				t.s.retain(t, j)
			}
		}
	}
	if j.Asks() {
		return t.putLimited(j, func(j *job.Job) error { return t.stored(c, write) })
	}
	return t.stored(c, write)
}

func (t *turn) stored(c change, write func(*job.Job) error) error {
	t.told = t.told || c.job.PendingEvents() > 0
	err := write(c.job)
	if err == nil {
		t.changes = append(t.changes, c)
	}
	return err
}

// release does what follows from the changes that it has not seen: for workflows, and
// for those that waited for a job or a workflow which this transaction has ended. It
// comes last: of who waits there is no older copy then that is still to be saved.
func (t *turn) release() error {
	for t.released < len(t.changes) || t.ended.left() > 0 {
		if t.released == len(t.changes) {
			f := t.ended.next()
			if err := t.letGo(f.id, f.at); err != nil {
				return err
			}
			continue
		}
		c := t.changes[t.released]
		t.released++
		if c.job.Flow != nil {
			if err := t.followFlow(c); err != nil {
				return err
			}
		}
		if c.ends() {
			if err := t.letGo(c.job.ID, c.job.FinishedAt); err != nil {
				return err
			}
		}
	}
	return nil
}

// letGo lets those go on that waited for the job or the workflow id, which has ended at
// that time.
func (t *turn) letGo(id job.ID, at time.Time) error {
	waiting, err := t.Waiting(id)
	if err != nil {
		return err
	}
	for _, w := range waiting {
		next := t.alive(id)
		if next == w.ID { // they waited for one another
			next = ""
		}
		if err := w.Follow(next, at); err != nil {
			return err
		}
		if err := t.rewrite(w); err != nil {
			return err
		}
	}
	return nil
}

// alive is the first of id and those that it waited for which has not ended. There is
// none where they wait in a circle, as jobs of an older file may: no walk is longer
// than there are changes.
func (t *turn) alive(id job.ID) job.ID {
	for range len(t.changes) + t.ended.count() + 1 {
		next, ended := t.leftTo(id)
		if id == "" || !ended {
			return id
		}
		id = next
	}
	return ""
}

// leftTo reports whether a job or a workflow has ended, and whom those wait for now that
// waited for it. A workflow that was stopped before it began has left them whom its first
// jobs have waited for.
func (t *turn) leftTo(id job.ID) (next job.ID, ended bool) {
	for _, c := range t.changes {
		if c.job.ID == id && c.ends() {
			return c.next, true
		}
	}
	if !t.ended.has(id) {
		return "", false
	}
	for _, c := range t.changes {
		if c.next != "" && c.job.Flow != nil && c.job.Flow.Workflow == id {
			return c.next, true
		}
	}
	return "", true
}

// endedFlows are the workflows that a transaction has ended; nil is none.
type endedFlows struct {
	all      []endedFlow
	released int // those of them for whose end nobody waits any more
}

type endedFlow struct {
	id job.ID
	at time.Time
}

func (e *endedFlows) count() int {
	if e == nil {
		return 0
	}
	return len(e.all)
}

func (e *endedFlows) left() int {
	if e == nil {
		return 0
	}
	return len(e.all) - e.released
}

func (e *endedFlows) next() endedFlow {
	e.released++
	return e.all[e.released-1]
}

func (e *endedFlows) has(id job.ID) bool {
	return e != nil && slices.ContainsFunc(e.all, func(f endedFlow) bool { return f.id == id })
}

// insert stores a new job.
func (t *turn) insert(j *job.Job) error {
	t.inherit(j)
	_, err := t.add(j, func() (bool, error) { return true, t.jobs.InsertJob(j) })
	return err
}

// add stores a new job as store does, which says whether it has.
func (t *turn) add(j *job.Job, store func() (bool, error)) (bool, error) {
	if j.Asks() {
		return t.insertLimited(j, store)
	}
	stored, err := store()
	if stored && err == nil {
		t.told = true
		t.changes = append(t.changes, change{job: j})
	}
	return stored, err
}

// insertFirst stores a new job if no other has its id or its unique key, and
// reports whether it did; see [job.FirstInserter]. A store that cannot do that at
// once leaves it to the look at the keys that follows.
func (t *turn) insertFirst(j *job.Job) (bool, error) {
	first, ok := t.jobs.(job.FirstInserter)
	if !ok {
		return false, nil
	}
	t.inherit(j)
	return t.add(j, func() (bool, error) { return first.InsertFirst(j) })
}

// insertAll stores those of many new jobs whose ids are free, and says which. Those with a
// rate limit go in one by one: where one stands in its lane depends on those before it.
func (t *turn) insertAll(js []*job.Job) (stored []bool, err error) {
	for _, j := range js {
		t.inherit(j)
	}
	for len(js) > 0 {
		n := slices.IndexFunc(js, func(j *job.Job) bool { return j.Asks() })
		var some []bool
		switch n {
		case 0:
			n, some = 1, make([]bool, 1)
			some[0], err = t.insertLimited(js[0], func() (bool, error) {
				one, err := t.insertTogether(js[:1])
				return err == nil && one[0], err
			})
		case -1:
			n = len(js)
			fallthrough
		default:
			some, err = t.insertTogether(js[:n])
			for i := range some {
				if some[i] {
					t.told = true
					t.changes = append(t.changes, change{job: js[i]})
				}
			}
		}
		if err != nil {
			return nil, err
		}
		if n == len(js) && stored == nil {
			return some, nil
		}
		stored, js = append(stored, some...), js[n:]
	}
	return stored, nil
}

// insertTogether stores those of many new jobs whose ids are free, and says which.
func (t *turn) insertTogether(js []*job.Job) ([]bool, error) { return t.jobs.InsertJobs(js) }

// inherit gives a new job what its queue says where the job leaves it open.
func (t *turn) inherit(j *job.Job) {
	if c := t.configOf(j.Queue); c.DefaultRetry != nil {
		j.Under(&t.s.o.Rules).In(c).InheritRetry()
	}
}

// remove deletes a job for good. Nobody waits for that.
func (t *turn) remove(id job.ID) error { return t.jobs.DeleteJob(id) }

// addEvent stores an event that is no job's.
func (t *turn) addEvent(e job.Event) error {
	t.told = true
	return t.WorkTx.AddEvent(e)
}

// latest are the stored jobs that the transaction has changed, as it has left them, before
// they were claimed. New ones are among them only if a later step has changed them.
func (t *turn) latest() (jobs map[job.ID]*job.Job) {
	for _, c := range t.changes {
		if c.from == job.None {
			continue
		}
		if jobs == nil {
			jobs = map[job.ID]*job.Job{}
		}
		jobs[c.job.ID] = c.job
	}
	return jobs
}

// committed is told of the changes of each transaction once they are on disk, and
// never before: whoever must hear of them is called from here. The jobs in them
// are the caller's of update again once this returns, who may take out what is not
// to be shown: whoever needs one for longer keeps a Clone.
func (s *Sidecar) committed(changes []change, g *gates) {
	if len(changes) == 0 {
		return
	}
	s.totals.count(changes)
	s.ringFor(changes, g)
	s.ends.tell(s, changes)
	s.roomFor(changes)
	s.planFor(changes)
	s.logFailed(changes)
}

// enters reports whether the job has come in line in its queue.
func (c change) enters() bool { return (c.from != job.Available || c.promoted) && c.job.InLine() }

// leaves reports whether the job is in line no more.
func (c change) leaves() bool {
	return c.from == job.Available && c.job.State != job.Available || c.demoted
}

// entered yields the jobs that have come in line in their queues and have not left it in
// the same transaction.
func entered(changes []change) iter.Seq[*job.Job] {
	return func(yield func(*job.Job) bool) {
		found := false
		var left map[job.ID]int // where they left for the last time
		for i, c := range changes {
			if c.enters() {
				found = true
			} else if found && c.leaves() {
				if left == nil {
					left = map[job.ID]int{}
				}
				left[c.job.ID] = i
			}
		}
		for i, c := range changes {
			if found && c.enters() && left[c.job.ID] <= i && !yield(c.job) {
				return
			}
		}
	}
}

// ringFor wakes a waiting FETCH for each job that has come in line in its queue and has not
// left it in the same transaction, but not in vain: of a queue that is full the next one is
// woken when it opens.
func (s *Sidecar) ringFor(changes []change, g *gates) {
	if s.wakeups.present.Load() == 0 {
		return
	}
	for j := range entered(changes) {
		if !g.isFull(j.Queue) {
			s.wakeups.ringFor(lineOf(j.Queue, j.Tenant), j)
		}
	}
}

// planFor tells the duties when they must look at the jobs again, and drops what
// is remembered of those that have ended.
func (s *Sidecar) planFor(changes []change) {
	now := s.now()
	for _, c := range changes {
		j := c.job
		if j.State.Terminal() {
			s.answers.forget(j.ID)
			if at, soon := s.o.Retention.pruneAt(j); soon {
				s.clock.wake(dutyPrune, later(at, now))
			}
		} else if !j.DueAt.IsZero() && c.from != j.State { // who puts off what it finds, or brings it forward, plans that itself
			s.clock.wake(dutyOf(j.State), later(j.DueAt, now)) // what is due already was not slept through
		}
	}
}
