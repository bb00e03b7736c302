package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/internal/readfile"
	"github.com/outrider-jobs/outrider/job"
)

// question is what a command asks of a running server, and how it shows the answer.
type question struct {
	*app
	command string // as it was called, for messages
	client  *client.Client
	format  format
	out     io.Writer
}

// manyJobs is how long the answer about many jobs may take: what asks for --yes may be
// about a million of them.
const manyJobs = time.Hour

// asks makes cmd one that asks a running server.
func (a *app) asks(cmd *cobra.Command, do func(ctx context.Context, q *question, args []string) error) *cobra.Command {
	bind(cmd, "url", "token-file")
	output := bindOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q := &question{app: a, command: cmd.CommandPath(), out: a.stdout}
		cfg, err := a.configure(cmd)
		if err == nil {
			q.format, err = output()
		}
		if err == nil {
			if cmd.Flags().Lookup("yes") != nil {
				cfg.patience = manyJobs
			}
			q.client, err = cfg.client(cfg.url)
		}
		if err != nil {
			return err
		}
		return do(cmd.Context(), q, args)
	}
	return cmd
}

// show asks, and prints the answer: as it came, or read into the given value and
// printed for a person. items is the member of the answer that is a list, if it is one.
func (q *question) show(ctx context.Context, method, path string, body []byte, items string, into any, print func(io.Writer) error) error {
	answer, err := q.client.Raw(ctx, method, path, body)
	if err != nil {
		return asked(err)
	}
	if q.format.data() {
		if into != nil {
			_ = json.Unmarshal(answer, into) // for who looks into it; what is printed is the answer as it came
		}
		return q.format.print(q.out, answer, items)
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("the server's answer cannot be read: %w", err)
	}
	return print(q.out)
}

// raw asks, and prints the answer as it came.
func (q *question) raw(ctx context.Context, method, path, items string) error {
	return q.show(ctx, method, path, nil, items, nil, nil)
}

// pages asks for a list, page by page, and prints all of it as it came, however long.
// items is the member that is the list.
func (q *question) pages(ctx context.Context, path, items string) error {
	all := []json.RawMessage{}
	for {
		raw, err := q.client.Raw(ctx, http.MethodGet, fmt.Sprintf("%s?limit=200&offset=%d", path, len(all)), nil)
		if err != nil {
			return asked(err)
		}
		var members map[string]json.RawMessage
		var page []json.RawMessage
		var about struct{ Total int }
		if err = json.Unmarshal(raw, &members); err == nil {
			err = errors.Join(json.Unmarshal(members[items], &page), json.Unmarshal(raw, &about))
		}
		if err != nil {
			return fmt.Errorf("the server's answer cannot be read: %w", err)
		}
		if all = append(all, page...); len(page) == 0 || len(all) >= about.Total {
			return q.format.printValue(q.out, map[string]any{items: all, "total": about.Total}, items)
		}
	}
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
	case e.Kind == job.Unauthenticated:
		return fmt.Errorf("%w; set %s, or --token-file to a file with the token", err, tokenVariable)
	case e.Kind == job.NotFound:
		return &failure{exitNotFound, err}
	case e.Kind == job.Conflict || e.Kind == job.Duplicate:
		return &failure{exitConflict, err}
	case e.Kind == job.Unavailable && e.Err != nil:
		return &failure{exitUnreachable, err}
	}
	return err
}

// readNamed reads a file that a person has named, or with - standard input, and
// returns also what messages call it.
func readNamed(name string, stdin io.Reader, how readfile.How) (shown string, raw []byte, err error) {
	if name != "-" {
		raw, err = readfile.File(name, how)
		return name, raw, err
	}
	raw, err = io.ReadAll(io.LimitReader(stdin, how.Limit))
	return "standard input", raw, err
}
