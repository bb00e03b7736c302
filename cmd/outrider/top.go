package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/term"
)

// topOrders are what --sort and the key s sort the queues by.
var topOrders = []string{"waiting", "active", "in", "out", "oldest", "name"}

// resizeCheck is how often the terminal is asked for its size.
const resizeCheck = 200 * time.Millisecond

func (a *app) topCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "top",
		SuggestFor: []string{"dashboard", "monitor", "stats"},
		Short:      "Watch queues, workers and failing types on one screen",
		Long: "Shows one screen of what the server does, drawn anew every two seconds: queues with what waits, runs, comes in\n" +
			"and goes out, workers, and the types of jobs that failed in the last five minutes. A server that is gone is\n" +
			"waited for. Without a terminal, and with --once or -o, it prints one frame.\n\n" +
			"Keys:\n\n  q  leave, as does Ctrl-C\n  s  sort the queues by something else\n  p  pause, and go on",
		Args: noArgs,
	}
	f := cmd.Flags()
	once := f.Bool("once", false, "print one frame, and end")
	every := f.Duration("every", 2*time.Second, "how often it is drawn anew")
	order := f.String("sort", topOrders[0], "sort queues by "+strings.Join(topOrders, ", "))
	return a.asks(cmd, func(ctx context.Context, q *question, _ []string) error {
		if *every < leastWatch {
			return usage("--every must be %v or more, got %v", leastWatch, *every)
		}
		if err := oneOf("--sort", *order, topOrders); err != nil {
			return err
		}
		t := &top{question: q, order: slices.Index(topOrders, *order), every: *every}
		if err := t.ask(ctx); err != nil {
			return asked(err)
		}
		switch {
		case q.format.data():
			return q.format.printValue(q.out, t.frame, "queues")
		case *once || !q.screen.Live:
			_, err := fmt.Fprint(q.out, strings.Join(t.draw(term.Screen{Width: q.screen.Width, Color: q.screen.Color}), "\n"), "\n")
			return err
		}
		return t.run(ctx)
	})
}

// top is the live screen. All of it is used by one goroutine.
type top struct {
	*question
	order  int // of topOrders
	every  time.Duration
	paused bool
	lost   error // of the newest look, nil if it was answered
	frame  *topFrame
	counts []topCounts // those of the last seconds, the oldest first
	fails  []topFail
	seen   int64 // Seq of the event up to which fails are known; -1 at first
}

// run draws until a key, a signal or the end of the terminal says that it is enough. It
// leaves the terminal as it found it, also when it panics.
func (t *top) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys := make(chan byte)
	if in, ok := t.stdin.(*os.File); ok && term.IsTerminal(in) {
		back, err := term.Raw(in)
		if err != nil {
			return err
		}
		defer back()
		// It waits in a read that nothing ends but a key, so nobody waits for it: it goes
		// with the process.
		go readKeys(ctx, in, keys)
	}
	if _, err := io.WriteString(t.out, term.Enter); err != nil {
		return err
	}
	defer func() { _, _ = io.WriteString(t.out, term.Leave) }() // who cannot be told has no screen to be given back
	tick, size := time.NewTicker(t.every), time.NewTicker(resizeCheck)
	defer tick.Stop()
	defer size.Stop()
	var shown term.Screen
	for again := true; ; {
		if screen := t.look(); again || screen != shown {
			shown = screen
			if _, err := io.WriteString(t.out, term.Frame(t.draw(screen))); err != nil {
				return err
			}
		}
		again = true
		select {
		case <-ctx.Done():
			return nil
		case <-size.C:
			again = false
		case <-tick.C:
			if t.paused {
				continue
			}
			if t.lost = t.ask(ctx); ctx.Err() != nil {
				return nil
			}
		case key := <-keys:
			switch key {
			case 'q', 'Q', ctrlC, ctrlD:
				return nil
			case 's', 'S':
				t.order = (t.order + 1) % len(topOrders)
			case 'p', 'P', ' ':
				t.paused = !t.paused
			}
		}
	}
}

// What a terminal in raw mode sends for Ctrl-C and Ctrl-D.
const ctrlC, ctrlD = 3, 4

// readKeys tells of keys until ctx ends. A terminal that is gone is the key that leaves.
func readKeys(ctx context.Context, in io.Reader, keys chan<- byte) {
	b := make([]byte, 1)
	for {
		if _, err := in.Read(b); err != nil {
			b[0] = 'q'
		}
		select {
		case keys <- b[0]:
		case <-ctx.Done():
			return
		}
	}
}
