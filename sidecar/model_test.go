package sidecar

import (
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// The model is what the documents say of jobs, in the plainest form: a list in
// memory, no store, no clock of its own. It shares no code with package job but
// the names of states and kinds.

// planJob is what a job of the model was pushed with.
type planJob struct {
	buried     bool // its own policy makes it a dead letter, whatever the server says
	queue      string
	priority   int
	delay, ttl time.Duration
	hold       bool
	timeout    time.Duration
	plan       plan
}

// plan is a retry policy; own is false for a job that brings none.
type plan struct {
	own      bool
	max      int
	first    time.Duration
	bury     bool
	longest  time.Duration
	asPolicy string
}

var plans = []plan{
	{max: 3, first: time.Second, longest: 5 * time.Minute},
	{true, 1, time.Second, true, 5 * time.Minute, `{"max_attempts":1,"on_exhaustion":"dead_letter"}`},
	{true, 0, time.Second, false, 5 * time.Minute, `{"max_attempts":0}`},
	{true, 2, 3 * time.Second, true, 5 * time.Minute, `{"max_attempts":2,"initial_interval":"PT3S","on_exhaustion":"dead_letter","jitter":false}`},
	{true, 5, 2 * time.Second, false, 5 * time.Second, `{"max_attempts":5,"initial_interval":"PT2S","max_interval":"PT5S","jitter":false}`},
}

// delay is contract §4.3: exponential with 2.0, capped; the tests draw no jitter.
func (p plan) delay(n int) time.Duration {
	d := p.first
	for range n - 1 {
		d = min(2*d, p.longest)
	}
	return min(d, p.longest)
}

type lease struct {
	token, worker string
	length        time.Duration
	until         time.Time
}

// loss is a reservation that ended without its holder's word.
type loss struct {
	lease
	at     time.Time
	claims int
}

type modelJob struct {
	planJob
	id                             job.ID
	state                          job.State
	attempt, releases, errors      int
	rank                           int // of its entry into the queue; equal for those that entered together
	schedule, expiry, retry, began time.Time
	lease                          lease
	lost                           *loss
	dead, deleted                  bool
}

// model is all jobs, the number of entries into queues so far, and how long a job
// that does not say may run, 0 for ever.
type model struct {
	jobs     []*modelJob
	rank     int
	standard time.Duration
}

func (m *model) push(p planJob, now time.Time) *modelJob {
	j := &modelJob{planJob: p}
	if p.delay > 0 {
		j.schedule = now.Add(p.delay)
	}
	if p.ttl > 0 {
		j.expiry = now.Add(p.ttl)
	}
	switch {
	case p.hold:
		j.state = job.Pending
	case j.schedule.After(now):
		j.state = job.Scheduled
	default:
		m.enter(j)
	}
	m.jobs = append(m.jobs, j)
	return j
}

// enter puts a job at the end of its queue.
func (m *model) enter(j *modelJob) {
	m.rank++
	j.state, j.rank, j.retry = job.Available, m.rank, time.Time{}
}

// before reports whether a must be fetched before b from their queue.
func before(a, b *modelJob) bool {
	if a.priority != b.priority {
		return a.priority > b.priority
	}
	return a.rank < b.rank
}

func (j *modelJob) start(now time.Time, l lease) {
	j.state, j.began, j.lease = job.Active, now, l
	j.attempt++
	if j.lost != nil {
		j.lost.claims++
	}
}

// holds is contract §4.8: the last token, else the same worker, else trust.
func (j *modelJob) holds(c job.Claim) bool {
	switch {
	case j.state != job.Active:
		return false
	case c.Token != "":
		return c.Token == j.lease.token
	}
	return c.Worker == "" || j.lease.worker == "" || c.Worker == j.lease.worker
}

// late is the rule of the late ack, contract §4.8.
func (j *modelJob) late(c job.Claim, now time.Time) bool {
	l := j.lost
	if l == nil || now.Sub(l.at) > max(time.Minute, l.length) {
		return false
	}
	switch j.state {
	case job.Available, job.Retryable:
		return c.Token == l.token || c.Token == "" && (c.Worker == "" || c.Worker == l.worker)
	case job.Active:
		return l.claims == 1 && (c.Token == l.token || c.Token == "" && c.Worker != "" && c.Worker == l.worker)
	}
	return false
}

func (j *modelJob) ack(c job.Claim, now time.Time) bool {
	if !j.holds(c) && !j.late(c, now) {
		return false
	}
	j.end(job.Completed)
	return true
}

func (j *modelJob) end(state job.State) {
	j.state, j.retry, j.lease, j.lost = state, time.Time{}, lease{}, nil
}

// fail is contract §4.4.
func (j *modelJob) fail(c job.Claim, code string, now time.Time) bool {
	if !j.holds(c) {
		return false
	}
	j.errors++
	switch code {
	case "DISCARD", "FAIL":
		j.end(job.Discarded)
	case "DEAD_LETTER":
		j.end(job.Discarded)
		j.dead = true
	default:
		j.again(now)
	}
	return true
}

// again retries a job after its backoff, or ends it where its attempts are spent.
func (j *modelJob) again(now time.Time) {
	n := j.attempt - j.releases
	if n >= max(j.plan.max, 1) {
		j.end(job.Discarded)
		j.dead = j.plan.bury
		return
	}
	j.end(job.Retryable)
	j.retry = now.Add(j.plan.delay(n))
}

// requeue gives a job back, which is a failure where it was given back bound times.
func (j *modelJob) requeue(c job.Claim, bound int, now time.Time) bool {
	if !j.holds(c) {
		return false
	}
	if j.releases >= bound {
		return j.fail(c, "", now)
	}
	j.releases++
	j.end(job.Available) // and its rank stays
	return true
}

// lose is contract §4.6, overrun §4.7.
func (m *model) lose(j *modelJob, now time.Time, overrun bool) {
	l := &loss{lease: j.lease, at: now}
	j.errors++
	spent := j.attempt-j.releases >= max(j.plan.max, 1)
	if !spent && !j.plan.own && !overrun {
		j.end(job.Available)
		m.enter(j)
	} else {
		j.again(now)
	}
	if !j.state.Terminal() {
		j.lost = l
	}
}

// due is when something happens to a job by itself, zero for never.
func (m *model) due(j *modelJob) (at time.Time) {
	soonest := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	switch {
	case j.deleted || j.state.Terminal():
	case j.state == job.Active:
		soonest(j.lease.until)
		if j.timeout > 0 {
			soonest(j.began.Add(j.timeout))
		} else if m.standard > 0 {
			soonest(j.began.Add(m.standard))
		}
	default:
		soonest(j.expiry)
		if j.state == job.Scheduled {
			soonest(j.schedule)
		}
		soonest(j.retry)
	}
	return at
}

// overran is contract §4.7. The server's own limit counts where the reservation
// has not run out before it.
func (m *model) overran(j *modelJob, now time.Time) bool {
	if j.timeout > 0 {
		return !now.Before(j.began.Add(j.timeout))
	}
	end := j.began.Add(m.standard)
	return m.standard > 0 && !now.Before(end) && end.Before(j.lease.until)
}

// happen does to a job what is due at now.
func (m *model) happen(j *modelJob, now time.Time) {
	switch {
	case j.state == job.Active:
		m.lose(j, now, m.overran(j, now))
	case !j.expiry.IsZero() && !now.Before(j.expiry):
		j.end(job.Discarded)
	default:
		m.enter(j)
	}
}

// settle does what is due at now, until nothing is. What enters a queue in one
// instant enters together.
func (m *model) settle(now time.Time) {
	for again := true; again; {
		again = false
		rank := m.rank
		for _, j := range m.jobs {
			if at := m.due(j); !at.IsZero() && !at.After(now) {
				m.rank = rank
				m.happen(j, now)
				again = true
			}
		}
		m.rank = rank + 1
	}
}
