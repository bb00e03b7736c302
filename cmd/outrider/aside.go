package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/outrider-jobs/outrider/internal/logsink"
)

// lastWords is how long the end of a server waits for those who read what it has written.
const lastWords = time.Second

// printed is how many bytes are kept of what a server prints and nobody reads.
const printed = 64 << 10

// aside is for a server: from now on whatever it writes waits for nobody who
// reads it, and no output that is closed ends it. What it returns is its log.
func (a *app) aside(cfg config) *slog.Logger {
	// A write to a closed pipe is an error then, and not the end. Children, if
	// there are any, are ended by it as before.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	errs := logsink.New(a.stderr, logsink.Options{Note: cfg.missing})
	log := slog.New(byGravity{cfg.logger(errs).Handler(), cfg.logger(errs.Important()).Handler()})
	out := a.stdout
	if o, ok := out.(*output); ok {
		out = o.w // a server that cannot print works: its exit code says nothing of it
	}
	outs := logsink.New(out, logsink.Options{Limit: printed, Failed: func(err error) {
		log.Warn("output cannot be written; the server keeps running", "err", err)
	}})
	a.stdout, a.stderr = outs, errs.Important()
	a.settle = func() {
		over := time.Now().Add(lastWords)
		outs.Close(lastWords) // first, as it may have something to tell
		errs.Close(max(time.Until(over), lastWords/10))
	}
	return log
}

// missing is the line which says that so many lines of the log are missing, in
// the log's own form. It is told at any level: what is missing may be an error.
func (c config) missing(n int, err error) []byte {
	var b bytes.Buffer
	c.logLevel = slog.LevelWarn
	if log := c.logger(&b); err == nil {
		log.Warn("log lines were dropped because nobody read the log", "lines", n)
	} else {
		log.Warn("log lines were dropped because they could not be written", "lines", n, "err", err)
	}
	return b.Bytes()
}

// byGravity hands warnings and errors to a handler of their own, whose lines
// find room where those of others are dropped.
type byGravity struct{ rest, grave slog.Handler }

// Enabled reports whether the level is logged.
func (g byGravity) Enabled(ctx context.Context, l slog.Level) bool { return g.rest.Enabled(ctx, l) }

// Handle logs a record.
func (g byGravity) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		return g.grave.Handle(ctx, r)
	}
	return g.rest.Handle(ctx, r)
}

// WithAttrs is the handler that adds attributes to each record.
func (g byGravity) WithAttrs(as []slog.Attr) slog.Handler {
	return byGravity{g.rest.WithAttrs(as), g.grave.WithAttrs(as)}
}

// WithGroup is the handler that puts later attributes into a group.
func (g byGravity) WithGroup(name string) slog.Handler {
	return byGravity{g.rest.WithGroup(name), g.grave.WithGroup(name)}
}

// say writes a line to a file that may stand still, and waits for it only so long.
func say(w io.Writer, line string) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		_, _ = io.WriteString(w, line)
	}()
	select {
	case <-said:
	case <-time.After(lastWords / 10):
	}
}
