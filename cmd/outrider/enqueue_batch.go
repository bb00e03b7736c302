package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outrider-jobs/outrider/job"
)

// A batch of lines is sent when it has so many jobs, or so many bytes.
const (
	batchJobs  = 1000
	batchBytes = 8 << 20
)

// changedBut is a flag of cmd that was given and is none of those named.
func changedBut(cmd *cobra.Command, but []string) (name string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains(but, f.Name) {
			name = f.Name
		}
	})
	return name
}

// lined are the jobs of some lines, which are stored together or not at all.
type lined struct {
	jobs  []job.Checked
	lines []int // the line of each
	bytes int
}

// stored is how far a file has come.
type stored struct {
	Last     int   `json:"last_line"` // all up to this line is stored
	Stored   int64 `json:"stored"`
	Existing int64 `json:"existing"` // that were there already
}

// enqueueLines stores a job for each line of a file.
func (q *question) enqueueLines(ctx context.Context, e *enqueuing) (err error) {
	if e.fromLine < 1 {
		return usage("--from-line must be 1 or more, got %d", e.fromLine)
	}
	in := q.stdin
	name := "standard input"
	if e.batch != "-" {
		f, err := os.Open(e.batch)
		if err != nil {
			return err
		}
		defer f.Close()
		in, name = f, e.batch
	}
	all := stored{Last: e.fromLine - 1}
	if err := q.eachLine(ctx, e, in, &all); err != nil {
		return all.stopped(name, err)
	}
	switch {
	case q.format == asNDJSON || e.quiet:
		return nil
	case q.format.data():
		return q.format.printValue(q.out, all, "")
	}
	text := "stored " + jobCount(all.Stored)
	if all.Existing > 0 {
		text += fmt.Sprintf("; %s were there already", thousands(all.Existing))
	}
	_, err = fmt.Fprintln(q.out, text)
	return err
}

// stopped says of an error how far it came before, and how to go on.
func (s *stored) stopped(name string, err error) error {
	text := "nothing was stored"
	if s.Stored+s.Existing > 0 {
		text = fmt.Sprintf("the lines up to %d are stored (%s), and no later one", s.Last, jobCount(s.Stored+s.Existing))
	}
	return &failure{exitCode(err), fmt.Errorf("%s: %w; %s; to go on: --from-line %d", name, err, text, s.Last+1)}
}

// eachLine reads jobs, and sends them whenever enough have come.
func (q *question) eachLine(ctx context.Context, e *enqueuing, in io.Reader, all *stored) error {
	r := bufio.NewScanner(in)
	r.Buffer(make([]byte, 0, 64<<10), job.MaxJobBytes+1)
	var some lined
	n := 0
	for r.Scan() {
		if n++; n < e.fromLine || len(bytes.TrimSpace(r.Bytes())) == 0 {
			continue
		}
		one, err := oneLined(bytes.Clone(r.Bytes()))
		if err != nil {
			if sent := q.send(ctx, e, &some, all); sent != nil { // what stands above it is not to blame
				return sent
			}
			return fmt.Errorf("line %d: %w", n, err)
		}
		some.jobs, some.lines, some.bytes = append(some.jobs, one), append(some.lines, n), some.bytes+len(r.Bytes())
		if len(some.jobs) >= batchJobs || some.bytes >= batchBytes {
			if err := q.send(ctx, e, &some, all); err != nil {
				return err
			}
		}
	}
	if err := q.send(ctx, e, &some, all); err != nil {
		return err
	}
	switch err := r.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("line %d is longer than %d bytes, the limit for a job", n+1, job.MaxJobBytes)
	case err != nil:
		return fmt.Errorf("line %d: %w", n+1, err)
	}
	return nil
}

// oneLined reads the job of a line.
func oneLined(raw []byte) (c job.Checked, err error) {
	if err := job.CheckJSON(raw); err != nil {
		return c, err
	}
	if bytes.TrimSpace(raw)[0] != '{' {
		return c, errors.New(`a line must be a job, such as {"type":"email.send","args":[]}`)
	}
	return job.ParseChecked(bytes.TrimSpace(raw))
}

// send stores some lines. Where one is refused none of them is, and the error names it.
func (q *question) send(ctx context.Context, e *enqueuing, some *lined, all *stored) error {
	if len(some.jobs) == 0 {
		return nil
	}
	receipts, err := q.client.EnqueueChecked(ctx, some.jobs...)
	if err != nil {
		if i, ok := job.DetailsOf(err)["index"].(int); ok && i >= 0 && i < len(some.lines) {
			err = fmt.Errorf("line %d: %w", some.lines[i], err)
		} else if len(some.lines) == 1 {
			err = fmt.Errorf("line %d: %w", some.lines[0], err)
		}
		return asked(err)
	}
	for i, r := range receipts {
		if r.Existing {
			all.Existing++
		} else {
			all.Stored++
		}
		switch {
		case e.quiet:
			fmt.Fprintln(q.out, r.ID)
		case q.format == asNDJSON:
			line, err := json.Marshal(map[string]any{"line": some.lines[i], "id": r.ID, "existing": r.Existing, "state": r.State})
			if err != nil {
				return err
			}
			fmt.Fprintf(q.out, "%s\n", line)
		}
	}
	all.Last = some.lines[len(some.lines)-1]
	*some = lined{}
	return nil
}
