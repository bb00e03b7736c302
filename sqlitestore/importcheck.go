package sqlitestore

import (
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/outrider-jobs/outrider/job"
)

// maxNumber bounds the numbers that an archive gives to jobs and events, so that those that come after them, and after
// those of other archives, can be counted on.
const maxNumber = 1 << 53

// asServed reads lines as a server will read their rows: a line that it could not read is not stored.
var asServed = map[string]struct {
	columns string
	read    func([]driver.Value) error
}{
	"limit":    {limitColumns, func(v []driver.Value) error { _, err := limitFrom(v); return err }},
	"schedule": {cronColumns, func(v []driver.Value) error { _, err := cronFrom(v); return err }},
	"step":     {nodeColumns, func(v []driver.Value) error { _, err := nodeFrom(v); return err }},
	"workflow": {flowColumns, func(v []driver.Value) error { _, err := flowFrom(v); return err }},
	"worker":   {"info", func(v []driver.Value) error { return json.Unmarshal(rawOf(v[0]), new(job.WorkerInfo)) }},
	"webhook":  {"spec", func(v []driver.Value) error { return json.Unmarshal(rawOf(v[0]), new(webhookSpec)) }},
	"queue_settings": {"name, info", func(v []driver.Value) error {
		name, _ := v[0].(string)
		if s, err := job.ParseQueueSettings(name, rawOf(v[1])); s == nil {
			return err
		}
		return nil
	}},
}

func rawOf(v driver.Value) []byte {
	s, _ := v.(string)
	return []byte(s)
}

// readable reports whether a server could read what a line holds.
func (t *importTable) readable() bool {
	as, ok := asServed[t.kind]
	if !ok {
		return true
	}
	var values []driver.Value
	for _, column := range strings.Split(as.columns, ", ") {
		values = append(values, t.values[t.of[column]])
	}
	return as.read(values) == nil
}

// checkNumbers refuses a head whose numbers are none.
func (h *archiveHead) checkNumbers() error {
	if min(h.LastJob, h.LastEvent) < 0 || max(h.LastJob, h.LastEvent) > maxNumber {
		return job.Errorf(job.Invalid, "line 1: last_job and last_event must be from 0 to %d", int64(maxNumber))
	}
	return nil
}

// checkJob refuses a job that no server leaves so.
func checkJob(t *importTable, k kept) error {
	leased := t.values[t.of["lease_token"]] != nil
	switch behind := t.values[t.of["behind"]]; {
	case min(k.n, k.Seq) < 1 || k.LastEvent < 0:
		return errNoJob
	case max(k.n, k.Seq, k.LastEvent) > maxNumber:
		return fmt.Errorf("n, seq and told must be at most %d", int64(maxNumber))
	case behind != int64(0) && behind != int64(1):
		return errors.New("behind must be 0 or 1")
	case leased != (k.State == job.Active):
		return errors.New("a job has a lease_token if it is active, and else none")
	}
	return nil
}

// checkPlace refuses a second available job with one place in its queue. A job that never came back has its own number there.
func (i *importer) checkPlace(j *job.Job, n, seq int64) error {
	if j.State != job.Available {
		return nil
	}
	if i.places == nil {
		i.places = map[int64]bool{}
		if err := query(i.ctx, i.conn, "SELECT seq FROM job_states WHERE state_code = 1 AND seq <> n", func(row []driver.Value) error {
			at, _ := row[0].(int64)
			i.places[at] = true
			return nil
		}); err != nil {
			return err
		}
	}
	has := i.places[seq]
	if n != seq && !has {
		i.places[seq] = true
		if err := i.atPlace.each(func([]driver.Value) error { has = true; return nil }, seq); err != nil {
			return err
		}
	}
	if has {
		return fmt.Errorf("another job has its place, seq %d", j.Seq)
	}
	return nil
}

// checkFlow refuses a workflow without all of its steps, which stand before it.
func (i *importer) checkFlow(id driver.Value) error {
	return i.lostSteps.each(func(row []driver.Value) error {
		if lost, _ := row[0].(int64); lost != 0 {
			return errors.New("its steps are not those that it should have: lines are missing, or were changed")
		}
		return nil
	}, id)
}
