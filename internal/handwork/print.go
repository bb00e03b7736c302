package handwork

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/job"
)

// maxMemory is of how many unmapped types a worker remembers that it has told of them.
const maxMemory = 1000

// printer tells a person what a worker does, one write a line.
type printer struct {
	o Options

	mu   sync.Mutex // guards the rest
	n    Tally
	told map[string]bool // types that have no mapping
}

func newPrinter(o Options) *printer {
	if o.Lines == nil {
		o.Lines = io.Discard
	}
	if o.News == nil {
		o.News = io.Discard
	}
	return &printer{o: o, told: map[string]bool{}}
}

func (p *printer) tally() Tally {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

func (p *printer) started(id string) {
	queues := p.o.Queues
	if len(queues) == 0 {
		queues = []string{job.DefaultQueue}
	}
	fmt.Fprintf(p.o.Lines, "outrider: working as %s on %s of %s\n", id, strings.Join(queues, ", "), p.o.Access.URL)
}

// settled prints what came of an attempt.
func (p *printer) settled(s client.Settled) {
	what, style := p.count(s)
	what = p.o.Screen.Paint(style, what)
	fmt.Fprintf(p.o.Lines, "%s  %s  %s  %s\n", time.Now().Format(time.TimeOnly), s.Job.Type, s.Job.ID, what)
}

// count is what came of an attempt in words, which it adds to the tally.
func (p *printer) count(s client.Settled) (what string, style term.Style) {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := short(s.Took)
	switch {
	case errors.Is(s.Dropped, client.ErrCancelled):
		p.n.Dropped++
		return "cancelled, stopped after " + took, term.Warn
	case s.Dropped != nil:
		p.n.Dropped++
		return "no longer this worker's, stopped after " + took, term.Warn
	case job.KindOf(s.Refused) == job.Conflict && errors.Is(s.Err, context.DeadlineExceeded):
		p.n.Dropped++
		return reason(s.Err) + ", as the server has seen already", term.Warn
	case s.Refused != nil:
		p.n.Dropped++
		return fmt.Sprintf("%s, but the server did not take that: %s", reason(s.Err), Plain(s.Refused.Error(), maxReason)), term.Bad
	case s.GivenBack:
		p.n.GivenBack++
		return "given back after " + took + ", as the worker stops", term.Warn
	case s.Err == nil:
		p.n.Completed++
		return "completed in " + took, term.Good
	case s.Now.State == job.Retryable:
		p.n.Retried++
		return fmt.Sprintf("%s, attempt %s, again in %s", reason(s.Err), attempt(s.Now), short(max(0, time.Until(s.Now.NextRetryAt)))), term.Warn
	case s.Now.State == job.Discarded:
		p.n.Discarded++
		return fmt.Sprintf("%s, attempt %s, %s", reason(s.Err), attempt(s.Now), s.Now.State), term.Bad
	}
	p.n.Dropped++ // somebody else has decided meanwhile
	return fmt.Sprintf("%s, and is %s", reason(s.Err), s.Now.State), term.Warn
}

// reason is why an attempt failed, for a line.
func reason(err error) string {
	var f *failed
	switch {
	case err == nil:
		return "completed"
	case !errors.As(err, &f):
		return "failed (" + Plain(err.Error(), maxReason/2) + ")"
	}
	if _, why, ok := strings.Cut(f.message, ": "); ok && why != "" {
		return fmt.Sprintf("failed (%s: %s)", f.what, Plain(why, maxReason/2))
	}
	return "failed (" + f.what + ")"
}

func attempt(j *job.Job) string {
	if j.MaxAttempts < j.Attempt {
		return strconv.Itoa(j.Attempt)
	}
	return fmt.Sprintf("%d of %d", j.Attempt, j.MaxAttempts)
}

// short is a duration as a person reads it.
func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// unmapped tells, once for each type, that there are jobs which this worker cannot do.
func (p *printer) unmapped(jobType string) {
	p.mu.Lock()
	known := p.told[jobType] || len(p.told) >= maxMemory
	if !known {
		p.told[jobType] = true
	}
	p.mu.Unlock()
	if !known {
		p.news("jobs of type %s are left to other workers: no mapping names it; add --exec '%[1]s=COMMAND' or --http '%[1]s=URL'", jobType)
	}
}

func (p *printer) away(err error) {
	p.news("%s; trying until it answers", Plain(err.Error(), maxReason))
}

func (p *printer) back(after time.Duration) {
	p.news("the job server answers again, after %s", short(after))
}

func (p *printer) news(format string, args ...any) {
	fmt.Fprintf(p.o.News, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}
