package handwork

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/job"
)

// TestLinesOfJobs holds the line of each ending.
func TestLinesOfJobs(t *testing.T) {
	t.Parallel()
	now := func(state job.State, attempt, most int, in time.Duration) *job.Job {
		return &job.Job{Envelope: job.Envelope{MaxAttempts: most}, Status: job.Status{State: state, Attempt: attempt, NextRetryAt: time.Now().Add(in)}}
	}
	fail := &failed{kind: "exit_1", what: "exit 1", message: "the command ended with exit code 1: " + strings.Repeat("x", 400)}
	bare := &failed{kind: "exit_1", what: "exit 1", message: "the command ended with exit code 1"}
	late := &failed{kind: "timeout", what: "time limit", message: "m", err: context.DeadlineExceeded}
	for want, s := range map[string]client.Settled{
		"completed in 32ms": {Took: 32 * time.Millisecond},
		"completed in 1m5s": {Took: 65*time.Second + 4*time.Millisecond},
		"failed (exit 1: " + strings.Repeat("x", 147) + "…), attempt 2 of 3, again in 4.0s": {Err: fail, Now: now(job.Retryable, 2, 3, 4*time.Second+20*time.Millisecond)},
		"failed (exit 1), attempt 3 of 3, discarded":                                        {Err: client.NonRetryable(bare), Now: now(job.Discarded, 3, 3, 0)},
		"failed (exit 1), attempt 4, again in 0ms":                                          {Err: bare, Now: now(job.Retryable, 4, 3, -time.Hour)},
		"failed (exit 1), and is completed":                                                 {Err: bare, Now: now(job.Completed, 1, 3, 0)},
		"failed (no memory left), attempt 1 of 3, again in 1h0m0s":                          {Err: errors.New("no\nmemory left"), Now: now(job.Retryable, 1, 3, time.Hour)},
		"cancelled, stopped after 2.0s":                                                     {Err: bare, Dropped: client.ErrCancelled, Took: 2 * time.Second},
		"no longer this worker's, stopped after 2.0s":                                       {Err: bare, Dropped: client.ErrLeaseLost, Took: 2 * time.Second},
		"given back after 2.0s, as the worker stops":                                        {Err: bare, GivenBack: true, Took: 2 * time.Second},
		"completed, but the server did not take that: gone [31m":                            {Refused: errors.New("gone\x1b[31m")},
		"failed (time limit), as the server has seen already":                               {Err: late, Refused: job.Errorf(job.Conflict, "x")},
	} {
		var b strings.Builder
		p := newPrinter(Options{Lines: &b})
		s.Job = &job.Job{Envelope: job.Envelope{Type: "mail.send", ID: "0197"}}
		p.settled(s)
		got := regexp.MustCompile(`^\d\d:\d\d:\d\d  mail\.send  0197  (.*)\n$`).FindStringSubmatch(b.String())
		if got == nil || got[1] != want {
			t.Errorf("got %q, want %q", b.String(), want)
		}
		if n := p.tally(); n.Completed+n.Retried+n.Discarded+n.Dropped+n.GivenBack != 1 {
			t.Errorf("%s: counted %+v", want, n)
		}
		b.Reset()
		newPrinter(Options{Lines: &b, Screen: term.Screen{Color: true}}).settled(s)
		if !regexp.MustCompile(`  \x1b\[3[123]m` + regexp.QuoteMeta(want) + `\x1b\[0m\n$`).MatchString(b.String()) {
			t.Errorf("in colour: %q", b.String())
		}
	}
}

func TestUnmappedTypesAreToldOfOnce(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	p := newPrinter(Options{News: &b})
	for i := range 2 * maxMemory {
		for range 3 {
			p.unmapped(fmt.Sprintf("a.b%d", i))
		}
	}
	if n := strings.Count(b.String(), "\n"); n != maxMemory {
		t.Errorf("%d lines, want %d", n, maxMemory)
	}
}
