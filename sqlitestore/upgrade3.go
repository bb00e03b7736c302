package sqlitestore

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"

	"github.com/outrider-jobs/outrider/job"
)

// maybeWaiting reads the jobs of schema 2 that may wait for another: all of those
// had a due_at.
const maybeWaiting = `SELECT id, meta, created_at FROM jobs WHERE state = 'pending' AND due_at IS NOT NULL`

// before2 reads what tells whether a job of schema 2 is still waited for.
const before2 = `SELECT state, attempt, meta, created_at FROM jobs WHERE id = ?`

// stand puts a job behind another. The due_at of one that does not expire was no time.
const stand = `UPDATE jobs SET after_id = ?2, due_at = expires_at WHERE id = ?1`

// setFree lets a job go whose predecessor had ended before anybody saw to it, by way
// of the clock, which puts it into its queue; countFree counts it. What a change of
// state does to a key and to due_at it does, too: ?2 is the set of the new state.
const (
	setFree = `UPDATE jobs SET state = 'scheduled', holds = iif(holds & ?2 = 0, 0, holds),
  due_at = min(max(created_at, ifnull(scheduled_at, 0)), ifnull(expires_at, 9223372036854775807)) WHERE id = ?1`
	countFree = `UPDATE queues SET pending = pending - 1, scheduled = scheduled + 1 WHERE name = (SELECT queue FROM jobs WHERE id = ?)`
)

// lineUp gives the runs of schedules that wait for another the job whose end they
// wait for.
func lineUp(conn driver.Conn) error {
	behind := map[string]string{}
	if err := once(conn, maybeWaiting, func(r *row[driver.Value]) {
		if id, other := r.str(), ranAfter(r); other != "" && other != id {
			behind[id] = other
		}
	}); err != nil {
		return err
	}
	for id, other := range behind {
		other, err := waitedFor(conn, id, other)
		switch {
		case err != nil:
		case other != "":
			err = once(conn, stand, nil, id, other)
		default:
			if err = once(conn, setFree, nil, id, int64(job.SetOf(job.Scheduled))); err == nil {
				err = once(conn, countFree, nil, id)
			}
		}
		if err != nil {
			return fmt.Errorf("put job %s behind the one that it waits for: %w", id, err)
		}
	}
	return nil
}

// once runs a statement once; read is given each row that it answers.
func once(conn driver.Conn, sql string, read func(*row[driver.Value]), args ...driver.Value) error {
	s, err := prepare(conn, sql)
	if err != nil {
		return err
	}
	defer func() { _ = s.s.Close() }() // it has been judged
	if read == nil {
		_, err = s.exec(args...)
		return err
	}
	return s.each(func(v []driver.Value) error {
		read(&row[driver.Value]{v: v})
		return nil
	}, args...)
}

// waitedFor is the job that has not ended among other, which id had to wait for, and
// those that it waited for, as far as each was stopped before it began; empty for
// none. Meta that somebody has written may lead round in a circle, which is none.
func waitedFor(conn driver.Conn, id, other string) (string, error) {
	for seen := map[string]bool{id: true}; other != "" && !seen[other]; {
		next, alive := "", false
		if err := once(conn, before2, func(r *row[driver.Value]) {
			alive = !job.State(r.str()).Terminal()
			if began := r.int() > 0; !began {
				next = ranAfter(r)
			}
		}, other); err != nil || alive {
			return other, err
		}
		seen[other], other = true, next
	}
	return "", nil
}

// ranAfter reads meta and created_at: the job that a run had to wait for. Meta that
// a client has written says nothing: only a run was made at the instant that its
// meta names.
func ranAfter(r *row[driver.Value]) string {
	var meta struct {
		After string `json:"cron_after"`
		At    string `json:"cron_triggered_at"`
	}
	if json.Unmarshal(r.raw(), &meta) != nil || meta.At != job.FormatTime(r.time()) {
		return ""
	}
	return meta.After
}
