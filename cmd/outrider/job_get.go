package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/sift"
	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/internal/wording"
	"github.com/outrider-jobs/outrider/job"
)

// oneID is the id of the job that the only word names.
func oneID(q *question, args []string) (job.ID, error) {
	if len(args) != 1 {
		return "", usage("%s needs the id of one job; see outrider job ls", q.command)
	}
	return theID(args[0])
}

// theID reads the id of a job. An id in upper case is the same one.
func theID(word string) (job.ID, error) {
	id := strings.ToLower(strings.TrimSpace(word))
	if !job.ValidID(id) {
		return "", usage("%.140q is no id of a job: those have 36 characters, as in 0197b2a4-1f3c-7d52-9a60-3c5e8f7a1b2c; see outrider job ls", word)
	}
	return job.ID(id), nil
}

// gone says of a job that is not there why that may be.
func gone(id job.ID, err error) error {
	if job.KindOf(err) != job.NotFound {
		return asked(err)
	}
	return notFound("there is no job %s: jobs that have ended are removed after a while; see outrider job ls", id)
}

func (a *app) jobGetCommand() *cobra.Command {
	return a.watches(&cobra.Command{
		Use:        "get ID",
		SuggestFor: []string{"show", "info", "describe", "status"},
		Short:      "Show a job: its args, its attempts and errors, its result, and what to do next",
	}, func(ctx context.Context, q *question, args []string) error {
		id, err := oneID(q, args)
		if err != nil {
			return err
		}
		return q.get(ctx, id)
	})
}

// get prints one job.
func (q *question) get(ctx context.Context, id job.ID) error {
	if q.format.data() {
		answer, err := q.client.Raw(ctx, http.MethodGet, "/jobs/"+url.PathEscape(string(id)), nil)
		if err != nil {
			return gone(id, err)
		}
		var whole struct {
			Job json.RawMessage `json:"job"`
		}
		if err := json.Unmarshal(answer, &whole); err != nil || whole.Job == nil {
			return fmt.Errorf("the server's answer cannot be read: there is no job in it")
		}
		return q.format.print(q.out, whole.Job, "")
	}
	j, err := q.client.Job(ctx, id)
	if err != nil {
		return gone(id, err)
	}
	return q.printJob(j)
}

// printJob writes all that a person may want to know of a job.
func (q *question) printJob(j *job.Job) error {
	now := q.clock()
	facts := []term.Fact{
		{Name: "job", Text: string(j.ID), Style: term.Bold},
		{Name: "type", Text: j.Type},
		{Name: "queue", Text: j.Queue},
		{Name: "state", Text: stateLine(j, now), Style: term.OfState(string(j.State))},
		{Name: "attempt", Text: fmt.Sprintf("%d of %d", j.Attempt, max(j.MaxAttempts, 1))},
	}
	add := func(name, text string) {
		if text != "" {
			facts = append(facts, term.Fact{Name: name, Text: text})
		}
	}
	at := func(name string, t time.Time) {
		if !t.IsZero() {
			add(name, job.FormatTime(t)+" ("+term.Ago(t, now)+")")
		}
	}
	if j.Priority != 0 {
		add("priority", fmt.Sprint(j.Priority))
	}
	at("created", j.CreatedAt)
	at("scheduled", j.ScheduledAt)
	at("enqueued", j.EnqueuedAt)
	at("started", j.StartedAt)
	at("ended", j.FinishedAt)
	at("expires", j.ExpiresAt)
	if j.Lease.Worker != "" {
		add("worker", j.Lease.Worker)
	}
	if p := j.Progress; p != nil {
		add("progress", progressLine(p))
	}
	if j.Flow != nil {
		add("workflow", fmt.Sprintf("%s, step %s", j.Flow.Workflow, j.Flow.Step))
	}
	add("unique", flat(j.Unique))
	add("dedup", flat(j.Deduplication))
	add("rate limit", flat(j.RateLimit))
	add("retry", flat(j.Retry))
	if string(j.Meta) != "{}" {
		add("meta", flat(j.Meta))
	}
	add("more", flat(j.Extra))
	if err := q.screen.Facts(q.out, facts); err != nil {
		return err
	}
	if err := q.printBlock("args", j.Args); err != nil {
		return err
	}
	if err := q.printErrors(j, now); err != nil {
		return err
	}
	if err := q.printBlock("result", j.Result); err != nil {
		return err
	}
	return q.next(j)
}

// stateLine is the state of a job, and since or until when it has it.
func stateLine(j *job.Job, now time.Time) string {
	switch t := term.Ago(when(j), now); j.State {
	case job.Scheduled:
		return "scheduled, runs " + t
	case job.Retryable:
		return "retryable, runs again " + t
	case job.Pending:
		return "pending, until it is activated"
	default:
		return fmt.Sprintf("%s, %s", j.State, t)
	}
}

// progressLine is what a worker told last.
func progressLine(p *job.Progress) string {
	var parts []string
	if p.Measured {
		parts = append(parts, fmt.Sprintf("%.0f%%", p.Fraction*100))
	}
	if p.Message != "" {
		parts = append(parts, p.Message)
	}
	if len(parts) == 0 {
		parts = append(parts, flat(p.Data))
	}
	return strings.Join(parts, " ")
}

// flat is JSON in one line.
func flat(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || json.Compact(&b, raw) != nil {
		return ""
	}
	return b.String()
}

// maxBlock is how many bytes of JSON a person is shown; -o json has all of it.
const maxBlock = 8 << 10

// printBlock writes JSON under a head, so that it can be read.
func (q *question) printBlock(head string, raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "  ", "  ") != nil {
		return nil
	}
	text, cut := b.String(), ""
	if flat := flat(raw); term.Width(flat) <= 76 {
		text = flat
	}
	if len(text) > maxBlock {
		text, cut = text[:maxBlock], fmt.Sprintf("\n  … %s bytes in all; -o json shows them", thousands(int64(len(raw))))
	}
	_, err := fmt.Fprintf(q.out, "\n%s\n  %s%s\n", q.screen.Paint(term.Bold, head), printableLines(text), cut)
	return err
}

// printableLines is text in which but line feeds control anything.
func printableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = wording.Printable(line)
	}
	return strings.Join(lines, "\n")
}

// attempt is one error of the history of a job.
type attempt struct {
	sift.Error
	Attempt   int       `json:"attempt"`
	At        time.Time `json:"occurred_at"`
	Backtrace []string  `json:"backtrace"`
}

// shownFrames is how many lines of a backtrace a person is shown.
const shownFrames = 8

// printErrors writes the attempts that failed, the newest first.
func (q *question) printErrors(j *job.Job, now time.Time) error {
	var all []attempt
	if json.Unmarshal(j.Errors, &all) != nil || len(all) == 0 {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n", q.screen.Paint(term.Bold, "errors"))
	for i := len(all) - 1; i >= 0; i-- {
		e := all[i]
		fmt.Fprintf(&b, "  attempt %d, %s: %s\n", e.Attempt, term.Ago(e.At, now), q.screen.Paint(term.Bad, indented(e.String())))
		if i < len(all)-1 {
			continue // the trace of the latest is the one that is wanted
		}
		for n, frame := range e.Backtrace {
			if n == shownFrames {
				fmt.Fprintf(&b, "      … and %d lines more; -o json shows them\n", len(e.Backtrace)-n)
				break
			}
			fmt.Fprintf(&b, "      %s\n", wording.Printable(frame))
		}
	}
	_, err := io.WriteString(q.out, b.String())
	return err
}

// next says what a person may want to do with a job as it is.
func (q *question) next(j *job.Job) error {
	var do []string
	switch j.State {
	case job.Discarded:
		do = []string{"outrider job retry " + string(j.ID), "outrider job rm " + string(j.ID)}
	case job.Retryable:
		do = []string{"outrider job retry " + string(j.ID), "outrider job cancel " + string(j.ID)}
	case job.Pending:
		do = []string{"outrider job activate " + string(j.ID), "outrider job cancel " + string(j.ID)}
	case job.Completed, job.Cancelled:
		do = []string{"outrider job history " + string(j.ID), "outrider job rm " + string(j.ID)}
	default:
		do = []string{"outrider job watch " + string(j.ID), "outrider job cancel " + string(j.ID)}
	}
	_, err := fmt.Fprintf(q.out, "\n%s\n  %s\n", q.screen.Paint(term.Bold, "next"), strings.Join(do, "\n  "))
	return err
}
