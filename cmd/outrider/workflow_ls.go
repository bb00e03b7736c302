package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/internal/wording"
	"github.com/outrider-jobs/outrider/job"
)

// workflowStates are those that --state takes.
var workflowStates = []string{string(job.WorkflowRunning), string(job.WorkflowCompleted), string(job.WorkflowFailed), string(job.WorkflowCancelled)}

// maxLooked is how many workflows are looked at for a name or an age that few have.
const maxLooked = 10_000

// flowFilter is which workflows are listed. The server knows of state and cursor; the
// rest is looked for here, page by page.
type flowFilter struct {
	state, name, cursor string
	since               time.Time
	limit               int
}

func (a *app) workflowListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls", SuggestFor: []string{"list"}, Short: "List workflows, the newest first", Args: noArgs}
	var f flowFilter
	flags := cmd.Flags()
	flags.StringVar(&f.state, "state", "", "workflows in this state: running, completed, failed or cancelled")
	flags.StringVar(&f.name, "name", "", "workflows of this name, or, with * at the end, of all names with this prefix")
	since := flags.String("since", "", "workflows that were started in the last `1h`, or since a time")
	flags.IntVarP(&f.limit, "limit", "n", 50, "how many at most, 1 to 200")
	flags.StringVar(&f.cursor, "cursor", "", "go on behind a page that said so")
	return a.watches(cmd, func(ctx context.Context, q *question, _ []string) error {
		if f.limit < 1 || f.limit > 200 {
			return usage("--limit must be from 1 to 200, got %d", f.limit)
		}
		if err := oneOf("--state", f.state, workflowStates); err != nil {
			return err
		}
		f := f // each look of --watch has a now of its own
		var err error
		if f.since, err = sinceWhen(*since, q.clock()); err != nil {
			return err
		}
		page, err := q.workflows(ctx, f)
		if err != nil {
			return err
		}
		if q.format.data() {
			return q.format.printValue(q.out, page, "workflows")
		}
		return q.printWorkflows(page, f)
	})
}

// oneOf is nil for an empty word and for one of those that there are.
func oneOf(flag, word string, words []string) error {
	for _, w := range words {
		if w == word {
			return nil
		}
	}
	if word == "" {
		return nil
	}
	if near := wording.Nearest(word, words); near != "" {
		return usage("%s must be one of %s, got %q; did you mean %s?", flag, strings.Join(words, ", "), word, near)
	}
	return usage("%s must be one of %s, got %.80q", flag, strings.Join(words, ", "), word)
}

// flowPage is workflows as the server tells of them.
type flowPage struct {
	Workflows []json.RawMessage `json:"workflows"`
	Total     *int64            `json:"total,omitempty"` // of all pages; not known where something is looked for here
	Next      string            `json:"next_cursor,omitempty"`
}

// flowLine is what a line of the list says.
type flowLine struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Kind      string    `json:"type"`
	State     string    `json:"state"`
	Total     int       `json:"steps_total"`
	Completed int       `json:"steps_completed"`
	Failed    int       `json:"steps_failed"`
	Created   time.Time `json:"created_at"`
	Ended     time.Time `json:"completed_at"`
	Stopped   time.Time `json:"cancelled_at"`
}

// workflows asks for pages until there are enough.
func (q *question) workflows(ctx context.Context, f flowFilter) (*flowPage, error) {
	page := &flowPage{Workflows: []json.RawMessage{}, Next: f.cursor}
	for looked := 0; ; {
		params := url.Values{"limit": {strconv.Itoa(f.limit - len(page.Workflows))}}
		if f.local() {
			params.Set("limit", "200")
		}
		for name, v := range map[string]string{"state": f.state, "cursor": page.Next} {
			if v != "" {
				params.Set(name, v)
			}
		}
		raw, err := q.client.Raw(ctx, http.MethodGet, "/workflows?"+params.Encode(), nil)
		if err != nil {
			return nil, asked(err)
		}
		var got struct {
			flowPage
			Pagination struct {
				Next string `json:"next_cursor"`
			} `json:"pagination"`
		}
		if err := json.Unmarshal(raw, &got); err != nil {
			return nil, fmt.Errorf("the server's answer cannot be read: %w", err)
		}
		page.Next = got.Pagination.Next
		if !f.local() {
			page.Workflows, page.Total = got.Workflows, got.Total
			return page, nil
		}
		older, err := f.keep(page, got.Workflows)
		looked += len(got.Workflows)
		switch {
		case err != nil:
			return nil, err
		case page.Next == "" || older || len(page.Workflows) >= f.limit:
			return page, nil
		case looked >= maxLooked:
			fmt.Fprintf(q.stderr, "the newest %d workflows were looked at; for older ones give --cursor %s\n", looked, page.Next)
			return page, nil
		}
	}
}

// local reports whether something is looked for that the server does not know of.
func (f flowFilter) local() bool { return f.name != "" || !f.since.IsZero() }

// keep adds those of a page that are looked for. older is that all of them began before
// that: the newest come first.
func (f flowFilter) keep(page *flowPage, all []json.RawMessage) (older bool, err error) {
	older = len(all) > 0
	for i, raw := range all {
		var l flowLine
		if err := json.Unmarshal(raw, &l); err != nil {
			return false, fmt.Errorf("the server's answer cannot be read: %w", err)
		}
		old := l.Created.Before(f.since)
		older = older && old
		prefix, open := strings.CutSuffix(f.name, "*")
		if old || f.name != "" && l.Name != f.name && !(open && strings.HasPrefix(l.Name, prefix)) {
			continue
		}
		if page.Workflows = append(page.Workflows, raw); len(page.Workflows) == f.limit {
			if i < len(all)-1 {
				page.Next = l.ID // the rest of this page is for the next
			}
			return false, nil
		}
	}
	return older, nil
}

var flowColumns = []term.Column{{Head: "WORKFLOW"}, {Head: "NAME", Min: 8}, {Head: "KIND", Drop: 1}, {Head: "STATE", Style: term.OfState},
	{Head: "STEPS", Right: true, Drop: 2}, {Head: "STARTED", Drop: 3}}

func (q *question) printWorkflows(page *flowPage, f flowFilter) error {
	if len(page.Workflows) == 0 {
		text := "there is no workflow; start one with: outrider enqueue --file FILE"
		if f != (flowFilter{limit: f.limit}) {
			text = "no workflow is like that; outrider workflow ls lists all"
		}
		_, err := fmt.Fprintln(q.out, text)
		return err
	}
	now := q.clock()
	var rows [][]string
	for _, raw := range page.Workflows {
		var l flowLine
		if err := json.Unmarshal(raw, &l); err != nil {
			return fmt.Errorf("the server's answer cannot be read: %w", err)
		}
		steps := fmt.Sprintf("%d/%d", l.Completed, l.Total)
		if l.Failed > 0 {
			steps += fmt.Sprintf(" ✗%d", l.Failed)
		}
		rows = append(rows, []string{l.ID, l.Name, l.Kind, l.State, steps, term.About(l.Created, now)})
	}
	if err := q.screen.Table(q.out, flowColumns, rows); err != nil || page.Next == "" {
		return err
	}
	_, err := fmt.Fprintf(q.out, "\nmore with: outrider workflow ls --cursor %s\n", page.Next)
	return err
}
