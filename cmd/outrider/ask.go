package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/internal/wording"
	"github.com/outrider-jobs/outrider/job"
)

// question is what a command asks of a running server, and how it shows the answer.
type question struct {
	client *client.Client
	json   bool
	out    io.Writer
}

// asking gives cmd the flags of a command that asks a running server. What it
// returns reads them.
func (a *app) asking(cmd *cobra.Command) func() (*question, error) {
	bind(cmd, "url")
	output := cmd.Flags().StringP("output", "o", "table", "table or json")
	return func() (*question, error) {
		if *output != "table" && *output != "json" {
			return nil, usage("-o must be table or json, got %q", *output)
		}
		cfg, err := a.configure(cmd)
		if err != nil {
			return nil, err
		}
		c, err := client.New(cfg.url, client.Options{})
		return &question{client: c, json: *output == "json", out: a.stdout}, err
	}
}

// show asks, and prints the answer: as it came, or read into the given value and
// printed for a person.
func (q *question) show(ctx context.Context, method, path string, body []byte, into any, print func(io.Writer) error) error {
	answer, err := q.client.Raw(ctx, method, path, body)
	if err != nil {
		return asked(err)
	}
	if q.json {
		if into != nil {
			_ = json.Unmarshal(answer, into) // for who looks into it; what is printed is the answer as it came
		}
		_, err := fmt.Fprintf(q.out, "%s\n", answer)
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("the server's answer cannot be read: %w", err)
	}
	return print(q.out)
}

// asked is the error of a command that asked a server, with its exit code. An
// error without a cause is the word of a server, one with a cause never got an
// answer.
func asked(err error) error {
	var e *job.Error
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) {
		return err
	}
	switch {
	case e.Kind == job.NotFound:
		return &failure{exitNotFound, err}
	case e.Kind == job.Conflict || e.Kind == job.Duplicate:
		return &failure{exitConflict, err}
	case e.Kind == job.Unavailable && e.Err != nil:
		return &failure{exitUnreachable, err}
	}
	return err
}

// checkText says what is wrong with the JSON of a file, and where: the line, and
// under it a mark.
func checkText(name string, raw []byte) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return fmt.Errorf("%s is empty; it must hold a job in JSON", name)
	}
	if err := wording.BadJSON(name, raw); err != nil {
		return err
	}
	if err := job.CheckJSON(raw); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
