package sqlitestore

import (
	"database/sql/driver"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/outrider-jobs/outrider/job"
)

// cronColumns are the columns of a schedule; cronArgs and cronFrom follow their order.
const cronColumns = `name, expression, timezone, overlap, enabled, source, created_at, updated_at, anchor_at, ` +
	`seen_at, hole_to, ahead_at, next_run_at, last_run_at, last_job, run_count, runs, description, template`

const cronByName = `SELECT ` + cronColumns + ` FROM crons WHERE name = ?`

const allCrons = `SELECT ` + cronColumns + ` FROM crons ORDER BY name`

var putCron = upsert("crons", cronColumns)

// stepCron names what its caller has seen: a tick is claimed once, and never
// with a CronSpec that is not valid any more.
const stepCron = `UPDATE crons SET
  seen_at = ?, hole_to = ?, ahead_at = ?, next_run_at = ?, last_run_at = ?, last_job = ?, run_count = ?, runs = ?
WHERE name = ? AND seen_at IS ? AND updated_at = ?`

const deleteCron = `DELETE FROM crons WHERE name = ?`

func cronArgs(c *job.Cron) []any {
	var enabled any
	if c.Enabled != nil {
		enabled = *c.Enabled
	}
	args := []any{c.Name, c.Expression, text(c.Timezone), text(c.Overlap), enabled, text(c.Source),
		c.CreatedAt.UnixMilli(), c.UpdatedAt.UnixMilli(), millis(c.AnchorAt)}
	for _, v := range steppedArgs(nil, c) {
		args = append(args, v)
	}
	return append(args, text(c.Description), text(c.Template))
}

// steppedArgs are the columns that a step changes.
func steppedArgs(args []driver.Value, c *job.Cron) []driver.Value {
	return append(args, millis(c.SeenAt), millis(c.HoleTo), millis(c.AheadAt),
		millis(c.NextRunAt), millis(c.LastRunAt), lastRun(c), c.RunCount, runsAs(c.Runs))
}

// lastFlow is in front of the id of a workflow in the column last_job.
const lastFlow = "workflow "

// lastRun is what a schedule made last, NULL for nothing.
func lastRun(c *job.Cron) driver.Value {
	if c.LastFlow != "" {
		return lastFlow + string(c.LastFlow)
	}
	return text(c.LastJob)
}

// cronFrom reads the columns of cronColumns.
func cronFrom[V any](values []V) (*job.Cron, error) {
	r := &row[V]{v: values}
	c := &job.Cron{}
	c.Name, c.Expression, c.Timezone, c.Overlap = r.str(), r.str(), r.str(), job.Overlap(r.str())
	if n, ok := r.next().(int64); ok {
		on := n != 0
		c.Enabled = &on
	}
	c.Source = r.str()
	c.CreatedAt, c.UpdatedAt, c.AnchorAt = r.time(), r.time(), r.time()
	c.SeenAt, c.HoleTo, c.AheadAt = r.time(), r.time(), r.time()
	c.NextRunAt, c.LastRunAt = r.time(), r.time()
	last := r.str()
	if flow, ok := strings.CutPrefix(last, lastFlow); ok {
		c.LastFlow = job.ID(flow)
	} else {
		c.LastJob = job.ID(last)
	}
	c.RunCount = r.int()
	c.Runs = runsFrom(r.blob())
	c.Description, c.Template = r.str(), r.raw()
	if r.bad || c.Name == "" || c.Template != nil && !json.Valid(c.Template) {
		return nil, unreadable("the schedule %q", c.Name)
	}
	return c, nil
}

// runSize is how many bytes a stored run has: its kind, its tick in
// milliseconds, and the id of its job or its workflow.
const runSize = 1 + 8 + 16

// runKinds numbers what became of a tick. The numbers are in files: new ones go to the end.
var runKinds = []string{"", job.SkippedOverlap, job.SkippedDST, job.SkippedDuplicate, job.SkippedRejected, job.SkippedClock, job.SkippedElsewhere, madeFlow}

// otherKind stands for a reason that has no number, and is read as otherReason;
// so is a number that a later outrider has given.
const (
	otherKind   = 255
	otherReason = "other"
)

// madeFlow stands for no reason: the run has made a workflow.
const madeFlow = "workflow"

// runsAs is how runs are stored, NULL for none.
func runsAs(runs []job.CronRun) driver.Value {
	if len(runs) == 0 {
		return nil
	}
	b := make([]byte, 0, len(runs)*runSize)
	for _, r := range runs {
		kind := slices.Index(runKinds, r.Skipped)
		if kind < 0 {
			kind = otherKind
		}
		id, _ := uuid.Parse(string(r.JobID)) // zeros for none
		if r.FlowID != "" {
			kind = slices.Index(runKinds, madeFlow)
			id, _ = uuid.Parse(string(r.FlowID))
		}
		b = append(b, byte(kind))
		b = binary.BigEndian.AppendUint64(b, uint64(r.At.UnixMilli()))
		b = append(b, id[:]...)
	}
	return b
}

// runsFrom reads what runsAs has written.
func runsFrom(b []byte) []job.CronRun {
	if len(b) < runSize {
		return nil
	}
	runs := make([]job.CronRun, 0, len(b)/runSize)
	for ; len(b) >= runSize; b = b[runSize:] {
		r := job.CronRun{At: time.UnixMilli(int64(binary.BigEndian.Uint64(b[1:]))).UTC(), Skipped: otherReason}
		if kind := int(b[0]); kind < len(runKinds) {
			r.Skipped = runKinds[kind]
		}
		id := uuid.UUID(b[9:runSize])
		switch {
		case r.Skipped == madeFlow:
			r.Skipped, r.FlowID = "", job.ID(id.String())
		case id != uuid.Nil:
			r.JobID = job.ID(id.String())
		}
		runs = append(runs, r)
	}
	return runs
}

// Cron reads a schedule.
func (r reader) Cron(name string) (*job.Cron, error) {
	crons, err := r.crons(cronByName, name)
	return first(crons, translate("read schedule", err), func() error { return job.NoCron(name) })
}

// Crons reads all schedules.
func (r reader) Crons() ([]*job.Cron, error) {
	crons, err := r.crons(allCrons)
	return crons, translate("list schedules", err)
}

// crons reads the schedules that a SELECT of cronColumns answers, as Crons does.
func (r reader) crons(query string, args ...any) ([]*job.Cron, error) {
	crons, damaged := []*job.Cron{}, error(nil)
	for values, err := range r.rows(query, args...) {
		if err != nil {
			return nil, err
		}
		c, err := cronFrom(values)
		if err != nil {
			damaged = errors.Join(damaged, err)
			continue
		}
		crons = append(crons, c)
	}
	return crons, damaged
}

// Cron reads a schedule as this transaction sees it.
func (t *tx) Cron(name string) (*job.Cron, error) {
	var c *job.Cron
	err := t.w.st.cronByName.each(func(v []driver.Value) (err error) {
		c, err = cronFrom(v)
		return err
	}, name)
	if errors.Is(err, errDamaged) { // no statement has failed
		return nil, err
	}
	if err != nil {
		return nil, t.fail("read schedule", err)
	}
	if c == nil {
		return nil, job.NoCron(name)
	}
	return c, nil
}

// PutCron stores a schedule.
func (t *tx) PutCron(c *job.Cron) error {
	t.wrote = true
	_, err := t.doCold(putCron, cronArgs(c)...)
	return t.fail("store schedule", err)
}

// StepCron claims a tick and saves what became of it.
func (t *tx) StepCron(c *job.Cron, was time.Time) (bool, error) {
	t.args = append(steppedArgs(t.args[:0], c), c.Name, millis(was), c.UpdatedAt.UnixMilli())
	n, err := t.do(t.w.st.stepCron, t.args...)
	t.wrote = t.wrote || n > 0
	return n == 1, t.fail("step schedule", err)
}

// DeleteCron removes a schedule.
func (t *tx) DeleteCron(name string) error {
	n, err := t.doCold(deleteCron, name)
	if t.wrote = t.wrote || n > 0; err == nil && n == 0 {
		return job.NoCron(name)
	}
	return t.fail("delete schedule", err)
}
