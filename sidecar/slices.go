package sidecar

import "time"

// workShare is the share of one transaction in work that may be long: whoever wants
// to write waits for no more than that. What is left over is done in the next one.
//
// Long transactions that stay whole, as the contract has it: a PUSH of a batch, of
// at most 10,000 jobs, and a PUSH whose policy replaces the jobs with its key:
// as many as other policies have let exist side by side.
type workShare struct {
	began time.Time
	steps int
	full  bool // there was a step too many
}

// newWorkShare begins a transaction.
func newWorkShare() workShare { return workShare{began: time.Now()} }

// over counts a step, and reports that it belongs to the next transaction already.
// The first one never does.
func (r *workShare) over() bool {
	if r.steps == slice || r.steps > 0 && r.steps%16 == 0 && time.Since(r.began) > share {
		r.full = true
		return true
	}
	r.steps++
	return false
}
