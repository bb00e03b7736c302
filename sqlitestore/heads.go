package sqlitestore

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"

	"github.com/outrider-jobs/outrider/job"
)

// heads are the first available jobs of each queue, in claim order, as they are after
// what the calls so far have changed. The writer is the only one that changes the
// file, so it need not ask for them again: one walk of the index serves all FETCHes
// that find their jobs in it, and those that enter behind them. After a call that
// has failed all of them are forgotten.
type heads map[string]*head

type head struct {
	entries []entry // by priority, highest first, then by Seq
	whole   bool    // no others wait behind them
}

// How many jobs of a queue one walk reads, and how many are remembered; of how many
// queues.
const (
	walkAhead = 64
	maxHead   = 1024
	maxHeads  = 1024
)

// ahead says where the place of an entry is among others, in claim order.
func ahead(e, other entry) int {
	switch {
	case e.a != other.a:
		return int(other.a - e.a)
	case e.b < other.b:
		return -1
	case e.b > other.b:
		return 1
	}
	return 0
}

// entryOf is what the claim knows of an available job.
func entryOf(k kept) entry { return entry{k.n, int64(k.Priority), k.Seq} }

// moved keeps the head of a queue right when a job of it changes. Either may have no Job.
func (hs heads) moved(was, now kept) {
	if was.Job != nil && was.InLine() {
		hs.left(was.Queue, entryOf(was))
	}
	if now.Job != nil && now.InLine() {
		hs.entered(now.Queue, entryOf(now))
	}
}

// moved keeps what is remembered of queues right when a job changes.
func (t *tx) moved(was, now kept) {
	t.w.heads.moved(was, now)
	if len(t.w.sifts) > 0 {
		t.w.sifts.moved(was, now)
	}
}

func (hs heads) entered(queue string, e entry) {
	h := hs[queue]
	if h == nil {
		return
	}
	at, known := slices.BinarySearchFunc(h.entries, e, ahead)
	switch {
	case known:
	case at == len(h.entries) && (!h.whole || at == maxHead):
		h.whole = false
	default:
		h.entries = slices.Insert(h.entries, at, e)
		if len(h.entries) > maxHead {
			h.entries, h.whole = h.entries[:maxHead], false
		}
	}
}

func (hs heads) left(queue string, e entry) {
	h := hs[queue]
	if h == nil {
		return
	}
	if len(h.entries) > 0 && h.entries[0] == e { // mostly
		h.entries = h.entries[1:]
	} else if at, known := slices.BinarySearchFunc(h.entries, e, ahead); known {
		h.entries = slices.Delete(h.entries, at, at+1)
	}
}

// head reads the first jobs of one queue. whole is false where there are more, too large
// to be read at once.
func (t *tx) head(queue string, n int) (jobs []*job.Job, whole bool, err error) {
	h := t.w.heads[queue]
	for again := false; ; again = true {
		if h == nil || again || !h.whole && len(h.entries) < n || len(h.entries) == 0 && t.claimable(queue) > 0 {
			if h, err = t.walk(queue, max(n, walkAhead)); err != nil {
				return nil, false, err
			}
		}
		most := min(n, len(h.entries))
		jobs, whole, err = t.jobsOf(claimIndex, h.entries[:most], atOnce, func(j *job.Job, e entry) bool { return waitsAs(j, queue, e) })
		if err != nil || again || !whole || len(jobs) == most {
			return jobs, whole && (h.whole || len(jobs) == n), err
		}
		// What cannot be read any more a walk passes over.
	}
}

// claimable is how many jobs of a queue are in line.
func (t *tx) claimable(queue string) int64 {
	return t.counted(queue, job.Available) - t.counted(queue, behindCount)
}

// waitsAs reports whether a job waits in a queue in the place of an entry.
func waitsAs(j *job.Job, queue string, e entry) bool {
	return j.InLine() && j.Queue == queue && int64(j.Priority) == e.a && j.Seq == e.b
}

// nextAvailable reads the index jobs_claim, and the jobs that it names.
var nextAvailable = `SELECT e_n, e_priority, e_seq, +s.n AS "", ` + namesOf(allColumns, "+", ` AS ""`) + ` FROM (
SELECT n AS e_n, priority AS e_priority, seq AS e_seq FROM job_states WHERE queue = ? AND state_code = 1 AND behind = 0 ORDER BY priority DESC, seq LIMIT ?)
LEFT JOIN job_states AS s ON s.n = e_n LEFT JOIN job_bodies AS b ON b.n = e_n`

// walk reads the head of a queue anew, at least n jobs of it if there are so many that
// can be read and are not too large. A walk that reaches the end of the queue compares
// how many entries there were with the counter: an entry that lost its place in the
// index is never found otherwise.
func (t *tx) walk(queue string, n int) (*head, error) {
	if err := t.settle(); err != nil {
		return nil, err
	}
	if len(t.w.heads) >= maxHeads {
		clear(t.w.heads)
	}
	for ask := n; ; ask *= 4 {
		h, answered, room := &head{}, 0, atOnce
		err := t.w.st.available.each(func(v []driver.Value) error {
			answered++
			e := entryFrom(v)
			k, err := jobFrom(v[3:])
			switch {
			case v[3] == nil, err == nil && !waitsAs(k.Job, queue, e):
				t.w.suspect(rottenEntry(claimIndex, e.n))
				return nil
			case err != nil:
				t.w.noteDamage(err)
				return nil
			}
			if h.entries = append(h.entries, e); !t.remembers(k) {
				t.call.jobs.put(k.ID, k)
			}
			if room -= k.Size(); room <= 0 {
				return errEnough
			}
			return nil
		}, queue, int64(ask))
		if err != nil && !errors.Is(err, errEnough) {
			return nil, err
		}
		if err == nil && answered < ask {
			h.whole = true
			if q := t.w.queues[queue]; q != nil && q.Available-q.behind > int64(answered) {
				if n := t.claimable(queue); n != int64(answered) {
					t.w.suspect(&badIndex{claimIndex, fmt.Sprintf("it holds %d jobs of the queue %q, where %d wait", answered, queue, n)})
				}
			}
		}
		if t.w.heads[queue] = h; len(h.entries) >= n || h.whole || err != nil {
			return h, nil
		}
	}
}

// errEnough ends a walk: the jobs take all the room there is.
var errEnough = errors.New("enough")

// remembers reports whether a job is in memory, perhaps newer than where it was read.
func (t *tx) remembers(k kept) bool {
	_, ok := t.call.jobs.at(k.n)
	if !ok {
		_, ok = t.w.cache.at(k.n)
	}
	return ok
}
