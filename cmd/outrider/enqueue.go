package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/readfile"
	"github.com/outrider-jobs/outrider/job"
)

func (a *app) enqueueCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "enqueue TYPE [ARGS]",
		Short: "Enqueue a job, a batch of them or a workflow",
		Long: "Enqueue a job of a type, whose args are a JSON array. With --file what a PUSH, a batch or a\n" +
			"workflow has as its body is read from a file, or with - from standard input: an object with\n" +
			"steps, or with jobs and a type, is a workflow; one with jobs alone is a batch.",
		Example: "  outrider enqueue email.send '[\"ada@example.com\"]' --queue mail\n" +
			"  outrider enqueue --file workflow.json",
	}
	var file, queue, delay string
	cmd.Flags().StringVar(&file, "file", "", "read the body from this `file`; - is standard input")
	cmd.Flags().StringVar(&queue, "queue", "", "the queue; by itself default")
	cmd.Flags().StringVar(&delay, "delay", "", "when to run it, from now: an ISO 8601 `duration` such as PT5M")
	priority := cmd.Flags().Int("priority", 0, "-100 to 100, higher runs first")
	return a.asks(cmd, func(ctx context.Context, q *question, args []string) error {
		if file != "" {
			if len(args) > 0 || queue != "" || delay != "" || *priority != 0 {
				return usage("%s takes what it enqueues from --file, or from words and flags, not from both", q.command)
			}
			_, raw, err := readNamed(file, a.stdin, readfile.How{Limit: job.MaxWorkflowBytes})
			if err != nil {
				return err
			}
			return q.enqueue(ctx, raw)
		}
		if len(args) < 1 || len(args) > 2 || args[0] == "" {
			return usage("%s needs the type of a job, such as email.send, and perhaps its args as one JSON array in quotes; or --file", q.command)
		}
		body := struct {
			Type    string          `json:"type"`
			Args    json.RawMessage `json:"args"`
			Options map[string]any  `json:"options,omitempty"`
		}{args[0], json.RawMessage("[]"), map[string]any{}}
		if len(args) == 2 {
			body.Args = json.RawMessage(args[1])
			if raw := bytes.TrimSpace(body.Args); !json.Valid(raw) || raw[0] != '[' {
				return usage("the args must be one JSON array in quotes, such as '[\"ada@example.com\"]', got %s", args[1])
			}
		}
		if queue != "" {
			body.Options["queue"] = queue
		}
		if delay != "" {
			body.Options["delay"] = delay
		}
		if *priority != 0 {
			body.Options["priority"] = *priority
		}
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		return q.enqueue(ctx, raw)
	})
}

// enqueue sends a body to where it belongs, and prints what was made of it.
func (q *question) enqueue(ctx context.Context, raw []byte) error {
	var about struct {
		Type  json.RawMessage `json:"type"`
		Steps json.RawMessage `json:"steps"`
		Jobs  json.RawMessage `json:"jobs"`
	}
	_ = json.Unmarshal(raw, &about) // what cannot be read the server says better
	var answer struct {
		Job *struct {
			ID, Type, Queue, State string
		}
		Deduplicated bool
		Count        int
		Workflow     *struct {
			ID, Type, State string
			Steps           int `json:"step_count"`
		}
	}
	path := "/jobs"
	switch {
	case about.Steps != nil, about.Jobs != nil && about.Type != nil:
		path = "/workflows"
	case about.Jobs != nil:
		path = "/jobs/batch"
	}
	return q.show(ctx, http.MethodPost, path, raw, "", &answer, func(w io.Writer) (err error) {
		switch {
		case answer.Workflow != nil:
			_, err = fmt.Fprintf(w, "workflow %s: %s of %s, %s\n", answer.Workflow.ID, answer.Workflow.Type, count(int64(answer.Workflow.Steps), "step", "steps"), answer.Workflow.State)
		case answer.Job != nil && answer.Deduplicated:
			_, err = fmt.Fprintf(w, "job %s was there already: %s in the queue %s, %s\n", answer.Job.ID, answer.Job.Type, answer.Job.Queue, answer.Job.State)
		case answer.Job != nil:
			_, err = fmt.Fprintf(w, "job %s: %s in the queue %s, %s\n", answer.Job.ID, answer.Job.Type, answer.Job.Queue, answer.Job.State)
		default:
			_, err = fmt.Fprintf(w, "%s\n", count(int64(answer.Count), "job", "jobs"))
		}
		return err
	})
}
