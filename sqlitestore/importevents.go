package sqlitestore

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// archivedEvent is an event as it stands in an archive.
type archivedEvent struct {
	Seq     int64           `json:"seq"`
	Type    string          `json:"type"`
	At      int64           `json:"at"`
	JobID   job.ID          `json:"job"`
	JobType string          `json:"job_type"`
	Queue   string          `json:"queue"`
	Prev    int64           `json:"prev"`
	Data    json.RawMessage `json:"data"`
}

// events stores the events of a line. Those of a job that was left are left, too.
func (i *importer) events(row json.RawMessage) error {
	var all []archivedEvent
	if err := json.Unmarshal(row, &all); err != nil {
		return fmt.Errorf("its events cannot be read: %w", err)
	}
	var group []note
	for n := range all {
		e := &all[n]
		if e.Seq < 1 || e.Type == "" || n > 0 && e.Seq <= all[n-1].Seq {
			return fmt.Errorf("event %d of it is none, or not behind the one before", n+1)
		}
		i.done.Events++
		i.maxTold = max(i.maxTold, e.Seq+i.baseTold)
		left, err := i.leaves(e.JobID)
		if err != nil {
			return err
		}
		if left {
			continue
		}
		if len(group) > 0 && e.Seq+i.baseTold != group[len(group)-1].Seq+1 {
			if err := i.storeEvents(group); err != nil {
				return err
			}
			group = group[:0]
		}
		prev := e.Prev
		if prev > 0 {
			prev += i.baseTold
		}
		if len(e.Data) > 0 {
			data, err := eventData.value(e.Data)
			text, ok := data.(string)
			if err != nil || !ok || !json.Valid([]byte(text)) {
				return fmt.Errorf("the data of event %d of it cannot be read", n+1)
			}
			e.Data = json.RawMessage(text)
		}
		group = append(group, note{job.Event{Seq: e.Seq + i.baseTold, Type: e.Type, Time: time.UnixMilli(e.At).UTC(), JobID: e.JobID, JobType: e.JobType, Queue: e.Queue, Data: e.Data}, prev})
	}
	return i.storeEvents(group)
}

// leaves reports whether an event is of a job that was there before.
func (i *importer) leaves(id job.ID) (left bool, err error) {
	b, ok := id.Bytes()
	if !i.shared || !ok {
		return false, nil
	}
	err = i.find.each(func(row []driver.Value) error {
		n, _ := row[0].(int64)
		left = n <= i.baseSeq
		return nil
	}, b[:])
	return left, err
}

func (i *importer) storeEvents(group []note) error {
	if len(group) == 0 {
		return nil
	}
	at := slices.MaxFunc(group, func(a, b note) int { return a.Time.Compare(b.Time) }).Time
	_, err := i.putEvent.exec(group[0].Seq, at.UnixMilli(), i.packer.pack(group))
	return err
}
