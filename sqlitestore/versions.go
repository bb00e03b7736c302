package sqlitestore

import (
	"database/sql/driver"
	"errors"
	"math"
	"slices"
	"strconv"

	"github.com/outrider-jobs/outrider/job"
)

// sifts are, by queue, the first jobs of those that a FETCH with versions takes. As with
// heads the writer is the only one that changes the file: the jobs that such a FETCH passes
// over are read once, and not again by the next one that asks for the same. After a call
// that has failed all of them are forgotten.
type sifts map[string][]*sifted

// sifted are the jobs in line in a queue that pass one filter, up to where the index was
// read: those behind upto are not known, unless whole is true.
type sifted struct {
	tenant   string
	versions *job.Versions
	entries  []entry
	upto     entry // the place that was read last
	begun    bool  // there is an upto
	whole    bool
}

// sieve is how many jobs one call reads to find those that pass, at most: then other calls
// get their turn, and a later one goes on. maxSifts is how many filters of one queue are
// remembered.
const (
	sieve    = 10_000
	maxSifts = 64
)

// The jobs of a queue behind a place, in claim order: those of its priority, and those of
// lower ones. A tenant is read only where one is asked for.
const (
	siftedColumns = `SELECT e_n, e_priority, e_seq, b.type, b.extra, CASE WHEN ? THEN (SELECT tenant FROM job_states WHERE n = e_n) END FROM (
SELECT n AS e_n, priority AS e_priority, seq AS e_seq FROM job_states WHERE queue = ? AND state_code = 1 AND behind = 0 AND `
	siftedJoin = ` LIMIT ?) LEFT JOIN job_bodies AS b ON b.n = e_n`

	siftSame  = siftedColumns + `priority = ? AND seq > ? ORDER BY seq` + siftedJoin
	siftLower = siftedColumns + `priority < ? ORDER BY priority DESC, seq` + siftedJoin
)

func (ss *sifted) passes(tenant, kind string, extra []byte) bool {
	return (ss.tenant == "" || tenant == ss.tenant) && ss.versions.Wants(kind, extra)
}

// reached reports whether the index was read up to an entry.
func (ss *sifted) reached(e entry) bool {
	return ss.whole || ss.begun && ahead(e, ss.upto) <= 0
}

// moved keeps them right when a job changes. Either may have no Job.
func (s sifts) moved(was, now kept) {
	if was.Job != nil && was.InLine() {
		for _, ss := range s[was.Queue] {
			if at, known := slices.BinarySearchFunc(ss.entries, entryOf(was), ahead); known {
				ss.entries = slices.Delete(ss.entries, at, at+1)
			}
		}
	}
	if now.Job != nil && now.InLine() {
		for _, ss := range s[now.Queue] {
			if e := entryOf(now); ss.reached(e) && ss.passes(now.Tenant, now.Type, now.Extra) {
				ss.enter(e)
			}
		}
	}
}

func (ss *sifted) enter(e entry) {
	at, known := slices.BinarySearchFunc(ss.entries, e, ahead)
	if known {
		return
	}
	ss.entries = slices.Insert(ss.entries, at, e)
	if len(ss.entries) > maxHead {
		ss.entries = ss.entries[:maxHead]
		ss.upto, ss.begun, ss.whole = ss.entries[maxHead-1], true, false
	}
}

// of is what is remembered of a filter.
func (s sifts) of(queue, tenant string, v *job.Versions) *sifted {
	for _, ss := range s[queue] {
		if ss.tenant == tenant && ss.versions.Key() == v.Key() {
			return ss
		}
	}
	if len(s) >= maxHeads {
		clear(s)
	}
	if len(s[queue]) >= maxSifts {
		delete(s, queue)
	}
	ss := &sifted{tenant: tenant, versions: v}
	s[queue] = append(s[queue], ss)
	return ss
}

// AvailableVersions reads the first jobs that a FETCH with versions takes. What it passes
// over is read once: 10,000 jobs of other versions cost the first FETCH some milliseconds,
// and the next ones nothing.
func (t *tx) AvailableVersions(v *job.Versions, tenant string, queues []string, n int) (jobs []*job.Job, more bool, err error) {
	left := sieve
	for i, name := range queues {
		if n == 0 || slices.Contains(queues[:i], name) || t.setOf(name).Paused() {
			continue
		}
		ss := t.w.sifts.of(name, tenant, v)
		if err := t.sift(ss, name, n, &left); err != nil {
			return nil, false, t.fail("look for versions in the queue "+strconv.Quote(name), err)
		}
		most := min(n, len(ss.entries))
		fits := func(j *job.Job, e entry) bool {
			return waitsAs(j, name, e) && ss.passes(j.Tenant, j.Type, j.Extra)
		}
		found, whole, err := t.jobsOf(claimIndex, ss.entries[:most], atOnce, fits)
		if err != nil {
			return nil, false, t.fail("read the queue "+strconv.Quote(name)+" of a version", err)
		}
		jobs = append(jobs, found...)
		if !whole {
			return jobs, false, nil // what comes next is too large to be read with them
		}
		if len(found) < most {
			ss.keep(most, found)
			return jobs, true, nil
		}
		if n -= len(found); n > 0 && !ss.whole {
			return jobs, true, nil
		}
	}
	return jobs, false, nil
}

// keep drops those of the first entries whose jobs cannot be read any more. That is
// reported, and must not hide what comes behind them.
func (ss *sifted) keep(first int, found []*job.Job) {
	left := make([]entry, 0, len(ss.entries))
	for _, e := range ss.entries[:first] {
		if slices.ContainsFunc(found, func(j *job.Job) bool { return int64(j.Priority) == e.a && j.Seq == e.b }) {
			left = append(left, e)
		}
	}
	ss.entries = append(left, ss.entries[first:]...)
}

// sift reads on until there are n entries, or as far as it may.
func (t *tx) sift(ss *sifted, queue string, n int, left *int) error {
	if ss.whole || len(ss.entries) >= n {
		return nil
	}
	if err := t.settle(); err != nil {
		return err
	}
	enough := max(n, walkAhead)
	if ss.begun {
		if err := t.siftSome(ss, t.w.st.siftSame, enough, left, ss.tenant != "", queue, ss.upto.a, ss.upto.b); err != nil {
			return err
		}
	}
	if len(ss.entries) >= enough || *left <= 0 {
		return nil
	}
	below := int64(math.MaxInt64)
	if ss.begun {
		below = ss.upto.a
	}
	if err := t.siftSome(ss, t.w.st.siftLower, enough, left, ss.tenant != "", queue, below); err != nil {
		return err
	}
	ss.whole = len(ss.entries) < enough && *left > 0
	return nil
}

// siftSome reads the entries of a statement until there are enough, or as far as it may.
func (t *tx) siftSome(ss *sifted, s *stmt, enough int, left *int, args ...driver.Value) error {
	err := s.each(func(v []driver.Value) error {
		*left--
		e := entryFrom(v)
		ss.upto, ss.begun = e, true
		r := &row[driver.Value]{v: v[3:]}
		if v[3] == nil {
			t.w.suspect(rottenEntry(claimIndex, e.n))
			return nil
		}
		kind, extra, tenant := r.str(), r.raw(), r.str()
		if !r.bad && ss.passes(tenant, kind, extra) {
			ss.entries = append(ss.entries, e)
		}
		if len(ss.entries) >= enough || *left <= 0 {
			return errEnough
		}
		return nil
	}, append(args, int64(*left))...)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
