package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/readfile"
	"github.com/outrider-jobs/outrider/internal/term"
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
	return a.asks(&cobra.Command{
		Use:   "explain FILE|-",
		Short: "Explain a job's unique policy, and show the job it would collide with",
		Long: "Reads a job as it would be enqueued, from a file or with - from standard input, and shows what its\n" +
			"unique policy makes of it: the fingerprint, the canonical JSON that is hashed, the existing job that\n" +
			"it would collide with now, and when that one frees its key. The result is that of the unique\n" +
			"policy alone, before middleware: custom ids and deduplication keys are not looked at. Nothing is stored.",
	}, func(ctx context.Context, q *question, args []string) error {
		if len(args) != 1 {
			return usage("%s needs one file with a job in JSON, or - for standard input", q.command)
		}
		name, raw, err := a.readJob(args[0])
		if err != nil {
			return err
		}
		var x explanation
		err = q.show(ctx, http.MethodPost, "/unique/explain", raw, "", &x, x.print)
		if k := job.KindOf(err); k == job.Invalid || k == job.BadRetry || k == job.Malformed {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return err
	})
}

// readJob reads a file of JSON, and returns also what messages call it. What is
// wrong with its text is said with the place.
func (a *app) readJob(name string) (shown string, raw []byte, err error) {
	shown, raw, err = readNamed(name, a.stdin, readfile.How{Limit: job.MaxJobBytes + 1, Devices: true})
	switch {
	case err != nil:
		return shown, nil, fmt.Errorf("read the job: %w", err)
	case len(raw) > job.MaxJobBytes:
		return shown, nil, fmt.Errorf("%s is larger than %d bytes, the limit for a job", shown, job.MaxJobBytes)
	case len(bytes.TrimSpace(raw)) == 0:
		return shown, nil, fmt.Errorf("%s is empty; it must hold a job in JSON", shown)
	}
	if err := wording.BadJSON(shown, raw); err != nil {
		return shown, nil, err
	}
	if err := job.CheckJSON(raw); err != nil {
		return shown, nil, fmt.Errorf("%s: %w", shown, err)
	}
	return shown, raw, nil
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
	rows := [][]string{{"dimensions", strings.Join(x.Dimensions, ", ")}, {"canonical", x.Canonical}, {"fingerprint", x.Fingerprint}}
	if h := x.Held; h == nil {
		rows = append(rows, []string{"held by", "no job"})
	} else {
		rows = append(rows, []string{"held by", fmt.Sprintf("%s (%s in queue %s)", h.JobID, h.Type, h.Queue)},
			[]string{"since", job.FormatTime(h.Since)}, []string{"state", h.State}, []string{"frees", h.Frees})
	}
	return table(w, append(rows, []string{"an enqueue", fmt.Sprintf("would be %s (on_conflict %s)", becomes, x.Policy.OnConflict)}))
}

func (a *app) uniqueListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the keys that jobs hold, those of the newest jobs first",
		Long: "Lists the unique keys that jobs hold, or with --dedup their deduplication keys, which are names of the\n" +
			"callers' own in a queue. Those of the newest jobs come first.",
		Args: noArgs,
	}
	var queue, kind string
	var states []string
	var limit int
	var dedup bool
	f := cmd.Flags()
	f.BoolVar(&dedup, "dedup", false, "the deduplication keys, not the unique keys")
	f.StringVar(&queue, "queue", "", "keys of jobs in this queue")
	f.StringVar(&kind, "type", "", "keys of jobs of this type, or, with * at the end, of all types with this prefix")
	f.StringSliceVar(&states, "state", nil, "keys of jobs in these states")
	f.IntVarP(&limit, "limit", "n", 50, "how many at most, 1 to 200")
	return a.watches(cmd, func(ctx context.Context, q *question, _ []string) error {
		if limit < 1 || limit > 200 {
			return usage("--limit must be from 1 to 200, got %d", limit)
		}
		f := job.Filter{Dedup: dedup, Queue: queue, Type: kind, Limit: limit}
		for _, s := range states {
			if err := oneOf("--state", s, stateNames()); err != nil {
				return err
			}
			f.States = append(f.States, job.State(s))
		}
		if !q.format.data() {
			keys, err := q.client.HeldKeys(ctx, f)
			if err != nil {
				return asked(err)
			}
			return q.printKeys(keys, dedup)
		}
		params := url.Values{"limit": {strconv.Itoa(limit)}}
		for name, v := range map[string]string{"queue": queue, "type": kind, "state": strings.Join(states, ",")} {
			if v != "" {
				params.Set(name, v)
			}
		}
		if dedup {
			params.Set("kind", "deduplication")
		}
		return q.raw(ctx, http.MethodGet, "/unique-jobs?"+params.Encode(), "items")
	})
}

func stateNames() []string {
	names := make([]string, len(job.States))
	for i, s := range job.States {
		names[i] = string(s)
	}
	return names
}

var keyColumns = []term.Column{{Head: "JOB"}, {Head: "TYPE", Min: 8}, {Head: "QUEUE", Min: 6, Drop: 2}, {Head: "STATE", Min: 9, Style: term.OfState},
	{Head: "SINCE", Drop: 3}, {Head: "UNTIL", Drop: 1}, {Head: "KEY", Min: 12}}

func (q *question) printKeys(held job.HeldKeys, dedup bool) error {
	if len(held.Keys) == 0 {
		kind := "unique"
		if dedup {
			kind = "deduplication"
		}
		_, err := fmt.Fprintf(q.out, "no job holds a %s key\n", kind)
		return err
	}
	now := q.clock()
	var rows [][]string
	for _, k := range held.Keys {
		rows = append(rows, []string{string(k.JobID), k.Type, k.Queue, string(k.State), term.About(k.Since, now), term.About(k.Until, now), k.Key})
	}
	if err := q.screen.Table(q.out, keyColumns, rows); err != nil || held.Total <= int64(len(held.Keys)) {
		return err
	}
	_, err := fmt.Fprintf(q.out, "\n%d of %d keys; use --queue, --type and --state to see fewer\n", len(held.Keys), held.Total)
	return err
}

func (a *app) uniqueReleaseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release KEY|JOB_ID",
		Short: "Free a key; its jobs stay, and run",
		Long: "Frees a unique key, named by itself or by a job that holds it. With --dedup-queue the key is a\n" +
			"deduplication key of that queue. The jobs stay, and run.",
	}
	queue := cmd.Flags().String("dedup-queue", "", "the key is a deduplication key of this queue")
	return a.asks(cmd, func(ctx context.Context, q *question, args []string) (err error) {
		if len(args) != 1 {
			return usage("%s needs the key to free, or the id of the job that holds it", q.command)
		}
		if *queue != "" {
			return q.releaseDedup(ctx, *queue, args[0])
		}
		key := strings.ToLower(args[0])
		isKey, isJob := job.ValidKey(key), job.ValidID(key)
		if !isKey && !isJob {
			return usage("%q is neither a key of 64 hexadecimal digits nor the id of a job; see outrider unique ls", args[0])
		}
		if isJob {
			if key, err = q.keyOf(ctx, job.ID(key)); err != nil {
				return err
			}
		}
		var r struct {
			Released int64 `json:"released"`
		}
		err = q.show(ctx, http.MethodDelete, "/unique-jobs/"+key, nil, "", &r, func(w io.Writer) error {
			if r.Released == 0 {
				return nil // it is an error, and told as one
			}
			_, err := fmt.Fprintf(w, "freed the key %s of %s\n", key, count(r.Released, "job", "jobs"))
			return err
		})
		if err == nil && r.Released == 0 {
			return notFound("no job has the key %s", key)
		}
		return err
	})
}

// releaseDedup frees a deduplication key.
func (q *question) releaseDedup(ctx context.Context, queue, id string) error {
	var r struct {
		Released bool `json:"released"`
	}
	path := "/queues/" + url.PathEscape(queue) + "/deduplication/" + url.PathEscape(id)
	err := q.show(ctx, http.MethodDelete, path, nil, "", &r, func(w io.Writer) error {
		if !r.Released {
			return nil // it is an error, and told as one
		}
		_, err := fmt.Fprintf(w, "freed the deduplication key %q of the queue %s\n", id, queue)
		return err
	})
	if err == nil && !r.Released {
		return notFound("no job of the queue %s holds the deduplication key %q; see outrider unique ls --dedup", queue, id)
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
