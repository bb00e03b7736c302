package sidecar

import "github.com/outrider-jobs/outrider/job"

// Backtraces says what becomes of the backtraces that workers report. They may
// hold paths, names and addresses of the inside (ojs-core.md §14.2).
type Backtraces string

// What becomes of backtraces. Any other value than these is as OmitBacktraces.
const (
	KeepBacktraces Backtraces = "keep" // they are stored and shown; so is the zero value
	OmitBacktraces Backtraces = "omit" // they are neither stored nor shown, also not those stored before
)

// omits reports whether backtraces are neither stored nor shown.
func (s *Sidecar) omits() bool { return s.o.Backtraces != "" && s.o.Backtraces != KeepBacktraces }

// show takes out of jobs what is not to be shown. Every answer that holds jobs
// passes here on its way out; nil stands for no job.
func (s *Sidecar) show(jobs ...*job.Job) {
	if !s.omits() {
		return
	}
	for _, j := range jobs {
		if j != nil {
			j.OmitBacktraces()
		}
	}
}
