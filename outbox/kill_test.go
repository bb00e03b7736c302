package outbox_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

const childEnv = "OUTBOX_TEST_CHILD"

// durable is a job server on disk: an id once, and how often it came.
type durable struct {
	job.Enqueuer
	db *sql.DB
}

func openDurable(path string) (durable, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err == nil {
		_, err = db.Exec(`CREATE TABLE IF NOT EXISTS jobs (id TEXT PRIMARY KEY, args TEXT, came INTEGER)`)
	}
	return durable{db: db}, err
}

func (d durable) EnqueueChecked(ctx context.Context, cs ...job.Checked) ([]job.Receipt, error) {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	for _, c := range cs {
		e := c.Envelope()
		if _, err := tx.Exec(`INSERT INTO jobs VALUES (?, ?, 1) ON CONFLICT (id) DO UPDATE SET came = came + 1`, e.ID, string(e.Args)); err != nil {
			return nil, err
		}
	}
	return make([]job.Receipt, len(cs)), tx.Commit()
}

// child relays until its third batch is stored and not yet marked, says so, and hangs.
func child() bool {
	dir := os.Getenv(childEnv)
	if dir == "" {
		return false
	}
	fail := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	d, err := sqlite.Dialect("")
	fail(err)
	db, err := sql.Open("sqlite", sqlite.DSN(filepath.Join(dir, "shop.db")))
	fail(err)
	to, err := openDurable(filepath.Join(dir, "jobs.db"))
	fail(err)
	batches := 0
	r := outbox.NewRelay(db, d, to, outbox.RelayOptions{Owner: "the job server", Keep: time.Hour, Batch: 40, OnRelay: func([]outbox.Relayed) {
		if batches++; batches == 3 {
			fmt.Println("sent")
			select {}
		}
	}})
	for {
		_, err := r.Step(context.Background())
		fail(err)
	}
}

func TestAKillBetweenSendAndMark(t *testing.T) {
	const rows, kills = 400, 3
	w := newWorld(t)
	w.mail(rows)
	dir := filepath.Dir(w.path)
	for range kills {
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), childEnv+"="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || line != "sent\n" {
			t.Errorf("the child said %q, %v", line, err)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
	}
	to, err := openDurable(filepath.Join(dir, "jobs.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer to.db.Close()
	w.drain(outbox.NewRelay(w.relayDB, w.d, to, outbox.RelayOptions{Owner: "the job server", Keep: time.Hour}))
	var jobs, different, came int
	if err := to.db.QueryRow(`SELECT count(*), count(DISTINCT args), sum(came) FROM jobs`).Scan(&jobs, &different, &came); err != nil {
		t.Fatal(err)
	}
	if jobs != rows || different != rows || came != rows+kills*40 || w.count("sent") != rows {
		t.Errorf("got %d jobs, %d different, %d calls' worth, %d sent; want %d, %[5]d, %d, %[5]d", jobs, different, came, w.count("sent"), rows, rows+kills*40)
	}
	if got := w.text(`PRAGMA integrity_check`); got != "ok" {
		t.Errorf("integrity_check: %s", got)
	}
}
