package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/sift"
	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/internal/wording"
	"github.com/outrider-jobs/outrider/job"
)

// eventAsk is which events are asked for.
type eventAsk struct {
	types, queues, kinds []string
	id                   string
	since                string
	limit                int
	follow               bool
}

func (a *app) eventsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "events",
		Aliases:    []string{"event"},
		SuggestFor: []string{"log", "logs", "tail"},
		Short:      "Show what has happened, and with --follow what happens",
		Long: "Shows the newest events of the server, the oldest of them first, and with --follow each that comes behind\n" +
			"them as it happens, until Ctrl-C. A server that is gone is waited for, and no event is missed then: the\n" +
			"stream goes on behind the last one that was shown. As json or ndjson each event is a line.",
		Example: "  outrider events --type 'job.*' --queue mail\n  outrider events --follow --type job.failed,job.discarded\n  outrider events -f -o ndjson | jq .data",
		Args:    noArgs,
	}
	var ask eventAsk
	f := cmd.Flags()
	f.BoolVarP(&ask.follow, "follow", "f", false, "go on with what happens, until Ctrl-C")
	f.StringSliceVar(&ask.types, "type", nil, "events of these types, such as job.failed or 'job.*'")
	f.StringSliceVar(&ask.queues, "queue", nil, "events of jobs in these queues")
	f.StringSliceVar(&ask.kinds, "job-type", nil, "events of jobs of these types, or, with * at the end, of all types with this prefix")
	f.StringVar(&ask.id, "job", "", "events of the job with this id")
	f.StringVar(&ask.since, "since", "", "events of the last `1h`, or since a time")
	f.IntVarP(&ask.limit, "limit", "n", 50, "how many of the newest, 0 to 1000; 0 only with --follow")
	return a.asks(cmd, func(ctx context.Context, q *question, _ []string) error {
		filter, err := ask.filter(q.clock())
		if err != nil {
			return err
		}
		return q.events(ctx, ask, filter)
	})
}

func (ask eventAsk) filter(now time.Time) (f job.EventFilter, err error) {
	least := 1
	if ask.follow {
		least = 0
	}
	if ask.limit < least || ask.limit > 1000 {
		return f, usage("--limit must be from %d to 1000, got %d", least, ask.limit)
	}
	f = job.EventFilter{Types: ask.types, Queues: ask.queues, JobTypes: ask.kinds, JobID: job.ID(strings.ToLower(ask.id))}
	if ask.id != "" && !job.ValidID(string(f.JobID)) {
		return f, usage("--job must be the id of a job, got %.80q", ask.id)
	}
	for _, t := range ask.types {
		if t == "" || strings.Contains(strings.TrimSuffix(t, "*"), "*") {
			return f, usage("--type must be the type of an event, such as job.failed, or, with * at the end, a prefix, got %q", t)
		}
	}
	f.Since, err = sinceWhen(ask.since, now)
	return f, err
}

// sinceWhen reads --since; what is empty is the zero time.
func sinceWhen(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := sift.Time(text, now, sift.Past)
	if err != nil {
		return t, usage("--since %w", err)
	}
	return t, nil
}

// events shows the newest events, and then those that follow.
func (q *question) events(ctx context.Context, ask eventAsk, f job.EventFilter) error {
	span, err := q.client.EventSpan(ctx)
	if err != nil {
		return asked(err)
	}
	es, err := q.newest(ctx, f, span, ask.limit)
	if err != nil {
		return asked(err)
	}
	if !ask.follow {
		return q.printEvents(es, len(f.Types)+len(f.Queues)+len(f.JobTypes) > 0 || f.JobID != "" || !f.Since.IsZero())
	}
	for _, e := range es {
		if err := q.printEvent(e); err != nil {
			return err
		}
	}
	f.Since, f.After = time.Time{}, span.Last
	err = q.client.FollowReporting(ctx, f, func(n job.News) error {
		if n.Gap {
			fmt.Fprintf(q.stderr, "outrider: events are missing here: they were removed before they could be shown\n")
		}
		for _, e := range n.Events {
			if err := q.printEvent(e); err != nil {
				return err
			}
		}
		return nil
	}, func(err error) {
		if err != nil {
			fmt.Fprintf(q.stderr, "outrider: %s; waiting for it\n", mask(err, nil))
		} else {
			fmt.Fprintln(q.stderr, "outrider: the server is there again")
		}
	})
	if ctx.Err() != nil {
		return nil // Ctrl-C is how one leaves it
	}
	return asked(err)
}

// maxEventsBack is how far back the log is looked through for events that are rare.
const maxEventsBack = 100_000

// newest are the newest events up to the end of span, at most n, in their order. The log
// is read forward, so it is looked through from further and further back.
func (q *question) newest(ctx context.Context, f job.EventFilter, span job.EventSpan, n int) ([]job.Event, error) {
	if n == 0 {
		return nil, nil
	}
	for back := int64(n); ; back *= 8 {
		back = min(back, maxEventsBack)
		f.After, f.Limit = max(span.Last-back, span.First-1, 0), 1000
		var found []job.Event
		for {
			es, err := q.client.Events(ctx, f)
			if err != nil {
				return nil, err
			}
			for _, e := range es {
				if e.Seq <= span.Last {
					found = append(found, e)
				}
			}
			found = found[max(0, len(found)-n):]
			if len(es) == 0 || es[len(es)-1].Seq >= span.Last {
				break
			}
			f.After = es[len(es)-1].Seq
		}
		switch {
		case len(found) >= n || span.Last-back < span.First:
			return found, nil
		case back == maxEventsBack:
			fmt.Fprintf(q.stderr, "outrider: the newest %d events were looked at, and no older ones\n", back)
			return found, nil
		}
	}
}

// eventJSON is an event as the server's list has it.
func eventJSON(e job.Event) []byte { return wire.AppendEvent(nil, e) }

var eventColumns = []term.Column{{Head: "TIME"}, {Head: "EVENT", Style: ofEvent}, {Head: "TYPE", Min: 8, Drop: 1}, {Head: "QUEUE", Min: 6, Drop: 3},
	{Head: "JOB", Drop: 4}, {Head: "DETAIL", Min: 10, Drop: 2}}

// roomForIDs is how wide a screen must be for the ids of jobs in lines that are followed.
const roomForIDs = 110

// eventTime is how the time of an event is written for a person: as their clock has it.
const eventTime = "15:04:05.000"

// ofEvent is the style of an event: that of the state that it leads to.
func ofEvent(kind string) term.Style {
	_, what, _ := strings.Cut(kind, ".")
	switch what {
	case "failed", "step_failed", "job_failed":
		return term.Bad
	case "retrying":
		return term.Warn
	case "started":
		return term.Busy
	}
	return term.OfState(what)
}

func (q *question) printEvents(es []job.Event, chosen bool) error {
	if q.format.data() {
		list := make([][]byte, len(es))
		for i, e := range es {
			list[i] = eventJSON(e)
		}
		return q.format.print(q.out, slices.Concat([]byte(`{"events":[`), bytes.Join(list, []byte(",")), []byte("]}")), "events")
	}
	if len(es) == 0 {
		text := "there is no event"
		if chosen {
			text = "no event is like that; outrider events shows the newest of all"
		}
		_, err := fmt.Fprintln(q.out, text)
		return err
	}
	var rows [][]string
	for _, e := range es {
		rows = append(rows, []string{e.Time.Local().Format(eventTime), e.Type, dash(e.JobType), dash(e.Queue), dash(string(e.JobID)), eventDetail(e)})
	}
	return q.screen.Table(q.out, eventColumns, rows)
}

// printEvent shows an event of those that are followed, in a line of its own. Its columns
// do not depend on others, as those are not known yet.
func (q *question) printEvent(e job.Event) error {
	switch q.format {
	case asTable:
	case asYAML:
		if _, err := fmt.Fprintln(q.out, "---"); err != nil {
			return err
		}
		return asYAML.print(q.out, eventJSON(e), "")
	default:
		return asNDJSON.print(q.out, eventJSON(e), "")
	}
	parts := []string{e.JobType, e.Queue, string(e.JobID), eventDetail(e)}
	if q.screen.Width > 0 && q.screen.Width < roomForIDs {
		parts[2] = ""
	}
	rest := strings.Repeat(" ", max(0, eventWide-term.Width(e.Type)))
	for _, part := range parts {
		if part != "" {
			rest += "  " + wording.Printable(part)
		}
	}
	if q.screen.Width > 0 {
		rest = term.Cut(rest, q.screen.Width-len(eventTime)-2-term.Width(e.Type))
	}
	_, err := fmt.Fprintln(q.out, strings.TrimRight(e.Time.Local().Format(eventTime)+"  "+q.screen.Paint(ofEvent(e.Type), e.Type)+rest, " "))
	return err
}

// eventWide is how many columns the type of an event takes where those that follow are
// not known: that of the longest that is frequent.
const eventWide = 16
