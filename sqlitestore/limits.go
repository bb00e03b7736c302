package sqlitestore

import (
	"database/sql/driver"
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

const (
	limitColumns  = `key, pace, override, active, next, deferred, opens_at, used_at, starts`
	limitByKey    = `SELECT ` + limitColumns + ` FROM limits WHERE key = ?`
	someLimits    = `SELECT ` + limitColumns + ` FROM limits WHERE key > ? ORDER BY key LIMIT ?`
	countLimits   = `SELECT count(*) FROM limits WHERE key > ?`
	openingLimits = `SELECT ` + limitColumns + ` FROM limits WHERE opens_at <= ? ORDER BY opens_at LIMIT ?`
	nextOpening   = `SELECT coalesce(min(opens_at), 0) FROM limits WHERE opens_at IS NOT NULL`
	deleteLimit   = `DELETE FROM limits WHERE key = ?`
)

var putLimit = upsert("limits", limitColumns)

// The first of a lane, in one queue, and in the first queue behind one.
const (
	laneHead    = `SELECT n, priority, seq FROM job_states WHERE lane = ? AND queue = ? AND state_code = 1 ORDER BY priority DESC, seq LIMIT 1`
	laneNext    = `SELECT n, priority, seq FROM job_states WHERE lane = ? AND queue > ? AND state_code = 1 ORDER BY queue, priority DESC, seq LIMIT 1`
	laneDepth   = `SELECT count(*) FROM job_states WHERE lane = ? AND state_code = 1`
	countBehind = `SELECT queue, count(*) FROM job_states INDEXED BY jobs_lane WHERE state_code = 1 AND lane IS NOT NULL AND behind = 1 GROUP BY queue`
)

// limits are those that the writer touched last, as they are after the calls so far, and
// when the next of all may open. After a call that has failed all of it is forgotten.
type limits struct {
	byKey   map[string]*job.Limit
	opening int64 // no limit opens earlier; 0 for none at all
	known   bool  // opening is
}

// maxLimits is how many limits are remembered.
const maxLimits = 4096

func (l *limits) forget() { *l = limits{} }

func (l *limits) put(v *job.Limit) {
	if l.byKey == nil || len(l.byKey) >= maxLimits {
		l.byKey = map[string]*job.Limit{}
	}
	l.byKey[v.Key] = v
	if at := v.OpensAt; !at.IsZero() && (l.opening == 0 || at.UnixMilli() < l.opening) {
		l.opening = at.UnixMilli()
	}
}

// keptPace is how a pace is stored.
type keptPace struct {
	Concurrency int        `json:"concurrency,omitempty"`
	Rate        *keptQuota `json:"rate,omitempty"`
	Throttle    *keptQuota `json:"throttle,omitempty"`
}

type keptQuota struct {
	Limit  int   `json:"limit"`
	Period int64 `json:"period_ms"`
}

// paceAs is how a pace is stored, NULL for none.
func paceAs(p *job.Pace) driver.Value {
	if p == nil {
		return nil
	}
	k := keptPace{Concurrency: p.Concurrency, Rate: quotaAs(p.Rate), Throttle: quotaAs(p.Throttle)}
	b, _ := json.Marshal(k) // numbers alone
	return string(b)
}

func quotaAs(q job.Quota) *keptQuota {
	if q.Limit == 0 {
		return nil
	}
	return &keptQuota{q.Limit, q.Period.Milliseconds()}
}

// paceFrom reads what paceAs has written.
func paceFrom(s string) (*job.Pace, bool) {
	if s == "" {
		return nil, true
	}
	var k keptPace
	if json.Unmarshal([]byte(s), &k) != nil || k.Concurrency < 0 {
		return nil, false
	}
	p := &job.Pace{Concurrency: k.Concurrency}
	for _, q := range [...]struct {
		from *keptQuota
		to   *job.Quota
	}{{k.Rate, &p.Rate}, {k.Throttle, &p.Throttle}} {
		if q.from == nil {
			continue
		}
		if q.from.Limit < 1 || q.from.Period < 1 {
			return nil, false
		}
		*q.to = job.Quota{Limit: q.from.Limit, Period: time.Duration(q.from.Period) * time.Millisecond}
	}
	return p, true
}

// startSize is how many bytes a stored Burst has: its instant in milliseconds, and how many.
const startSize = 8 + 4

func startsAs(starts []job.Burst) driver.Value {
	if len(starts) == 0 {
		return nil
	}
	b := make([]byte, 0, len(starts)*startSize)
	for _, s := range starts {
		b = binary.BigEndian.AppendUint64(b, uint64(s.At.UnixMilli()))
		b = binary.BigEndian.AppendUint32(b, uint32(s.N))
	}
	return b
}

func startsFrom(b []byte) []job.Burst {
	var starts []job.Burst
	for ; len(b) >= startSize; b = b[startSize:] {
		starts = append(starts, job.Burst{At: time.UnixMilli(int64(binary.BigEndian.Uint64(b))).UTC(), N: int(binary.BigEndian.Uint32(b[8:]))})
	}
	return starts
}

func limitArgs(args []driver.Value, l *job.Limit) []driver.Value {
	return append(args, l.Key, paceAs(&l.Pace), paceAs(l.Override), int64(l.Active), l.Next,
		millis(l.Deferred), millis(l.OpensAt), l.UsedAt.UnixMilli(), startsAs(l.Starts))
}

// limitFrom reads the columns of limitColumns.
func limitFrom[V any](values []V) (*job.Limit, error) {
	r := &row[V]{v: values}
	l := &job.Limit{Key: r.str()}
	pace, ok := paceFrom(r.str())
	if pace != nil {
		l.Pace = *pace
	}
	override, also := paceFrom(r.str())
	l.Override = override
	l.Active, l.Next = int(r.int()), r.int()
	l.Deferred, l.OpensAt, l.UsedAt = r.time(), r.time(), r.time()
	l.Starts = startsFrom(r.blob())
	if r.bad || !ok || !also || l.Key == "" || l.Active < 0 {
		return nil, unreadable("the limit %q", l.Key)
	}
	return l, nil
}

// limits reads those that a SELECT of limitColumns answers.
func (r reader) limits(query string, args ...any) (all []*job.Limit, err error) {
	for values, err := range r.rows(query, args...) {
		if err != nil {
			return nil, err
		}
		l, err := limitFrom(values)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// Limit reads a limit.
func (r reader) Limit(key string) (*job.Limit, error) {
	all, err := r.limits(limitByKey, key)
	return first(all, translate("read limit", err), func() error { return job.NoLimit(key) })
}

// Limits reads a page of limits.
func (r reader) Limits(after string, n int) ([]*job.Limit, int64, error) {
	if err := r.long(); err != nil {
		return nil, 0, translate("list limits", err)
	}
	all, err := r.limits(someLimits, after, n)
	if err != nil {
		return nil, 0, translate("list limits", err)
	}
	var total int64
	err = r.each(countLimits, func(v *row[any]) { total = v.int() }, job.BeforeLimitKeys)
	return all, total, translate("count limits", err)
}

// LaneDepth counts who waits.
func (r reader) LaneDepth(key string) (n int64, err error) {
	if err := r.long(); err != nil {
		return 0, translate("count a lane", err)
	}
	err = r.each(laneDepth, func(v *row[any]) { n = v.int() }, key)
	return n, translate("count a lane", err)
}

// Limit reads a limit as this transaction sees it, from memory if the writer has just
// touched it.
func (t *tx) Limit(key string) (*job.Limit, error) {
	if l := t.w.limits.byKey[key]; l != nil {
		return l.Clone(), nil
	}
	var found *job.Limit
	if err := t.eachLimit(t.w.st.limitByKey, func(l *job.Limit) { found = l }, key); err != nil {
		return nil, err
	}
	if found == nil {
		return nil, job.NoLimit(key)
	}
	t.w.limits.put(found)
	return found.Clone(), nil
}

// eachLimit reads the limits that a prepared statement answers.
func (t *tx) eachLimit(s *stmt, fn func(*job.Limit), args ...driver.Value) error {
	err := s.each(func(v []driver.Value) error {
		l, err := limitFrom(v)
		if err == nil {
			fn(l)
		}
		return err
	}, args...)
	if errors.Is(err, errDamaged) { // no statement has failed
		t.w.noteDamage(err)
		return err
	}
	return t.fail("read limits", err)
}

// PutLimit stores a limit.
func (t *tx) PutLimit(l *job.Limit) error {
	t.wrote = true
	t.args = limitArgs(t.args[:0], l)
	if _, err := t.do(t.w.st.putLimit, t.args...); err != nil {
		return t.fail("store limit", err)
	}
	t.w.limits.put(l.Clone())
	return nil
}

// DeleteLimit forgets a limit.
func (t *tx) DeleteLimit(key string) error {
	t.wrote = true
	delete(t.w.limits.byKey, key)
	_, err := t.doCold(deleteLimit, key)
	return t.fail("delete limit", err)
}

// LaneHead reads the first job of a lane.
func (t *tx) LaneHead(key, queue string) (*job.Job, error) {
	jobs, _, _, err := t.read(laneIndex, t.w.st.laneHead, 1, inLane(key), key, queue)
	if err != nil || len(jobs) == 0 {
		return nil, t.fail("read a lane", err)
	}
	return jobs[0], nil
}

// LaneHeads reads the first job of a lane in each queue.
func (t *tx) LaneHeads(key string) (heads []*job.Job, err error) {
	for queue := ""; ; {
		jobs, _, _, err := t.read(laneIndex, t.w.st.laneNext, 1, inLane(key), key, queue)
		if err != nil || len(jobs) == 0 {
			return heads, t.fail("read the lanes of a key", err)
		}
		heads = append(heads, jobs[0])
		queue = jobs[0].Queue
	}
}

// inLane is what an entry of jobs_lane must hold for its job.
func inLane(key string) func(*job.Job, entry) bool {
	return func(j *job.Job, e entry) bool {
		return j.State == job.Available && j.Lane == key && int64(j.Priority) == e.a && j.Seq == e.b
	}
}

// OpeningLimits reads the limits whose time has come.
func (t *tx) OpeningLimits(before time.Time, n int) (all []*job.Limit, err error) {
	l := &t.w.limits
	if l.known && (l.opening == 0 || l.opening > before.UnixMilli()) {
		return nil, nil
	}
	err = t.eachLimit(t.w.st.opening, func(v *job.Limit) {
		if newer := l.byKey[v.Key]; newer != nil {
			v = newer.Clone()
		}
		all = append(all, v)
	}, before.UnixMilli(), int64(n))
	if err == nil && len(all) == 0 {
		_, err = t.NextOpening()
	}
	return all, err
}

// NextOpening reads when the next limit opens.
func (t *tx) NextOpening() (at time.Time, err error) {
	n, err := number(t.w.conn, nextOpening)
	if err != nil {
		return at, t.fail("read when a limit opens", err)
	}
	if t.w.limits.opening, t.w.limits.known = n, true; n != 0 {
		at = time.UnixMilli(n).UTC()
	}
	return at, nil
}

// loadLimits reads what the writer keeps in memory of limits.
func (w *writer) loadLimits() error {
	for _, q := range w.queues {
		q.behind = 0
	}
	err := reader{q: w.unprepared}.each(countBehind, func(v *row[any]) {
		if q := w.queues[v.str()]; q != nil {
			q.behind = v.int()
		}
	})
	if err == nil {
		w.limits.opening, err = number(w.conn, nextOpening)
		w.limits.known = err == nil
	}
	return err
}
