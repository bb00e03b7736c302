package outbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

// cutting are connections that lose or refuse what cut says of each statement,
// before or after it was done.
type cutting struct {
	of  driver.Driver
	dsn string
	cut func(q string, done bool) error
}

func (c cutting) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.of.Open(c.dsn)
	return cuttingConn{countingConn{conn, new(atomic.Int64)}, c.cut}, err
}

type cuttingConn struct {
	countingConn
	cut func(q string, done bool) error
}

func (c cuttingConn) ExecContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.cut(q, false); err != nil {
		return nil, err
	}
	res, err := c.countingConn.ExecContext(ctx, q, args)
	if err == nil {
		err = c.cut(q, true)
	}
	return res, err
}

func (c cutting) Driver() driver.Driver { return c.of }

// cut opens the database once more, over such connections.
func (w *world) cut(cut func(q string, done bool) error) *sql.DB {
	dsn := w.path
	switch w.d.Name() {
	case "sqlite":
		dsn = sqlite.DSN(w.path)
	case "postgres":
		dsn += "&default_query_exec_mode=exec"
	}
	return closed(w.t, sql.OpenDB(cutting{w.relayDB.Driver(), dsn, cut}))
}

// TestALostAnswerToACommit: the second try hears that the first was made, with
// the same ids; and with others, that it was made by somebody.
func TestALostAnswerToACommit(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, after := range []bool{true, false} {
			w.exec(`DELETE FROM ojs_outbox`)
			cuts := 0
			ticks := outbox.NewTicks(w.cut(func(q string, done bool) error {
				if q == "COMMIT" && done == after && cuts == 0 {
					cuts++
					return errors.New("the line is cut")
				}
				return nil
			}), w.d)
			name := fmt.Sprintf("after-%t", after)
			all := []job.Tick{tick(name, minute(1), job.OverlapSkip), tick(name, minute(0), job.OverlapSkip)}
			got, err := ticks.Fire(t.Context(), all, nil)
			if job.KindOf(err) != job.Unavailable || !strings.Contains(err.Error(), "the line is cut") || got != nil {
				t.Fatalf("got %v and %v", got, err)
			}
			if n := w.rows(); (n == 1) != after {
				t.Fatalf("%d rows after the error", n)
			}
			if got, err = ticks.Fire(t.Context(), all, nil); err != nil || got[0] != "" || got[1] != job.SkippedOverlap {
				t.Errorf("the same ids: got %q and %v", got, err)
			}
			if err := all[0].Envelope.SetID(tick("", time.Time{}, "").Envelope.ID()); err != nil {
				t.Fatal(err)
			}
			if got, err = ticks.Fire(t.Context(), all, nil); err != nil || got[0] != job.SkippedElsewhere || got[1] != job.SkippedOverlap {
				t.Errorf("another id: got %q and %v", got, err)
			}
			if w.rows() != 1 {
				t.Errorf("%d rows, want one", w.rows())
			}
		}
	})
}

// TestATransactionThatTheDatabaseGivesUp is run again, some times.
func TestATransactionThatTheDatabaseGivesUp(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for tries, want := range map[int]bool{1: true, 4: true, 5: false} {
			w.exec(`DELETE FROM ojs_outbox`)
			left := tries
			ticks := outbox.NewTicks(w.cut(func(q string, done bool) error {
				if strings.HasPrefix(q, "UPDATE ojs_outbox_ticks") && !done && left > 0 {
					left--
					return errors.New(w.d.Statements().TickAgain[0])
				}
				return nil
			}), w.d)
			got, err := ticks.Fire(t.Context(), []job.Tick{tick(fmt.Sprint("given-up-", tries), minute(0), job.OverlapSkip)}, nil)
			if (err == nil) != want || want && got[0] != "" || w.rows() == 1 != want {
				t.Errorf("given up %d times: got %q, %v and %d rows", tries, got, err, w.rows())
			}
		}
	})
}

// TestARealDeadlock: somebody holds what Fire wants next, and wants what it has.
func TestARealDeadlock(t *testing.T) {
	onShared(t, func(t *testing.T, w *world) {
		ticks, want := outbox.NewTicks(w.relayDB, w.d), tick("wanted", minute(0), job.OverlapSkip)
		fire(t, ticks, nil, "", tick("before", minute(0), job.OverlapSkip))
		tx := w.write(0, 50) // MariaDB gives up the one that has written less
		defer tx.Rollback()  // before the tables go
		at := fmt.Sprint(want.At.UnixMilli())
		if _, err := tx.Exec(`INSERT INTO ojs_outbox_ticks (name, at) VALUES ('wanted', ` + at + `)`); err != nil {
			t.Fatal(err)
		}
		waiting := w.waiting(tx)
		var wait sync.WaitGroup
		wait.Go(func() { fire(t, ticks, nil, "", want) })
		w.until("Fire waits for the tick", waiting)
		_, err := tx.Exec(`UPDATE ojs_outbox_ticks SET job_id = 'x' WHERE name = ''`)
		if err != nil {
			t.Logf("the other was given up: %v", err)
		}
		_ = tx.Rollback() // whoever was given up
		wait.Wait()
		if w.rows() != 2 {
			t.Errorf("%d rows, want two", w.rows())
		}
	})
}

// waiting tells whether another transaction of this outbox waits, for tx where that can be told.
func (w *world) waiting(tx *sql.Tx) func() bool {
	w.t.Helper()
	q := `SELECT count(*) FROM information_schema.innodb_trx AS t JOIN information_schema.processlist AS p ON p.id = t.trx_mysql_thread_id
WHERE t.trx_state = 'LOCK WAIT' AND p.db = DATABASE()`
	if w.d.Name() == "postgres" {
		var pid int
		if err := tx.QueryRow(`SELECT pg_backend_pid()`).Scan(&pid); err != nil {
			w.t.Fatal(err)
		}
		q = fmt.Sprintf(`SELECT count(*) FROM pg_stat_activity WHERE %d = ANY (pg_blocking_pids(pid))`, pid)
	}
	return func() bool {
		<-time.After(150 * time.Millisecond) // innodb_trx stays as it is while it is read more often
		var n int
		if err := w.app.QueryRow(q).Scan(&n); err != nil {
			w.t.Fatal(err)
		}
		return n > 0
	}
}

// TestFireDoesNotWaitForEver for a server that holds the ticks and says nothing.
func TestFireDoesNotWaitForEver(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ticks := outbox.NewTicks(w.relayDB, w.d)
		fire(t, ticks, nil, "", tick("before", minute(0), job.OverlapSkip))
		tx, err := w.app.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback() // it is never committed
		if _, err := tx.Exec(`UPDATE ojs_outbox_ticks SET job_id = 'x' WHERE name = ''`); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		want, began := tick("wanted", minute(0), job.OverlapSkip), time.Now()
		if got, err := ticks.Fire(ctx, []job.Tick{want}, nil); job.KindOf(err) != job.Unavailable || got != nil || time.Since(began) > 8*time.Second {
			t.Errorf("got %v and %v after %v", got, err, time.Since(began))
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		fire(t, ticks, nil, "", want)
	})
}
