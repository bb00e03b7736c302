package job

import "time"

// What an operator may tell a worker (contract §4.9). The first two are also what
// a BEAT answers, beside "running".
const (
	Quiet     = "quiet"     // take no new jobs, end those that are running
	Terminate = "terminate" // likewise, and then stop
	Resume    = "resume"    // go on: takes back the others
)

const running = "running"

// Direct sets what an operator wishes of a worker. A wish that is none of the
// three is Invalid.
func (w *WorkerInfo) Direct(wish string) error {
	switch wish {
	case Quiet, Terminate:
		w.Directive = wish
	case Resume:
		w.Directive = ""
	default:
		return Errorf(Invalid, "directive must be quiet, terminate or resume, got %.80q", wish).With(map[string]any{"field": "directive"})
	}
	return nil
}

// Beaten is what is known of a worker after it has told now of itself in a BEAT
// at t, and the directive that answers it: the operator's, else test, which may be
// empty, else what the worker's own state amounts to (contract §4.9).
func (w WorkerInfo) Beaten(now WorkerInfo, test string, t time.Time) (WorkerInfo, string) {
	own := leaving(now.State)
	if w.Directive == "" && rank(own) > rank(w.LastDirective) || own == running {
		w.LastDirective = "" // it says so of itself, or goes on as it was told
	}
	now = w.Merge(now, t)
	said := now.Wanted()
	if now.Directive == "" && test != "" {
		said = test
	}
	if rank(said) > max(rank(own), rank(w.LastDirective)) {
		now.LastDirective = said // who does so of itself was not told
	}
	return now, said
}

// Wanted is what the server wants of a worker that it has heard of: running, quiet
// or terminate. A state that only echoes a directive which was taken back
// meanwhile is running.
func (w WorkerInfo) Wanted() string {
	own := leaving(w.State)
	switch {
	case w.Directive != "":
		return w.Directive
	case rank(own) <= rank(w.LastDirective):
		return running
	}
	return own
}

// Takes reports whether a FETCH gives the worker jobs (contract §3.8).
func (w WorkerInfo) Takes() bool { return w.Wanted() == running }

// leaving is the directive that a worker's own state amounts to.
func leaving(state string) string {
	switch state {
	case "drain", "draining", "terminate", "shutting_down":
		return Terminate
	case "quiet":
		return Quiet
	}
	return running
}

// rank orders directives by how much they end.
func rank(directive string) int {
	switch directive {
	case Quiet:
		return 1
	case Terminate:
		return 2
	}
	return 0
}
