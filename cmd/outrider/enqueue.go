package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/readfile"
	"github.com/outrider-jobs/outrider/internal/sift"
	"github.com/outrider-jobs/outrider/job"
)

// enqueuing is what the flags of enqueue say.
type enqueuing struct {
	file, batch                  string
	fromLine                     int
	queue, delay, at, id, tenant string
	expires, runLimit            string
	priority, maxAttempts        int
	deadLetter                   bool
	uniqueBy                     []string
	uniqueFor, onConflict        string
	meta, tags                   []string

	quiet, wait bool
	timeout     *time.Duration
}

func (a *app) enqueueCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "enqueue TYPE [ARG]...",
		SuggestFor: []string{"push", "add", "send", "submit"},
		Short:      "Enqueue a job, a batch of them or a workflow, and perhaps wait for its end",
		Long: "Enqueue a job of a type. Each word behind the type is one of its args: JSON where it is JSON, such as 17, true or\n" +
			"'{\"to\":1}', and else a text. One word alone that begins with [ is the whole array of args. A word that begins with -\n" +
			"goes behind a --.\n\n" +
			"With --file what a PUSH, a batch or a workflow has as its body is read from a file, or with - from standard input: an\n" +
			"object with steps, or with jobs and a type, is a workflow; one with jobs alone is a batch. With --batch each line\n" +
			"of a file is a job, stored 1,000 at a time.",
		Example: "  outrider enqueue email.send ada@example.com 17 --queue mail\n" +
			"  outrider enqueue email.send '[\"ada@example.com\"]' --at '2026-05-04 08:00'\n" +
			"  outrider enqueue report.make --wait --timeout 5m\n" +
			"  outrider enqueue --file workflow.json\n" +
			"  outrider enqueue --batch jobs.ndjson",
	}
	e, f := &enqueuing{}, cmd.Flags()
	f.StringVar(&e.file, "file", "", "read the body from this `file`; - is standard input")
	f.StringVar(&e.batch, "batch", "", "read jobs from this `file`, one in each line; - is standard input")
	f.IntVar(&e.fromLine, "from-line", 1, "with --batch: begin at this line, to go on where it failed")
	f.StringVar(&e.queue, "queue", "", "the queue; by itself default")
	f.StringVar(&e.delay, "delay", "", "when to run it, from now: a `span` such as 5m, or PT5M")
	f.StringVar(&e.at, "at", "", "when to run it: a `time` such as 17:30, '2026-05-04 17:30' or RFC 3339")
	f.StringVar(&e.expires, "expires", "", "do not run it after this `time`, or later than 1h from now")
	f.IntVar(&e.priority, "priority", 0, "-100 to 100, higher runs first")
	f.StringVar(&e.id, "id", "", "its `id`, a UUIDv7: sent twice, it is stored once")
	f.IntVar(&e.maxAttempts, "max-attempts", 0, "how often it is tried at most")
	f.BoolVar(&e.deadLetter, "dead-letter", false, "keep it as a dead letter when its attempts are used up")
	f.StringVar(&e.runLimit, "run-limit", "", "how long one attempt may take: a `span` such as 30s")
	f.StringSliceVar(&e.uniqueBy, "unique-by", nil, "refuse it beside a job with the same `dimensions`: type, queue, args, meta")
	f.StringVar(&e.uniqueFor, "unique-for", "", "how long that holds: a `span` such as 1h")
	f.StringVar(&e.onConflict, "on-conflict", "", "what becomes of a duplicate: `reject`, ignore, replace or replace_except_schedule")
	f.StringArrayVar(&e.meta, "meta", nil, "a member of meta, `name=value`; may be repeated")
	f.StringArrayVar(&e.tags, "tag", nil, "a `tag`; may be repeated")
	f.StringVar(&e.tenant, "tenant", "", "the `tenant` that it is of")
	f.BoolVarP(&e.quiet, "quiet", "q", false, "print the id alone; with --wait the result alone")
	f.BoolVar(&e.wait, "wait", false, "follow the job until it ends; exit 0 is completed, 1 discarded or cancelled, 6 --timeout")
	e.timeout = bindTimeout(cmd)
	return a.asks(cmd, func(ctx context.Context, q *question, args []string) error {
		if e.tenant != "" {
			ctx = job.WithTenant(ctx, e.tenant)
		}
		raw, err := e.body(q, cmd, args)
		switch {
		case err != nil:
			return err
		case e.batch != "":
			return q.enqueueLines(ctx, e)
		}
		return q.enqueue(ctx, e, raw)
	})
}

// beside are the flags that may stand beside a file.
var beside = []string{"output", "url", "token-file", "quiet", "wait", "timeout", "tenant", "file", "batch", "from-line"}

// body is what is sent: the file, or what words and flags make of it; of a batch nothing.
func (e *enqueuing) body(q *question, cmd *cobra.Command, args []string) ([]byte, error) {
	if *e.timeout > 0 && !e.wait {
		return nil, usage("--timeout is how long --wait waits; give both")
	}
	if e.file == "" && e.batch == "" {
		if cmd.Flags().Changed("from-line") {
			return nil, usage("--from-line is a line of the file of --batch; give both")
		}
		return e.job(q, args)
	}
	flag := "--file"
	if e.batch != "" {
		flag = "--batch"
	}
	other := changedBut(cmd, beside)
	switch {
	case e.file != "" && e.batch != "":
		return nil, usage("--file is one body, and --batch a job in each line; give one of them")
	case len(args) > 0 || other != "":
		return nil, usage("%s takes what it enqueues from %s, or from words and flags, not from both", q.command, flag)
	case e.batch != "" && e.wait:
		return nil, usage("--wait follows one job; with --batch there are many")
	case e.batch != "":
		return nil, nil
	}
	_, raw, err := readNamed(e.file, q.stdin, readfile.How{Limit: job.MaxWorkflowBytes})
	return raw, err
}

// job is the job that words and flags describe.
func (e *enqueuing) job(q *question, args []string) ([]byte, error) {
	if len(args) < 1 || args[0] == "" {
		return nil, usage("%s needs the type of a job, such as email.send, and perhaps its args; or --file or --batch", q.command)
	}
	list, err := argsFrom(args[1:])
	if err != nil {
		return nil, err
	}
	options, err := e.options(q.clock())
	if err != nil {
		return nil, err
	}
	body := map[string]any{"type": args[0], "args": list}
	if len(options) > 0 {
		body["options"] = options
	}
	if e.id != "" {
		body["id"] = e.id
	}
	if len(e.meta) > 0 {
		if body["meta"], err = metaOf(e.meta); err != nil {
			return nil, err
		}
	}
	return json.Marshal(body)
}

// options are those of the job, as flags have them.
func (e *enqueuing) options(now time.Time) (map[string]any, error) {
	o := map[string]any{}
	if e.queue != "" {
		o["queue"] = e.queue
	}
	if e.priority != 0 {
		o["priority"] = e.priority
	}
	if e.delay != "" && e.at != "" {
		return nil, usage("--delay and --at both say when to run it; give one of them")
	}
	if e.delay != "" {
		d, err := sift.Span(e.delay)
		if err != nil {
			return nil, usage("--delay %w", err)
		}
		o["delay_ms"] = d.Milliseconds()
	}
	for _, t := range []struct{ flag, text, member string }{{"--at", e.at, "scheduled_at"}, {"--expires", e.expires, "expires_at"}} {
		if t.text == "" {
			continue
		}
		at, err := sift.Time(t.text, now, sift.Future)
		if err != nil {
			return nil, usage("%s %w", t.flag, err)
		}
		o[t.member] = job.FormatTime(at)
	}
	if e.runLimit != "" {
		d, err := sift.Span(e.runLimit)
		if err != nil {
			return nil, usage("--run-limit %w", err)
		}
		o["timeout_ms"] = d.Milliseconds()
	}
	retry := map[string]any{}
	if e.maxAttempts != 0 {
		retry["max_attempts"] = e.maxAttempts
	}
	if e.deadLetter {
		retry["on_exhaustion"] = "dead_letter"
	}
	if len(retry) > 0 {
		o["retry"] = retry
	}
	if len(e.tags) > 0 {
		o["tags"] = e.tags
	}
	return o, e.unique(o)
}

func (e *enqueuing) unique(o map[string]any) error {
	if len(e.uniqueBy) == 0 {
		if e.uniqueFor != "" || e.onConflict != "" {
			return usage("--unique-for and --on-conflict belong to --unique-by, such as --unique-by type,args")
		}
		return nil
	}
	unique := map[string]any{"keys": e.uniqueBy}
	if e.uniqueFor != "" {
		d, err := sift.Span(e.uniqueFor)
		if err != nil {
			return usage("--unique-for %w", err)
		}
		unique["period"] = isoSeconds(d)
	}
	if e.onConflict != "" {
		unique["on_conflict"] = e.onConflict
	}
	o["unique"] = unique
	return nil
}

// enqueue sends a body to where it belongs, and prints what was made of it.
func (q *question) enqueue(ctx context.Context, e *enqueuing, raw []byte) error {
	var about struct {
		Type  json.RawMessage `json:"type"`
		Steps json.RawMessage `json:"steps"`
		Jobs  json.RawMessage `json:"jobs"`
	}
	_ = json.Unmarshal(raw, &about) // what cannot be read the server says better
	path := "/jobs"
	switch {
	case about.Steps != nil, about.Jobs != nil && about.Type != nil:
		path = "/workflows"
	case about.Jobs != nil:
		path = "/jobs/batch"
	}
	if e.wait && path != "/jobs" {
		return usage("--wait follows one job, and this is a batch or a workflow")
	}
	var answer enqueued
	if e.wait && (e.quiet || q.format.data()) {
		body, err := q.client.Raw(ctx, http.MethodPost, path, raw)
		if err != nil {
			return asked(err)
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			return fmt.Errorf("the server's answer cannot be read: %w", err)
		}
	} else if err := q.show(ctx, http.MethodPost, path, raw, "", &answer, func(w io.Writer) error { return answer.print(w, e.quiet) }); err != nil {
		return err
	}
	if !e.wait || answer.Job == nil {
		return nil
	}
	silent := *q
	if e.quiet {
		silent.format = asJSON // tells nothing on the way
	}
	j, err := silent.await(ctx, job.ID(answer.Job.ID), *e.timeout)
	switch {
	case err != nil:
		return err
	case e.quiet && j.State == job.Completed:
		_, err := fmt.Fprintf(q.out, "%s\n", flat(j.Result))
		return err
	}
	return q.ended(j)
}

// enqueued is the server's answer.
type enqueued struct {
	Job *struct {
		ID, Type, Queue, State string
	}
	Jobs []struct {
		ID string
	}
	Deduplicated bool
	Count        int
	Workflow     *struct {
		ID, Type, State string
		Steps           int `json:"step_count"`
	}
}

func (e *enqueued) print(w io.Writer, quiet bool) (err error) {
	switch {
	case quiet && e.Workflow != nil:
		_, err = fmt.Fprintln(w, e.Workflow.ID)
	case quiet && e.Job != nil:
		_, err = fmt.Fprintln(w, e.Job.ID)
	case quiet:
		for _, j := range e.Jobs {
			fmt.Fprintln(w, j.ID)
		}
	case e.Workflow != nil:
		_, err = fmt.Fprintf(w, "workflow %s: %s of %s, %s\n", e.Workflow.ID, e.Workflow.Type, count(int64(e.Workflow.Steps), "step", "steps"), e.Workflow.State)
	case e.Job != nil && e.Deduplicated:
		_, err = fmt.Fprintf(w, "job %s was there already: %s in the queue %s, %s\n", e.Job.ID, e.Job.Type, e.Job.Queue, e.Job.State)
	case e.Job != nil:
		_, err = fmt.Fprintf(w, "job %s: %s in the queue %s, %s\n", e.Job.ID, e.Job.Type, e.Job.Queue, e.Job.State)
	default:
		_, err = fmt.Fprintf(w, "%s\n", count(int64(e.Count), "job", "jobs"))
	}
	return err
}
