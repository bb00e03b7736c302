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

// flushLimit is how long the end of a server waits until its output is read.
const flushLimit = time.Second

// printed is how many bytes are kept of what a server prints until somebody reads it.
const printed = 64 << 10

// aside detaches the output of a server: from now on no write waits for a reader, and
// a closed output does not end the process. What it returns is the log.
func (a *app) aside(cfg config) *slog.Logger {
	// A write to a closed pipe is an error then, and not the end. Children, if
	// there are any, are ended by it as before.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	errs := logsink.New(a.stderr, logsink.Options{Note: cfg.missing})
	log := slog.New(byLevel{cfg.logger(errs).Handler(), cfg.logger(errs.Important()).Handler()})
	out := a.stdout
	if o, ok := out.(*output); ok {
		out = o.w // a server that cannot print works: its exit code says nothing of it
	}
	outs := logsink.New(out, logsink.Options{Limit: printed, Failed: func(err error) {
		log.Warn("output cannot be written; the server keeps running", "err", err)
	}})
	a.stdout, a.stderr = outs, errs.Important()
	a.settle = func() {
		over := time.Now().Add(flushLimit)
		outs.Close(flushLimit) // first, as it may have something to tell
		errs.Close(max(time.Until(over), flushLimit/10))
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

// byLevel hands warnings and errors to a handler of their own, whose lines still
// find room when others are dropped.
type byLevel struct{ rest, important slog.Handler }

// Enabled reports whether the level is logged.
func (g byLevel) Enabled(ctx context.Context, l slog.Level) bool { return g.rest.Enabled(ctx, l) }

// Handle logs a record.
func (g byLevel) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		return g.important.Handle(ctx, r)
	}
	return g.rest.Handle(ctx, r)
}

// WithAttrs is the handler that adds attributes to each record.
func (g byLevel) WithAttrs(as []slog.Attr) slog.Handler {
	return byLevel{g.rest.WithAttrs(as), g.important.WithAttrs(as)}
}

// WithGroup is the handler that puts later attributes into a group.
func (g byLevel) WithGroup(name string) slog.Handler {
	return byLevel{g.rest.WithGroup(name), g.important.WithGroup(name)}
}

// say writes a line to a file that may take nothing, and does not wait long for it.
func say(w io.Writer, line string) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		_, _ = io.WriteString(w, line)
	}()
	select {
	case <-said:
	case <-time.After(flushLimit / 10):
	}
}
