package outbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/go-sql-driver/mysql"

	"github.com/outrider-jobs/outrider/outbox"
)

// counting is a connector that counts what is asked of the database.
type counting struct {
	driver.Connector
	asked *atomic.Int64
}

func (c counting) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	return countingConn{conn, c.asked}, err
}

type countingConn struct {
	driver.Conn
	asked *atomic.Int64
}

func (c countingConn) QueryContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Rows, error) {
	c.asked.Add(1)
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, q, args)
}

func (c countingConn) ExecContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Result, error) {
	c.asked.Add(1)
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, q, args)
}

func (c countingConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	c.asked.Add(1)
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
}

func (c countingConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.Conn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// TestAnIdleRelayAsksOncePerInterval: where there is nothing to do the database
// of the app sees one question in each idle interval, and no transaction.
func TestAnIdleRelayAsksOncePerInterval(t *testing.T) {
	onShared(t, func(t *testing.T, w *world) {
		var asked atomic.Int64
		var connector driver.Connector
		if w.d.Name() == "postgres" {
			c, err := pgx.ParseConfig(w.path)
			if err != nil {
				t.Fatal(err)
			}
			c.DefaultQueryExecMode = pgx.QueryExecModeExec
			connector = stdlib.GetConnector(*c)
		} else {
			c, err := mysql.ParseDSN(w.path)
			if err != nil {
				t.Fatal(err)
			}
			c.InterpolateParams = true // one trip a question
			if connector, err = mysql.NewConnector(c); err != nil {
				t.Fatal(err)
			}
		}
		const idle = 50 * time.Millisecond
		db := closed(t, sql.OpenDB(counting{connector, &asked}))
		stop := run(t, outbox.NewRelay(db, w.d, w.server, outbox.RelayOptions{Idle: idle, Busy: time.Millisecond, Log: new(journal).log()}))
		defer stop()
		w.commit(w.write(0, 3))
		w.until("the rows are gone", func() bool { return w.rows() == 0 })
		<-time.After(25 * idle) // it is cold then
		before, began := asked.Load(), time.Now()
		<-time.After(20 * idle)
		if n, most := asked.Load()-before, int64(time.Since(began)/idle)+1; n > most || n == 0 {
			t.Errorf("%d questions in %d idle intervals", n, most)
		}
	})
}
