package sqlitestore

import (
	"cmp"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/outrider-jobs/outrider/job"
)

// settings are what is set of queues. The writer has all of them in memory: each PUSH
// and each claim looks there, and mostly there are none.
type settings struct {
	stored map[string]*job.QueueSettings // as they are in the file
	held   map[string]*job.QueueSettings // the same under the template, which is what holds
	others *job.QueueSettings            // what holds for all other queues
}

// setting is a change of them. One without a value takes away.
type setting struct {
	name string
	set  *job.QueueSettings
}

// settingsOf makes settings of what is stored.
func settingsOf(stored map[string]*job.QueueSettings) settings {
	s := settings{stored: stored, held: make(map[string]*job.QueueSettings, len(stored))}
	template := stored[job.TemplateQueue]
	for name, own := range stored {
		if name != job.TemplateQueue {
			s.held[name] = own.Under(template)
		}
	}
	var none *job.QueueSettings
	s.others = none.Under(template)
	return s
}

// of is what holds for a queue.
func (s *settings) of(name string) *job.QueueSettings {
	if len(s.stored) == 0 {
		return nil
	}
	if set := s.held[name]; set != nil {
		return set
	}
	return s.others
}

// apply makes changes.
func (s *settings) apply(changes []setting) {
	if len(changes) > 0 {
		*s = s.after(changes)
	}
}

// after is s after some changes.
func (s *settings) after(changes []setting) settings {
	stored := maps.Clone(s.stored)
	if stored == nil {
		stored = map[string]*job.QueueSettings{}
	}
	for _, c := range changes {
		if c.set == nil {
			delete(stored, c.name)
		} else {
			stored[c.name] = c.set
		}
	}
	return settingsOf(stored)
}

// current is what is set, with what this transaction has changed so far.
func (t *tx) current() *settings {
	if len(t.group.settings)+len(t.call.settings) == 0 {
		return &t.w.settings
	}
	s := t.w.settings.after(t.group.settings)
	s = s.after(t.call.settings)
	return &s
}

// setOf is what holds for a queue.
func (t *tx) setOf(queue string) *job.QueueSettings { return t.current().of(queue) }

// QueueSettings is what holds for a queue, from memory.
func (t *tx) QueueSettings(queue string) (*job.QueueSettings, error) { return t.setOf(queue), nil }

// AllQueueSettings are the settings that are stored.
func (t *tx) AllQueueSettings() ([]*job.QueueSettings, error) {
	return byName(t.current().stored), nil
}

func byName(set map[string]*job.QueueSettings) []*job.QueueSettings {
	return slices.SortedFunc(maps.Values(set), func(a, b *job.QueueSettings) int { return cmp.Compare(a.Name, b.Name) })
}

// Queue is a queue, from memory, with what this transaction has changed so far.
func (t *tx) Queue(name string) (job.Queue, error) {
	q := t.w.queues[name]
	row := queueRow{Name: name}
	there := q != nil
	if there {
		row = *q
	}
	for _, counts := range [...][]count{t.group.counts, t.call.counts} {
		for _, c := range counts {
			switch {
			case c.queue != name:
			case c.state == goneQueue:
				there, row = false, queueRow{Name: name}
			default:
				if !there {
					there, row.CreatedAt = true, c.at
				}
				if c.state != newQueue {
					*row.counter(c.state) += c.n
				}
			}
		}
	}
	if !there {
		return job.Queue{}, missing("queue", name)
	}
	return row.queue().Set(t.setOf(name)), nil
}

// PutQueue makes a queue.
func (t *tx) PutQueue(name string, now time.Time) error {
	t.call.counts = append(t.call.counts, count{queue: name, state: newQueue, at: now.UnixMilli()})
	return nil
}

// DeleteQueue removes a queue without jobs.
func (t *tx) DeleteQueue(name string) error {
	q, err := t.Queue(name)
	if err != nil {
		return err
	}
	n := int64(0)
	for _, c := range q.Counts {
		n += c
	}
	if n > 0 {
		return job.Errorf(job.Conflict, "the queue %s has %d jobs", name, n)
	}
	t.call.counts = append(t.call.counts, count{queue: name, state: goneQueue})
	return t.DeleteQueueSettings(name)
}

const deleteQueue = `DELETE FROM queues WHERE name = ?`

// removeQueue takes the row of a queue away. That may be the one that has the last
// numbers that were given, so they become marks.
func (t *tx) removeQueue(name string) error {
	delete(t.w.queues, name)
	if _, err := t.doCold(deleteQueue, name); err != nil {
		return err
	}
	if _, err := t.doCold(deleteSlots, name); err != nil {
		return err
	}
	if _, err := t.do(t.w.st.putMark, "seq", t.w.seq); err != nil {
		return err
	}
	_, err := t.do(t.w.st.putMark, "events", t.w.events)
	return err
}

const (
	allSettings    = `SELECT name, info FROM queue_settings ORDER BY name`
	deleteSettings = `DELETE FROM queue_settings WHERE name = ?`
)

var putSettings = upsert("queue_settings", "name, info")

// PutQueueSettings stores settings.
func (t *tx) PutQueueSettings(s *job.QueueSettings) error {
	t.wrote = true
	if _, err := t.doCold(putSettings, s.Name, string(s.Info())); err != nil {
		return t.fail("store what is set of a queue", err)
	}
	t.call.settings = append(t.call.settings, setting{s.Name, s})
	return nil
}

// DeleteQueueSettings removes settings.
func (t *tx) DeleteQueueSettings(name string) error {
	if t.current().stored[name] == nil {
		return nil
	}
	t.wrote = true
	if _, err := t.doCold(deleteSettings, name); err != nil {
		return t.fail("remove what is set of a queue", err)
	}
	t.call.settings = append(t.call.settings, setting{name: name})
	return nil
}

// settings reads what is set. What another build has set and this one does not take
// is as if it was not set.
func (r reader) settings() (map[string]*job.QueueSettings, error) {
	set := map[string]*job.QueueSettings{}
	err := r.each(allSettings, func(v *row[any]) {
		name := v.str()
		s, err := job.ParseQueueSettings(name, []byte(v.str()))
		if s != nil {
			set[name] = s
		}
		v.bad = v.bad || !utf8.ValidString(name) || s == nil && err != nil
	})
	return set, err
}

// QueueSettings reads what holds for a queue.
func (r reader) QueueSettings(queue string) (*job.QueueSettings, error) {
	set, err := r.settings()
	if err != nil {
		return nil, translate("read what is set of a queue", err)
	}
	s := settingsOf(set)
	return s.of(queue), nil
}

// AllQueueSettings reads the settings that are stored.
func (r reader) AllQueueSettings() ([]*job.QueueSettings, error) {
	set, err := r.settings()
	return byName(set), translate("read what is set of the queues", err)
}

// loadSettings reads what the writer keeps in memory.
func (w *writer) loadSettings() error {
	set, err := reader{q: w.unprepared}.settings()
	if err == nil {
		w.settings = settingsOf(set)
	}
	return err
}
