package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/readfile"
	"github.com/outrider-jobs/outrider/internal/wording"
	"github.com/outrider-jobs/outrider/job"
)

func (a *app) uniqueCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "unique",
		Short: "See why a job counts as a duplicate, and free its key",
	})
	cmd.AddCommand(a.uniqueExplainCommand(), a.uniqueListCommand(), a.uniqueReleaseCommand())
	return cmd
}

func (a *app) uniqueExplainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain FILE|-",
		Short: "Explain a job's unique policy, and show the job it would collide with",
		Long: "Reads a job as it would be enqueued, from a file or with - from standard input, and shows what its\n" +
			"unique policy makes of it: the fingerprint, the canonical JSON that is hashed, the existing job that\n" +
			"it would collide with now, and when that one frees its key. The result is that of the unique\n" +
			"policy alone, before middleware: custom ids and deduplication keys are not looked at. Nothing is stored.",
	}
	ask := a.asking(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage("%s needs one file with a job in JSON, or - for standard input", cmd.CommandPath())
		}
		q, err := ask()
		if err != nil {
			return err
		}
		name, raw, err := a.readJob(args[0])
		if err != nil {
			return err
		}
		var x explanation
		err = q.show(cmd.Context(), http.MethodPost, "/unique/explain", raw, &x, x.print)
		if k := job.KindOf(err); k == job.Invalid || k == job.BadRetry || k == job.Malformed {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return err
	}
	return cmd
}

// readJob reads a file of JSON, and returns also what messages call it. What is
// wrong with its text is said with the place.
func (a *app) readJob(name string) (shown string, raw []byte, err error) {
	if shown = name; name == "-" {
		shown = "standard input"
		raw, err = io.ReadAll(io.LimitReader(a.stdin, job.MaxJobBytes+1))
	} else {
		raw, err = readfile.File(name, readfile.How{Limit: job.MaxJobBytes + 1, Devices: true})
	}
	switch {
	case err != nil:
		return shown, nil, fmt.Errorf("read the job: %w", err)
	case len(raw) > job.MaxJobBytes:
		return shown, nil, fmt.Errorf("%s is larger than %d bytes, the limit for a job", shown, job.MaxJobBytes)
	}
	return shown, raw, checkText(shown, raw)
}

// explanation is the server's answer to explain.
type explanation struct {
	Dimensions  []string `json:"dimensions"`
	Canonical   string   `json:"canonical"`
	Fingerprint string   `json:"fingerprint"`
	Answer      string   `json:"answer"`
	Policy      struct {
		OnConflict string `json:"on_conflict"`
	} `json:"policy"`
	Held *struct {
		JobID string    `json:"job_id"`
		Type  string    `json:"type"`
		Queue string    `json:"queue"`
		State string    `json:"state"`
		Since time.Time `json:"since"`
		Frees string    `json:"frees_when"`
	} `json:"held_by"`
}

// answers says what becomes of the job, in the words of a person.
var answers = map[string]string{
	"created":   "stored: no job is a duplicate of it",
	"rejected":  "refused with a conflict, and the job that holds the key stays",
	"ignored":   "not stored: the job that holds the key is returned",
	"replaced":  "stored, and the job that holds the key is cancelled",
	"rewritten": "not stored: the job that holds the key gets its args and meta",
}

func (x *explanation) print(w io.Writer) error {
	becomes := answers[x.Answer]
	if x.Answer == "created" && x.Held != nil {
		becomes = "stored beside the matching job, which has finished"
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, value string) { fmt.Fprintf(t, "%s\t%s\n", name, wording.Printable(value)) }
	row("dimensions", strings.Join(x.Dimensions, ", "))
	row("canonical", x.Canonical)
	row("fingerprint", x.Fingerprint)
	if x.Held == nil {
		row("held by", "no job")
	} else {
		row("held by", fmt.Sprintf("%s (%s in queue %s)", x.Held.JobID, x.Held.Type, x.Held.Queue))
		row("since", job.FormatTime(x.Held.Since))
		row("state", x.Held.State)
		row("frees", x.Held.Frees)
	}
	row("an enqueue", fmt.Sprintf("would be %s (on_conflict %s)", becomes, x.Policy.OnConflict))
	return t.Flush()
}

func (a *app) uniqueListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the unique keys that jobs hold, those of the newest jobs first",
		Args:  noArgs,
	}
	var queue, kind string
	var states []string
	var limit int
	f := cmd.Flags()
	f.StringVar(&queue, "queue", "", "keys of jobs in this queue")
	f.StringVar(&kind, "type", "", "keys of jobs of this type, or, with * at the end, of all types with this prefix")
	f.StringSliceVar(&states, "state", nil, "keys of jobs in these states")
	f.IntVar(&limit, "limit", 50, "how many at most, 1 to 200")
	ask := a.asking(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if limit < 1 || limit > 200 {
			return usage("--limit must be from 1 to 200, got %d", limit)
		}
		for _, s := range states {
			if !slices.Contains(job.States, job.State(s)) {
				return usage("--state must be one of %s, got %q", stateNames(), s)
			}
		}
		q, err := ask()
		if err != nil {
			return err
		}
		params := url.Values{"limit": {strconv.Itoa(limit)}}
		for name, v := range map[string]string{"queue": queue, "type": kind, "state": strings.Join(states, ",")} {
			if v != "" {
				params.Set(name, v)
			}
		}
		var l keyList
		return q.show(cmd.Context(), http.MethodGet, "/unique-jobs?"+params.Encode(), nil, &l, l.print)
	}
	return cmd
}

func stateNames() string {
	names := make([]string, len(job.States))
	for i, s := range job.States {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

// keyList is the server's answer to ls.
type keyList struct {
	Items []struct {
		Key   string     `json:"key"`
		JobID string     `json:"job_id"`
		Type  string     `json:"type"`
		Queue string     `json:"queue"`
		State string     `json:"state"`
		Since time.Time  `json:"since"`
		Until *time.Time `json:"locked_until"`
	} `json:"items"`
	Total int `json:"total"`
}

func (l *keyList) print(w io.Writer) error {
	if len(l.Items) == 0 {
		_, err := fmt.Fprintln(w, "no job holds a unique key")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "JOB\tTYPE\tQUEUE\tSTATE\tSINCE\tUNTIL\tKEY")
	for _, c := range l.Items {
		until := "-"
		if c.Until != nil {
			until = job.FormatTime(*c.Until)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.JobID, c.Type, c.Queue, c.State, job.FormatTime(c.Since), until, c.Key)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if l.Total > len(l.Items) {
		fmt.Fprintf(w, "\n%d of %d keys; use --queue, --type and --state to see fewer\n", len(l.Items), l.Total)
	}
	return nil
}

func (a *app) uniqueReleaseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release KEY|JOB_ID",
		Short: "Free a unique key; its jobs stay, and run",
	}
	ask := a.asking(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage("%s needs the key to free, or the id of the job that holds it", cmd.CommandPath())
		}
		key := strings.ToLower(args[0])
		isKey, isJob := job.ValidKey(key), job.ValidID(key)
		if !isKey && !isJob {
			return usage("%q is neither a key of 64 hexadecimal digits nor the id of a job; see outrider unique ls", args[0])
		}
		q, err := ask()
		if err != nil {
			return err
		}
		if isJob {
			if key, err = q.keyOf(cmd.Context(), job.ID(key)); err != nil {
				return err
			}
		}
		var r released
		err = q.show(cmd.Context(), http.MethodDelete, "/unique-jobs/"+key, nil, &r, r.print)
		if err == nil && r.Released == 0 {
			return notFound("no job has the key %s", key)
		}
		return err
	}
	return cmd
}

// released is the server's answer to release.
type released struct {
	Key      string `json:"key"`
	Released int    `json:"released"`
}

func (r *released) print(w io.Writer) (err error) {
	switch r.Released {
	case 0: // it is an error, and told as one
	case 1:
		_, err = fmt.Fprintf(w, "freed the key %s of 1 job\n", r.Key)
	default:
		_, err = fmt.Fprintf(w, "freed the key %s of %d jobs\n", r.Key, r.Released)
	}
	return err
}

// keyOf is the unique key that a job holds. The job itself does not show it: the
// list of keys does, the newest ids first.
func (q *question) keyOf(ctx context.Context, id job.ID) (string, error) {
	j, err := q.client.Job(ctx, id)
	if err != nil {
		return "", asked(err)
	}
	if j.Unique == nil {
		return "", notFound("job %s has no unique policy, so it holds no key", id)
	}
	f := job.Filter{Queue: j.Queue, Type: j.Type, Limit: 1000}
	for {
		page, err := q.client.HeldKeys(ctx, f)
		if err != nil {
			return "", asked(err)
		}
		for _, c := range page.Keys {
			if c.JobID == id {
				return c.Key, nil
			}
		}
		if page.Next == "" || page.Keys[len(page.Keys)-1].JobID < id {
			return "", q.keyless(ctx, j)
		}
		f.Cursor = page.Next
	}
}

// keyless says that a job holds no key. It may still be met under the key that it
// once held, by a policy that counts its state.
func (q *question) keyless(ctx context.Context, j *job.Job) error {
	c, err := job.Envelope{Type: j.Type, Queue: j.Queue, Args: j.Args, Meta: j.Meta, Unique: j.Unique}.Check()
	var x job.Explanation
	if err == nil {
		x, err = q.client.Explain(ctx, c)
	}
	if err != nil || !j.RewrittenAt.IsZero() { // its key is not that of the args which it has now
		return notFound("job %s is %s and holds no key any more", j.ID, j.State)
	}
	return notFound("job %s is %s and holds no key any more; to free its former key for all jobs: outrider unique release %s",
		j.ID, j.State, x.Fingerprint)
}
