package job

import (
	"cmp"
	"fmt"
	"time"
)

// DefaultReleases is how often a job may be given back untouched (contract §4.4).
const DefaultReleases = 100

// The two ends of a job that has failed for good (ojs-retry.md §2.2), as
// [RetryPolicy.OnExhaustion] names them.
const (
	OnExhaustionDiscard    = "discard"
	OnExhaustionDeadLetter = "dead_letter"
)

// Rules are what a server decides for jobs that leave it open. The zero value is
// what the documents say.
type Rules struct {
	// Releases is how often a job may be given back untouched with requeue, after
	// which that is a failure like others: a job that every worker gives back
	// would go round for ever. 0 is DefaultReleases; negative is not once.
	Releases int
	// OnExhaustion is what becomes of a job that has failed for good and whose
	// retry policy does not say it: "discard", "dead_letter" or, as discard, empty.
	OnExhaustion string
	// OnExhaustionOf is the same for the jobs of some queues.
	OnExhaustionOf map[string]string
}

// Under makes the next verbs on j heed rules, and returns j. A nil is the zero value.
func (j *Job) Under(rules *Rules) *Job {
	j.rules = rules
	return j
}

// releases is how often j may be given back.
func (j *Job) releases() int {
	switch {
	case j.rules == nil || j.rules.Releases == 0:
		return DefaultReleases
	case j.rules.Releases < 0:
		return 0
	}
	return j.rules.Releases
}

// policy is the job's effective retry policy. It was validated at PUSH, perhaps by
// a server that took several spellings of one member. What it does not say the
// default policy of its queue does, and then the server, for on_exhaustion.
func (j *Job) policy() RetryPolicy {
	base := DefaultRetry()
	base.OnExhaustion = cmp.Or(j.exhaustion(), base.OnExhaustion)
	under := base
	if j.queue != nil && j.queue.DefaultRetry != nil {
		if p, err := mergeRetry(base, j.queue.DefaultRetry, true, false); err == nil {
			under = p
		}
	}
	p, err := mergeRetry(under, j.Retry, true, false)
	if err != nil { // each of the two is a policy, and both together are none
		p, err = mergeRetry(base, j.Retry, true, false)
	}
	if err != nil {
		return under
	}
	return p
}

// exhaustion is what the server says of jobs in j's queue, or empty.
func (j *Job) exhaustion() string {
	if j.rules == nil {
		return ""
	}
	if end := j.rules.OnExhaustionOf[j.Queue]; end != "" {
		return end
	}
	return j.rules.OnExhaustion
}

// tooOften is the failure of a job that was given back once more than it may be,
// where its holder sent no error of its own, or none that can be kept.
func (j *Job) tooOften(f Failure) Failure {
	f.Requeue = false
	if f.Type == "" && f.Code == "" && f.Message == "" || f.Validate() != nil {
		f = Failure{Type: "requeue_limit", RetryAfter: f.RetryAfter,
			Message: fmt.Sprintf("the job was given back untouched %d times before, which is the most that this server allows; once more is a failure", j.Releases)}
	}
	return f
}

// giveBack lets a job into its queue again untouched, at its former place
// (contract §4.4 step 1).
func (j *Job) giveBack(now time.Time) error {
	seq := j.Seq
	if err := j.move(onRequeue, Available, now); err != nil {
		return err
	}
	j.Seq = seq
	j.Releases++
	j.EnqueuedAt = now
	j.release()
	j.addEnqueued(now)
	return nil
}
