package outbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync/atomic"
	"testing"

	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/outbox"
)

// impatience connects as its driver does, and counts who would wait for ever.
type impatience struct {
	driver           driver.Driver
	dsn              string
	reached, forever atomic.Int64
}

func (c *impatience) Connect(ctx context.Context) (driver.Conn, error) {
	c.reached.Add(1)
	if _, bounded := ctx.Deadline(); !bounded {
		c.forever.Add(1)
	}
	return c.driver.Open(c.dsn)
}

// TestNobodyIsWaitedForForEver: a relay that hangs where it connects, or where it
// looks why a statement has failed, loses its lease and says nothing.
func TestNobodyIsWaitedForForEver(t *testing.T) {
	w := newWorld(t)
	c := &impatience{driver: w.app.Driver(), dsn: sqlite.DSN(w.path)}
	w.relayDB = sql.OpenDB(c)
	defer w.relayDB.Close()
	w.relayDB.SetMaxIdleConns(-1) // each is a new one
	d := w.d.Statements()
	d.Leases = "no statement"
	r := outbox.NewRelay(w.relayDB, outbox.NewDialect(d), w.server, outbox.RelayOptions{Log: new(journal).log()})
	if _, err := r.Step(t.Context()); err == nil {
		t.Fatal("it knows of the others")
	}
	stop := run(t, r)
	defer stop()
	w.until("it tries again", func() bool { return r.State().Trouble && c.reached.Load() > 4 })
	if n := c.forever.Load(); n > 0 {
		t.Errorf("%d of %d connections are waited for for ever", n, c.reached.Load())
	}
}

func (c *impatience) Driver() driver.Driver { return c.driver }
