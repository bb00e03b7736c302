package pgx

import (
	"cmp"
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

// Listener has PostgreSQL tell of commits: it listens for the NOTIFY of the trigger
// on an outbox table and pokes the relay. That is a hint, and the polling goes on
// beside it: a listener that hears nothing costs the wait for the next look, and
// no row.
//
// A connection that is half open, or leads through a pooler that gives each
// transaction to another one, looks as well as any and says nothing. So the
// listener notifies itself now and then, and takes silence for an end.
type Listener struct {
	config *pgx.ConnConfig
	table  string
	poke   func()
	o      ListenerOptions
	echo   time.Duration // how often it tests itself
	lost   bool
}

// ListenerOptions are what a listener may be told. The zero value works.
type ListenerOptions struct {
	Name   string            // of the outbox, in the log
	Log    *slog.Logger      // nil is nowhere
	Poll   time.Duration     // for the log: how often the relay looks meanwhile; 0 is its own, a second
	Scrub  func(error) error // takes secrets out of an error before it is logged
	Silent func()            // called once if no trigger tells of new rows, so that nothing will be heard
}

const (
	echoEvery    = 30 * time.Second
	echoPatience = 5 * time.Second
	dialPatience = 10 * time.Second
	minWait      = 200 * time.Millisecond
	maxWait      = 30 * time.Second
)

// NewListener makes a listener for the outbox in a table, which pokes for each
// commit that it hears of. It connects to nothing yet.
func NewListener(config *pgx.ConnConfig, table string, poke func(), o ListenerOptions) *Listener {
	o.Poll = cmp.Or(max(o.Poll, 0), time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Scrub == nil {
		o.Scrub = func(err error) error { return err }
	}
	return &Listener{config: config, table: table, poke: poke, o: o, echo: echoEvery}
}

// Run listens until ctx ends, and again when that is lost.
func (l *Listener) Run(ctx context.Context) error {
	wait := minWait
	for told := false; ; {
		began := time.Now()
		err := l.listen(ctx, &told)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > maxWait {
			wait = minWait
		}
		if !l.lost {
			l.lost = true
			l.o.Log.Warn("outbox: LISTEN connection lost, polling every "+l.o.Poll.String(), "outbox", l.o.Name, "error", l.o.Scrub(err))
		}
		timer := time.NewTimer(wait/2 + time.Duration(mathrand.Int64N(int64(wait/2))))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		wait = min(2*wait, maxWait)
	}
}

// listen is one connection, from its beginning to its end.
func (l *Listener) listen(ctx context.Context, told *bool) error {
	dial, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	conn, err := pgx.ConnectConfig(dial, l.config.Copy())
	if err != nil {
		return err
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(bye) // it is not used again
	}()
	if _, err := conn.Exec(dial, "LISTEN "+l.table); err != nil {
		return err
	}
	if err := l.test(ctx, conn); err != nil {
		return err
	}
	if l.lost {
		l.lost = false
		l.o.Log.Info("outbox: listening again", "outbox", l.o.Name)
	}
	if !*told {
		if err := l.checkTrigger(ctx, conn); err != nil {
			return err
		}
		*told = true
	}
	l.poke() // for what was committed meanwhile
	for {
		err := l.hear(ctx, conn, l.echo)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = l.test(ctx, conn)
		}
		if err != nil {
			return err
		}
	}
}

// hear waits for one NOTIFY and pokes.
func (l *Listener) hear(ctx context.Context, conn *pgx.Conn, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if _, err := conn.WaitForNotification(ctx); err != nil {
		return err
	}
	l.poke()
	return nil
}

// test says something to itself and waits until it hears that.
func (l *Listener) test(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, echoPatience)
	defer cancel()
	word := rand.Text()
	if _, err := conn.Exec(ctx, "SELECT pg_notify($1, $2)", l.table, word); err != nil {
		return err
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("its own NOTIFY does not come back; LISTEN needs a direct connection, not one from a transaction pooler: %w", err)
		}
		if n.Payload == word {
			return nil
		}
		l.poke()
	}
}

// checkTrigger finds out whether anybody would notify.
func (l *Listener) checkTrigger(ctx context.Context, conn *pgx.Conn) error {
	query, err := postgres.Notifies(l.table)
	if err != nil {
		return err
	}
	var one int
	switch err := conn.QueryRow(ctx, query).Scan(&one); {
	case errors.Is(err, pgx.ErrNoRows):
		if l.o.Silent != nil {
			l.o.Silent()
		}
	case err != nil:
		return err
	}
	return nil
}
