package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/term"
)

// leastWatch is the shortest time between two looks of --watch.
const leastWatch = 100 * time.Millisecond

// watches makes cmd one that asks a running server for a list or a state, and with
// --watch again and again. Each look is a call of do with an out of its own.
func (a *app) watches(cmd *cobra.Command, do func(ctx context.Context, q *question, args []string) error) *cobra.Command {
	every := cmd.Flags().Duration("watch", 0, "look again every `2s` or so, until Ctrl-C")
	cmd.Flags().Lookup("watch").NoOptDefVal = "2s"
	return a.asks(cmd, func(ctx context.Context, q *question, args []string) error {
		switch {
		case !cmd.Flags().Changed("watch"):
			return do(ctx, q, args)
		case *every < leastWatch:
			return usage("--watch must be %v or more, got %v", leastWatch, *every)
		}
		return q.watch(ctx, *every, func(ctx context.Context, out io.Writer) error {
			look := *q
			look.out = out
			return do(ctx, &look, args)
		})
	})
}

// watch looks every so often until ctx ends, which is a good end. On a terminal each
// look takes the place of the one before; elsewhere it stands below it. A look that
// fails is told, and the next may not: a server that is started again is seen again.
// What fails at the first look was asked wrongly, and ends it.
func (q *question) watch(ctx context.Context, every time.Duration, look func(ctx context.Context, out io.Writer) error) error {
	redraw := q.screen.Live && !q.format.data()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for first := true; ; first = false {
		var b bytes.Buffer
		err := look(ctx, &b)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (first || exitCode(err) == exitUsage):
			return err
		case err != nil:
			b.Reset()
			fmt.Fprintf(&b, "error: %s\n", mask(err, nil))
		}
		text := b.String()
		if redraw {
			text = term.Clear + q.screen.Paint(term.Faint, fmt.Sprintf("%s  every %v  %s", q.command, every, q.clock().Local().Format(time.TimeOnly))) + "\n" + q.screen.Crop(text, 2)
		} else if !first && !q.format.data() {
			text = "\n" + text
		}
		if _, err := io.WriteString(q.out, text); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
