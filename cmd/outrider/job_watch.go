package main

import (
	"context"
	"encoding/json"
	"errors"
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

func (a *app) jobWatchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "watch ID",
		SuggestFor: []string{"follow", "wait", "tail"},
		Short:      "Follow a job until it ends",
		Long: "Follow a job until it ends: every change of its state and every progress is a line. Ends with 0 when the job\n" +
			"is completed, 1 when it is discarded or cancelled, and 6 when --timeout is over before. With -o ndjson the lines\n" +
			"are events; with json and yaml the job is printed at its end.",
	}
	timeout := bindTimeout(cmd)
	return a.asks(cmd, func(ctx context.Context, q *question, args []string) error {
		id, err := oneID(q, args)
		if err != nil {
			return err
		}
		j, err := q.await(ctx, id, *timeout)
		if err != nil {
			return err
		}
		return q.ended(j)
	})
}

// bindTimeout gives cmd the flag that bounds how long it waits.
func bindTimeout(cmd *cobra.Command) *time.Duration {
	return cmd.Flags().Duration("timeout", 0, "how long to wait, such as `5m`; by itself as long as it takes")
}

// errEnded ends the reading of events.
var errEnded = errors.New("the job has ended")

// await follows a job to its end, and tells what happens on the way. A job that is not
// there any more at its end, because nothing is kept, is told as its last event has it.
func (q *question) await(ctx context.Context, id job.ID, timeout time.Duration) (*job.Job, error) {
	inner, cancel := context.WithCancel(ctx)
	if timeout > 0 {
		inner, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	j, err := q.follow(inner, id)
	switch {
	case err == nil:
		return j, nil
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, &failure{exitInterrupted, fmt.Errorf("job %s was left alone and goes on; to follow it again: outrider job watch %[1]s", id)}
	case ctx.Err() == nil && inner.Err() != nil:
		return nil, &failure{exitTimeout, fmt.Errorf("job %s has not ended within %v, and goes on; to follow it: outrider job watch %[1]s", id, timeout)}
	}
	return nil, gone(id, err)
}

func (q *question) follow(ctx context.Context, id job.ID) (*job.Job, error) {
	span, err := q.client.EventSpan(ctx)
	if job.KindOf(err) == job.Forbidden {
		return q.poll(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	j, err := q.client.Job(ctx, id)
	if err != nil || j.State.Terminal() {
		return j, err
	}
	if !q.format.data() {
		fmt.Fprintf(q.out, "%s  %s in queue %s, attempt %s: %s\n", q.clock().Local().Format(time.TimeOnly), j.Type, j.Queue, tries(j), q.screen.Paint(term.OfState(string(j.State)), stateLine(j, q.clock())))
	}
	err = q.client.Follow(ctx, job.EventFilter{JobID: id, After: span.Last}, func(n job.News) error {
		for _, e := range n.Events {
			if err := q.tell(e); err != nil {
				return err
			}
			if last := endOf(e); last != "" {
				j.State = last
				return errEnded
			}
		}
		if !n.Gap {
			return nil
		}
		now, err := q.client.Job(ctx, id)
		if err == nil && now.State.Terminal() {
			j, err = now, errEnded
		}
		return err
	})
	if err != errEnded {
		return nil, err
	}
	whole, err := q.client.Job(ctx, id)
	if job.KindOf(err) == job.NotFound {
		return j, nil
	}
	return whole, err
}

// endOf is the state in which an event leaves a job that has ended, or empty.
func endOf(e job.Event) job.State {
	switch s := job.State(strings.TrimPrefix(e.Type, "job.")); s {
	case job.Completed, job.Discarded, job.Cancelled:
		return s
	}
	return ""
}

// poll waits for the end of a job as one may who is not shown the events.
func (q *question) poll(ctx context.Context, id job.ID) (*job.Job, error) {
	for {
		o, err := q.client.Outcome(ctx, id, 20*time.Second)
		if err != nil {
			return nil, err
		}
		if o.State.Terminal() {
			return q.client.Job(ctx, id)
		}
	}
}

// tell prints an event as it comes.
func (q *question) tell(e job.Event) error {
	switch {
	case q.format == asNDJSON:
		return q.format.printValue(q.out, e, "")
	case q.format.data():
		return nil
	}
	name := strings.TrimPrefix(e.Type, "job.")
	text := eventText(e)
	if text != "" {
		text = "  " + text
	}
	_, err := fmt.Fprintf(q.out, "%s  %s%s\n", e.Time.Local().Format(time.TimeOnly), q.screen.Paint(styleOf(name), name), wording.Printable(text))
	return err
}

// styleOf is the style of an event, by its name without what it is about.
func styleOf(name string) term.Style {
	switch name {
	case "started", "progress":
		return term.Busy
	case "failed", "retrying", "expired":
		return term.Warn
	}
	return term.OfState(name)
}

// eventText is what an event says beside its name, for a person.
func eventText(e job.Event) string {
	var d struct {
		Attempt   int         `json:"attempt"`
		Worker    string      `json:"worker_id"`
		Error     *sift.Error `json:"error"`
		Delay     int64       `json:"retry_delay_ms"`
		Took      *int64      `json:"duration_ms"`
		Progress  *float64    `json:"progress"`
		Message   string      `json:"message"`
		Scheduled string      `json:"scheduled_at"`
		Reason    string      `json:"reason"`
		By        string      `json:"cancelled_by"`
		State     string      `json:"state"`
	}
	_ = json.Unmarshal(e.Data, &d) // a member of another kind is not shown
	var parts []string
	add := func(form string, v any) { parts = append(parts, fmt.Sprintf(form, v)) }
	if d.Attempt > 0 {
		add("attempt %d", d.Attempt)
	}
	if d.Worker != "" {
		add("worker %s", d.Worker)
	}
	if d.Progress != nil {
		add("%.0f%%", *d.Progress*100)
	}
	if d.Message != "" {
		add("%s", d.Message)
	}
	if d.Took != nil {
		add("took %v", time.Duration(*d.Took)*time.Millisecond)
	}
	if d.Delay > 0 {
		add("again in %v", time.Duration(d.Delay)*time.Millisecond)
	}
	if d.Scheduled != "" {
		add("for %s", d.Scheduled)
	}
	if d.By != "" {
		add("by %s", d.By)
	}
	if d.Reason != "" {
		add("because %s", d.Reason)
	}
	if d.Error != nil {
		add("%s", oneLine(d.Error.String()))
	}
	return strings.Join(parts, ", ")
}

// ended prints how a job has ended. What is not completed is an error.
func (q *question) ended(j *job.Job) error {
	switch {
	case q.format == asNDJSON:
	case q.format.data():
		if err := q.format.print(q.out, encoded(j), ""); err != nil {
			return err
		}
	case j.State == job.Completed && len(j.Result) == 0:
		fmt.Fprintf(q.out, "completed, without a result\n")
	case j.State == job.Completed:
		if err := q.printBlock("result", j.Result); err != nil {
			return err
		}
	}
	if j.State == job.Completed {
		return nil
	}
	why := ""
	if e := sift.Latest(j).String(); e != "" {
		why = ": " + wording.Printable(oneLine(e))
	}
	after := ""
	if j.Attempt > 0 {
		after = " after " + count(int64(j.Attempt), "attempt", "attempts")
	}
	return fmt.Errorf("job %s is %s%s%s; see outrider job get %[1]s", j.ID, j.State, after, why)
}

func (a *app) jobHistoryCommand() *cobra.Command {
	return a.watches(&cobra.Command{
		Use:        "history ID",
		SuggestFor: []string{"events", "log", "trace"},
		Short:      "Show what has happened to a job, the oldest first",
	}, func(ctx context.Context, q *question, args []string) error {
		id, err := oneID(q, args)
		if err != nil {
			return err
		}
		if q.format.data() {
			err := q.raw(ctx, http.MethodGet, fmt.Sprintf("/jobs/%s/history?limit=%d", url.PathEscape(string(id)), job.HistoryLimit), "events")
			if job.KindOf(err) == job.NotFound {
				return gone(id, err)
			}
			return err
		}
		events, err := q.client.History(ctx, id)
		if err != nil {
			return gone(id, err)
		}
		return q.printPast(events)
	})
}

var pastColumns = []term.Column{{Head: "AT"}, {Head: "EVENT", Style: styleOf}, {Head: "WHAT", Min: 10}}

func (q *question) printPast(events []job.Event) error {
	if len(events) == 0 {
		_, err := io.WriteString(q.out, "nothing is kept of what has happened to it\n")
		return err
	}
	var rows [][]string
	for _, e := range events {
		rows = append(rows, []string{job.FormatTime(e.Time), strings.TrimPrefix(e.Type, "job."), dash(eventText(e))})
	}
	return q.screen.Table(q.out, pastColumns, rows)
}
