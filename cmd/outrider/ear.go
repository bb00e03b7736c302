package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outrider-jobs/outrider/adapters/postgres"
)

// ear hears the NOTIFY of commits and pokes its relay. It is a hint, and the
// polling goes on beside it: an ear that hears nothing costs the wait for the
// next look, and no row.
//
// A connection that is half open, or leads through a pooler that gives each
// transaction to another one, looks as well as any and says nothing. So the ear
// notifies itself now and then, and takes silence for an end.
type ear struct {
	src  *source
	log  *slog.Logger
	poll time.Duration // for the log: how often the relay looks meanwhile
	echo time.Duration // how often it tests itself
	lost bool
}

const (
	earEcho     = 30 * time.Second
	earPatience = 5 * time.Second
	earMinWait  = 200 * time.Millisecond
	earMaxWait  = 30 * time.Second
)

func newEar(src *source, log *slog.Logger, poll time.Duration) *ear {
	if poll <= 0 {
		poll = time.Second // the relay's own
	}
	return &ear{src: src, log: log, poll: poll, echo: earEcho}
}

// run listens until ctx ends, and again when that is lost.
func (e *ear) run(ctx context.Context) error {
	wait := earMinWait
	for told := false; ; {
		began := time.Now()
		err := e.listen(ctx, &told)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > earMaxWait {
			wait = earMinWait
		}
		if !e.lost {
			e.lost = true
			e.log.Warn("outbox: listen lost, polling every "+e.poll.String(), "outbox", e.src.dsn.String(), "error", e.src.dsn.scrub(err))
		}
		timer := time.NewTimer(wait/2 + time.Duration(mathrand.Int64N(int64(wait/2))))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		wait = min(2*wait, earMaxWait)
	}
}

// listen is one connection, from its beginning to its end.
func (e *ear) listen(ctx context.Context, told *bool) error {
	dial, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(dial, e.src.dsn.pg.Copy())
	if err != nil {
		return err
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(bye) // it is not used again
	}()
	if _, err := conn.Exec(dial, "LISTEN "+e.src.dialect.Table); err != nil {
		return err
	}
	if err := e.test(ctx, conn); err != nil {
		return err
	}
	if e.lost {
		e.lost = false
		e.log.Info("outbox: listening again", "outbox", e.src.dsn.String())
	}
	if !*told {
		if err := e.warnWithoutTrigger(ctx, conn); err != nil {
			return err
		}
		*told = true
	}
	e.src.Poke() // for what was committed meanwhile
	for {
		err := e.hear(ctx, conn, e.echo)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = e.test(ctx, conn)
		}
		if err != nil {
			return err
		}
	}
}

// hear waits for one NOTIFY and pokes.
func (e *ear) hear(ctx context.Context, conn *pgx.Conn, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if _, err := conn.WaitForNotification(ctx); err != nil {
		return err
	}
	e.src.Poke()
	return nil
}

// test says something to itself and waits until it hears that.
func (e *ear) test(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, earPatience)
	defer cancel()
	word := rand.Text()
	if _, err := conn.Exec(ctx, "SELECT pg_notify($1, $2)", e.src.dialect.Table, word); err != nil {
		return err
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("a NOTIFY to itself does not come back; LISTEN needs a connection of its own, not a pooler's of transactions: %w", err)
		}
		if n.Payload == word {
			return nil
		}
		e.src.Poke()
	}
}

// warnWithoutTrigger says once that nobody would notify.
func (e *ear) warnWithoutTrigger(ctx context.Context, conn *pgx.Conn) error {
	query, err := postgres.Notifies(e.src.dialect.Table)
	if err != nil {
		return err
	}
	var one int
	switch err := conn.QueryRow(ctx, query).Scan(&one); {
	case errors.Is(err, pgx.ErrNoRows):
		command := "outrider outbox init --wake listen"
		if e.src.dialect.Table != postgres.DefaultTable {
			command += " --table " + e.src.dialect.Table
		}
		e.log.Warn("outbox: no trigger tells of new rows, so listening is of no use; make it with: "+command+" DSN", "outbox", e.src.dsn.String())
	case err != nil:
		return err
	}
	return nil
}
