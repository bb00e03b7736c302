package outbox_test

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/outbox"
)

// impatient is an app that writes about 500 times a second and cannot wait for
// a lock. It returns how often it wrote, and how often it was locked out.
func impatient(t testing.TB, w *world, long time.Duration, pause func() time.Duration) (writes, busy int) {
	db := w.open("file:" + w.path + "?_pragma=busy_timeout(0)&_pragma=synchronous(NORMAL)&_txlock=immediate")
	db.SetMaxOpenConns(1)
	for end := time.Now().Add(long); time.Now().Before(end); writes++ {
		if err := order(t.Context(), db); err != nil {
			busy++
		}
		next := time.NewTimer(pause())
		<-next.C
	}
	return writes, busy
}

// order is what an app does: its own row and the job's, in one transaction.
func order(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.Exec(`INSERT INTO orders (what) VALUES ('a book')`); err != nil {
		return err
	}
	if _, err := tx.Exec(`INSERT INTO ojs_outbox (job_type, job_args) VALUES ('email.send', '["ada@example.com","thank you for your order"]')`); err != nil {
		return err
	}
	return tx.Commit()
}

func TestTheAppIsNotLockedOut(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: it writes for seconds, and -short asks for none of that")
	}
	for name, pause := range map[string]func() time.Duration{
		"steady": func() time.Duration { return 2 * time.Millisecond },
		"random": func() time.Duration { return time.Duration(rand.ExpFloat64() * float64(2*time.Millisecond)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.exec(`CREATE TABLE orders (id INTEGER PRIMARY KEY, what TEXT)`)
			var sent atomic.Int64
			stop := run(t, w.relay(outbox.RelayOptions{OnRelay: func(rs []outbox.Relayed) { sent.Add(int64(len(rs))) }}))
			writes, busy := impatient(t, w, 3*time.Second, pause)
			during := sent.Load()
			stop()
			w.drain(w.relay(outbox.RelayOptions{}))
			t.Logf("%d writes, %d of them refused (%.3f%%), %d rows relayed meanwhile", writes, busy, 100*float64(busy)/float64(writes), during)
			if busy*100 > writes && !raced {
				t.Errorf("got %d of %d writes refused, want less than 1%%", busy, writes)
			}
			if jobs, _, _ := w.server.sizes(); jobs != writes-busy || int(during) < jobs/2 {
				t.Errorf("got %d jobs of %d rows, %d of them at once", jobs, writes-busy, during)
			}
		})
	}
}
