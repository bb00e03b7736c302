package sqlitestore

import (
	"database/sql/driver"
	"maps"

	"github.com/jmoiron/sqlx"

	"github.com/outrider-jobs/outrider/job"
)

// tx is one transaction of the writer, shared by the calls of a group. What a
// call changes beside its rows (counters, events) is kept apart until the call
// has succeeded, and is written once for the whole group.
type tx struct {
	reader
	finder // set once the statements are prepared
	w      *writer
	call   changes // of the call that is running
	group  changes // of the calls that succeeded
	failed error   // of the call that is running: a statement failed, whatever fn says
	wrote  bool    // the call that is running has changed rows

	args   []driver.Value // of the statement that is running
	body   []driver.Value // all columns of the job that is being stored
	state  []driver.Value
	packer packer // of rows of events
	gone   int    // jobs that the group has deleted

	careful bool // the pass that is running stores each job when it is told to
	waits   waits
}

type changes struct {
	counts   []count
	tallies  []tallied
	events   []note
	waiting  int64     // jobs with an After, more than before
	stored   int       // events that are written already; those in events come behind them
	settings []setting // of queues, in the order in which they were set
	jobs     known     // read or written by the call, as they are now; without a Job: deleted
	nodes    nodes     // of workflows, that were saved
	gone     []job.ID  // workflows that were removed
}

// note is an event that is not written yet. Its Seq is known already: the events
// of a group are numbered in the order of its calls, and those of a call that
// fails are dropped before the next one notes any.
type note struct {
	job.Event
	prev int64 // Seq of the event before it of the same job, 0 for none
}

// nextSeq is the Seq of the event that is noted next.
func (t *tx) nextSeq() int64 {
	return t.written() + int64(len(t.group.events)+len(t.call.events)) + 1
}

// written is the Seq of the last event that is in its row: all others come behind it.
func (t *tx) written() int64 { return t.w.events + int64(t.group.stored+t.call.stored) }

// How many events a row of them holds at most, and how many bytes, but for one that
// is larger: whoever reads one event of a row reads all.
const (
	rowOfEvents = 1000
	rowOfBytes  = 256 << 10
)

// rowOf is how many of the events in front go into one row.
func rowOf(events []note) int {
	size := 0
	for i := range events {
		size += len(events[i].Data)
		if i == rowOfEvents || i > 0 && size > rowOfBytes {
			return i
		}
	}
	return len(events)
}

// addNote notes an event. A call with very many does not leave all of them for the
// moment of its commit, unless others of its group come before them.
func (t *tx) addNote(n note) error {
	t.call.events = append(t.call.events, n)
	if len(t.call.events) < rowOfEvents || len(t.group.events) > 0 {
		return nil
	}
	t.wrote = true
	if err := t.putRows(t.call.events); err != nil {
		return t.fail("write events", err)
	}
	t.call.stored += len(t.call.events)
	t.call.events = t.call.events[:0]
	return nil
}

// note takes over the events of a job, each chained to the one before, and
// returns the Seq of the newest; last is that of the newest so far.
func (t *tx) note(j *job.Job, last int64) (int64, error) {
	for _, e := range j.TakeEvents() {
		e.Seq = t.nextSeq()
		if err := t.addNote(note{e, last}); err != nil {
			return last, err
		}
		last = e.Seq
	}
	return last, nil
}

// AddEvent stores an event that is no job's.
func (t *tx) AddEvent(e job.Event) error {
	e.Seq = t.nextSeq()
	return t.addNote(note{Event: e})
}

// settled is the connection of the writer for statements that are not prepared: each
// sees what waits to be stored.
type settled struct{ t *tx }

func (s settled) Queryx(query string, args ...any) (*sqlx.Rows, error) {
	if err := s.t.settle(); err != nil {
		return nil, err
	}
	return s.t.w.unprepared.Queryx(query, args...)
}

// count is a change of one queue's counters.
type count struct {
	queue string
	state job.State // or deadCount
	n     int64
	at    int64 // when the queue began, if this count is its first
}

// What stands where a state does: deadCount counts the dead letters; newQueue
// counts nothing, so that the queue is there; and goneQueue takes it away.
const (
	deadCount job.State = "dead"
	newQueue  job.State = "new"
	goneQueue job.State = "gone"
)

// behindCount counts those of the available jobs that are not to be claimed. It is kept in
// memory alone.
const behindCount job.State = "behind"

// reset makes the transaction ready for the next group.
func (t *tx) reset() {
	t.drop()
	clear(t.group.events) // what they point to may go
	t.group.counts, t.group.events, t.group.stored, t.group.waiting = t.group.counts[:0], t.group.events[:0], 0, 0
	t.group.settings, t.group.tallies = t.group.settings[:0], t.group.tallies[:0]
	t.group.nodes.clear()
	t.group.gone = nil
	t.waits.next()
	clear(t.args)
	clear(t.body)
	clear(t.state)
	t.gone = 0
}

// keep takes over what the call has changed.
func (t *tx) keep() {
	t.group.counts = append(t.group.counts, t.call.counts...)
	t.group.tallies = append(t.group.tallies, t.call.tallies...)
	t.group.events = append(t.group.events, t.call.events...)
	t.group.stored += t.call.stored
	t.group.waiting += t.call.waiting
	t.group.settings = append(t.group.settings, t.call.settings...)
	if len(t.call.nodes) > 0 {
		if t.group.nodes == nil {
			t.group.nodes = nodes{}
		}
		maps.Copy(t.group.nodes, t.call.nodes)
	}
	t.group.gone = append(t.group.gone, t.call.gone...)
	for id, k := range t.call.jobs.byID {
		if k.Job == nil {
			t.gone++
		}
		if k.Job == nil || k.State.Terminal() {
			t.w.cache.drop(id)
		} else if old, _ := t.w.cache.get(id); k != old {
			t.w.cache.put(k)
		}
	}
	t.drop()
}

// drop forgets what the call has changed.
func (t *tx) drop() {
	t.call.tallies = t.call.tallies[:0]
	t.call.counts, t.call.events, t.call.stored, t.call.waiting = t.call.counts[:0], t.call.events[:0], 0, 0
	t.call.settings = t.call.settings[:0]
	t.call.jobs.clear()
	t.call.nodes.clear()
	t.call.gone = nil
	t.failed = nil
}

// fail notes that a statement failed: the call cannot succeed any more.
func (t *tx) fail(doing string, err error) error {
	if err == nil {
		return nil
	}
	if t.failed == nil {
		t.failed = err
	}
	return translate(doing, err)
}

// do runs a statement that writes. After one that failed it runs none: SQLite may
// have ended the transaction by itself, and what follows would be a commit of its own.
func (t *tx) do(s *stmt, args ...driver.Value) (int64, error) {
	if t.failed != nil {
		return 0, t.failed
	}
	return s.exec(args...)
}

// doCold is do for a statement that is not prepared.
func (t *tx) doCold(query string, args ...any) (int64, error) {
	if t.failed != nil {
		return 0, t.failed
	}
	r, err := t.w.unprepared.Exec(query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

var putMark = upsert("marks", "name, value")

const putEvents = `INSERT INTO events (first, at, packed) VALUES (?, ?, ?)`

// flush writes the counters and the events of the group.
func (t *tx) flush() error {
	t.w.waiting += t.group.waiting
	touched := map[string]*queueRow{}
	for _, c := range t.group.counts {
		q := t.w.queues[c.queue]
		if c.state == goneQueue {
			if err := t.removeQueue(c.queue); err != nil {
				return err
			}
			delete(touched, c.queue)
			continue
		}
		if q == nil {
			q = &queueRow{Name: c.queue, CreatedAt: c.at}
			t.w.queues[c.queue] = q
		}
		if c.state != newQueue {
			*q.counter(c.state) += c.n
		}
		touched[c.queue] = q
	}
	if err := t.addTallies(t.group.tallies); err != nil {
		return err
	}
	t.w.settings.apply(t.group.settings)
	if err := t.putRows(t.group.events); err != nil { // nearly always as one: an append at the end of one table is all that history costs
		return err
	}
	if err := t.saveNodes(); err != nil {
		return err
	}
	n := t.group.stored + len(t.group.events)
	t.w.events += int64(n)
	for _, q := range touched {
		if err := t.w.saveQueue(q); err != nil {
			return err
		}
	}
	if len(touched) > 0 || n == 0 {
		return nil
	}
	_, err := t.do(t.w.st.putMark, "events", t.w.events)
	return err
}

// putRows writes events, as few rows of them as may be.
func (t *tx) putRows(events []note) error {
	for len(events) > 0 {
		n := rowOf(events)
		if err := t.putEvents(events[:n]); err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

// putEvents writes one row of events.
func (t *tx) putEvents(events []note) error {
	latest := int64(0) // calls of one group may have looked at the clock in another order
	for i := range events {
		latest = max(latest, events[i].Time.UnixMilli())
	}
	_, err := t.do(t.w.st.putEvents, events[0].Seq, latest, t.packer.pack(events))
	return err
}

// saveQueue writes a queue's row.
func (w *writer) saveQueue(q *queueRow) error {
	_, err := w.st.putQueue.exec(q.Name, q.Paused, q.CreatedAt, q.Scheduled, q.Available, q.Pending, q.Active,
		q.Retryable, q.Completed, q.Cancelled, q.Discarded, q.Dead,
		q.slot.start, q.slot.Enqueued, q.slot.Started, q.slot.Completed, q.slot.Failed, q.slot.Timed, q.slot.Took.Milliseconds(), q.slot.Waited.Milliseconds(),
		w.seq, w.events)
	return err
}
