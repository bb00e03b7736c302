package sqlitestore

import (
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// The tallies of the present minute stand in the row of the queue, which each commit
// that adds to them writes anyway. When the minute turns they become a row of
// queue_slots.

// slot is a job.Slot as it is stored: all times in milliseconds.
type slot struct {
	start int64
	job.Tally
}

const (
	slotColumns = `slot, enqueued, started, completed, failed, timed, took, waited`
	ownSlot     = `slot, slot_enqueued, slot_started, slot_completed, slot_failed, slot_timed, slot_took, slot_waited`

	addSlot = `INSERT INTO queue_slots (queue, ` + slotColumns + `)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (queue, slot) DO UPDATE SET enqueued = enqueued + excluded.enqueued, started = started + excluded.started,
  completed = completed + excluded.completed, failed = failed + excluded.failed, timed = timed + excluded.timed,
  took = took + excluded.took, waited = waited + excluded.waited`

	deleteSlots = `DELETE FROM queue_slots WHERE queue = ?`
	pruneSlots  = `DELETE FROM queue_slots WHERE queue = ? AND slot < ?`
)

// The slots of a queue, and of all together.
const (
	sumSlots   = `SELECT slot, sum(enqueued), sum(started), sum(completed), sum(failed), sum(timed), sum(took), sum(waited) FROM (`
	slotsOfOne = sumSlots + `
SELECT ` + slotColumns + ` FROM queue_slots WHERE queue = ? AND slot >= ?
UNION ALL SELECT ` + ownSlot + ` FROM queues WHERE name = ? AND slot >= ?)
GROUP BY 1 ORDER BY 1`
	slotsOfAll = sumSlots + `
SELECT s.slot, s.enqueued, s.started, s.completed, s.failed, s.timed, s.took, s.waited FROM queues AS q CROSS JOIN queue_slots AS s ON s.queue = q.name AND s.slot >= ?
UNION ALL SELECT ` + ownSlot + ` FROM queues WHERE slot >= ?)
GROUP BY 1 ORDER BY 1`
)

// tallied is what a call adds to a slot of a queue.
type tallied struct {
	queue string
	slot
}

// tally notes what a change of a job adds to the slots of its queue.
func (t *tx) tally(was, now *job.Job) {
	n, at := job.TallyOf(was, now)
	if n == (job.Tally{}) {
		return
	}
	start := at.UnixMilli()
	start -= start % job.SlotLength.Milliseconds()
	if last := len(t.call.tallies) - 1; last >= 0 && t.call.tallies[last].start == start && t.call.tallies[last].queue == now.Queue {
		t.call.tallies[last].Add(n)
		return
	}
	t.call.tallies = append(t.call.tallies, tallied{now.Queue, slot{start, n}})
}

// addTallies adds what the group has done to the slots of the queues.
func (t *tx) addTallies(all []tallied) error {
	for _, n := range all {
		q := t.w.queues[n.queue]
		switch {
		case q == nil: // deleted, in this group
		case n.start == q.slot.start:
			q.slot.Add(n.Tally)
		case n.start > q.slot.start:
			if q.slot.Tally != (job.Tally{}) {
				if err := t.addSlot(n.queue, q.slot); err != nil {
					return err
				}
			}
			q.slot = n.slot
		default: // its clock was behind, or was set back
			if err := t.addSlot(n.queue, n.slot); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *tx) addSlot(queue string, s slot) error {
	_, err := t.do(t.w.st.addSlot, queue, s.start, s.Enqueued, s.Started, s.Completed, s.Failed, s.Timed, s.Took.Milliseconds(), s.Waited.Milliseconds())
	return err
}

func slotFrom(v *row[any]) (s slot) {
	s.start, s.Enqueued, s.Started, s.Completed, s.Failed, s.Timed = v.int(), v.int(), v.int(), v.int(), v.int(), v.int()
	s.Took, s.Waited = time.Duration(v.int())*time.Millisecond, time.Duration(v.int())*time.Millisecond
	return s
}

// Slots reads the tallies of a queue, of all if it has no name.
func (r reader) Slots(queue string, from time.Time) (slots []job.Slot, err error) {
	query, args := slotsOfOne, []any{queue, from.UnixMilli(), queue, from.UnixMilli()}
	if queue == "" {
		query, args = slotsOfAll, []any{from.UnixMilli(), from.UnixMilli()}
	}
	err = r.each(query, func(v *row[any]) {
		s := slotFrom(v)
		slots = append(slots, job.Slot{Start: time.UnixMilli(s.start).UTC(), Tally: s.Tally})
	}, args...)
	return slots, translate("read the statistics of a queue", err)
}

// PruneSlots removes the slots of a queue from before an instant.
func (t *tx) PruneSlots(queue string, before time.Time) error {
	t.wrote = true
	_, err := t.doCold(pruneSlots, queue, before.UnixMilli())
	return t.fail("prune statistics", err)
}
