package once_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/once"
)

// onEachDatabase runs a test on every database that answers, with the
// transactions of database/sql and of sqlx.
func onEachDatabase(t *testing.T, test func(t *testing.T, db *sql.DB, begin func(context.Context) (once.Tx, error))) {
	t.Helper()
	for _, d := range []struct {
		name, driver string
		open         func(*testing.T) *sql.DB
	}{{"SQLite", "sqlite", openSQLite}, {"PostgreSQL", "pgx", openPostgres}, {"MariaDB", "mysql", openMySQL}} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			for name, begin := range map[string]func(*sql.DB) func(context.Context) (once.Tx, error){
				"sql.Tx": func(db *sql.DB) func(context.Context) (once.Tx, error) {
					return func(ctx context.Context) (once.Tx, error) { return db.BeginTx(ctx, nil) }
				},
				"sqlx.Tx": func(db *sql.DB) func(context.Context) (once.Tx, error) {
					x := sqlx.NewDb(db, d.driver)
					return func(ctx context.Context) (once.Tx, error) { return x.BeginTxx(ctx, nil) }
				},
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					db := d.open(t)
					test(t, db, begin(db))
				})
			}
		})
	}
}

// prepare makes the tables: of Record, and of an effect.
func prepare(t *testing.T, db *sql.DB) {
	t.Helper()
	if err := once.Create(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "CREATE TABLE effects (job_id CHAR(36) NOT NULL)")
}

func exec(t *testing.T, db once.Execer, query string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func number(t *testing.T, db *sql.DB, query string) (n int64) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// recordOnce is Record in a transaction that is then ended.
func recordOnce(t *testing.T, begin func(context.Context) (once.Tx, error), j *job.Job, end func(once.Tx) error) bool {
	t.Helper()
	tx, err := begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first, err := once.Record(t.Context(), tx, j)
	if err := errors.Join(err, end(tx)); err != nil {
		t.Fatal(err)
	}
	return first
}

func TestRecordIsTrueOnceCommitted(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, db *sql.DB, begin func(context.Context) (once.Tx, error)) {
		prepare(t, db)
		a, b := newJob(1, "a.b"), newJob(2, "a.b")
		for i, step := range []struct {
			j    *job.Job
			end  func(once.Tx) error
			want bool
		}{
			{a, once.Tx.Rollback, true}, // nothing stays of it
			{a, once.Tx.Commit, true},
			{a, once.Tx.Commit, false},
			{a, once.Tx.Rollback, false},
			{b, once.Tx.Commit, true},
			{b, once.Tx.Commit, false},
		} {
			if got := recordOnce(t, begin, step.j, step.end); got != step.want {
				t.Errorf("step %d: first is %t", i, got)
			}
		}
		if n := number(t, db, "SELECT COUNT(*) FROM ojs_processed_jobs"); n != 2 {
			t.Errorf("%d records, want 2", n)
		}
	})
}

// Whatever Record says, the transaction can go on, and rows that were written
// before are not taken for the record.
func TestRecordLeavesTheTransactionUsable(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, db *sql.DB, begin func(context.Context) (once.Tx, error)) {
		prepare(t, db)
		for _, want := range []bool{true, false, false} {
			tx, err := begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			exec(t, tx, "INSERT INTO effects (job_id) VALUES ('before')")
			if got, err := once.Record(t.Context(), tx, newJob(1, "a.b")); err != nil || got != want {
				t.Errorf("got %t, %v, want %t", got, err, want)
			}
			if got, err := once.Record(t.Context(), tx, newJob(1, "a.b")); err != nil || got {
				t.Errorf("a second time in one transaction: got %t, %v", got, err)
			}
			exec(t, tx, "INSERT INTO effects (job_id) VALUES ('after')")
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		if n := number(t, db, "SELECT COUNT(*) FROM effects"); n != 6 {
			t.Errorf("%d rows beside the record, want 6", n)
		}
	})
}

// deliver is the pattern of Record: one delivery of a job to a handler.
func deliver(ctx context.Context, begin func(context.Context) (once.Tx, error), j *job.Job) (applied bool, err error) {
	tx, err := begin(ctx)
	if err != nil {
		return false, err
	}
	defer tx.Rollback() // after Commit it does nothing
	first, err := once.Record(ctx, tx, j)
	if err != nil || !first {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO effects (job_id) VALUES ('"+string(j.ID)+"')"); err != nil {
		return false, err
	}
	return true, tx.Commit()
}

// Two deliveries of one job at the same moment, a hundred times. One that fails
// is delivered again, as the server would do.
func TestRecordAppliesTheEffectOnce(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, db *sql.DB, begin func(context.Context) (once.Tx, error)) {
		prepare(t, db)
		const rounds = 100
		for n := range rounds {
			j := newJob(n, "a.b")
			start, applied := make(chan struct{}), make([]bool, 2)
			var wg sync.WaitGroup
			for i := range applied {
				wg.Go(func() {
					<-start
					var err error
					for range 20 {
						if applied[i], err = deliver(t.Context(), begin, j); err == nil {
							return
						}
					}
					t.Errorf("round %d: %v", n, err)
				})
			}
			close(start)
			wg.Wait()
			if applied[0] == applied[1] {
				t.Errorf("round %d: first twice, or never: %v", n, applied)
			}
		}
		if n := number(t, db, "SELECT COUNT(*) FROM effects"); n != rounds {
			t.Errorf("%d effects of %d jobs", n, rounds)
		}
		if n := number(t, db, "SELECT COUNT(DISTINCT job_id) FROM effects"); n != rounds {
			t.Errorf("effects of %d jobs, want %d", n, rounds)
		}
	})
}

// The second waits for the end of the first, and is told what came of it.
func TestRecordWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, db *sql.DB, begin func(context.Context) (once.Tx, error)) {
		prepare(t, db)
		for i, tt := range []struct {
			end  func(once.Tx) error
			want bool
		}{{once.Tx.Commit, false}, {once.Tx.Rollback, true}} {
			j := newJob(i, "a.b")
			tx, err := begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if first, err := once.Record(t.Context(), tx, j); err != nil || !first {
				t.Fatalf("got %t, %v", first, err)
			}
			second, began := make(chan bool), make(chan struct{})
			go func() {
				close(began)
				first, err := deliver(t.Context(), begin, j)
				if err != nil {
					t.Errorf("the second delivery: %v", err)
				}
				second <- first
			}()
			<-began
			if err := tt.end(tx); err != nil {
				t.Fatal(err)
			}
			if got := <-second; got != tt.want {
				t.Errorf("%d: the second has first %t, want %t", i, got, tt.want)
			}
		}
	})
}

// Unrelated jobs do not get into each other's way.
func TestRecordOfDifferentJobsAtTheSameTime(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, db *sql.DB, begin func(context.Context) (once.Tx, error)) {
		prepare(t, db)
		var wg sync.WaitGroup
		for n := range 4 {
			wg.Go(func() {
				for i := range 50 {
					if applied, err := deliver(t.Context(), begin, newJob(i*4+n, "a.b")); err != nil || !applied {
						t.Errorf("job %d: got %t, %v", i*4+n, applied, err)
						return
					}
				}
			})
		}
		wg.Wait()
		if n := number(t, db, "SELECT COUNT(*) FROM effects"); n != 200 {
			t.Errorf("%d effects, want 200", n)
		}
	})
}

func TestRecordErrors(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, db *sql.DB, begin func(context.Context) (once.Tx, error)) {
		for _, tt := range []struct {
			j    *job.Job
			kind job.Kind
			text string
		}{
			{nil, job.Invalid, "record a job as processed: it has no valid id"},
			{&job.Job{}, job.Invalid, "record a job as processed: it has no valid id"},
			{&job.Job{Envelope: job.Envelope{ID: "'; DROP TABLE effects; --"}}, job.Invalid, "record a job as processed: it has no valid id"},
			{newJob(1, "a.b"), job.Unavailable, "record job 019539a4-b68c-7def-8000-000000000001 as processed: "},
		} {
			tx, err := begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			first, err := once.Record(t.Context(), tx, tt.j)
			if first || err == nil || job.KindOf(err) != tt.kind || !strings.HasPrefix(err.Error(), tt.text) {
				t.Errorf("got %t, %v, want %s", first, err, tt.text)
			}
			if tt.kind == job.Unavailable && !strings.HasSuffix(err.Error(), "(if there is no table ojs_processed_jobs, make it with once.Create)") {
				t.Errorf("no advice in %v", err)
			}
			_ = tx.Rollback() // there is nothing in it
		}
		if _, err := once.Prune(t.Context(), db, time.Now()); err == nil || job.KindOf(err) != job.Unavailable {
			t.Errorf("prune without a table: %v", err)
		}
	})
}

func TestPrune(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, db *sql.DB, begin func(context.Context) (once.Tx, error)) {
		prepare(t, db)
		for n := range 5 {
			recordOnce(t, begin, newJob(n, "a.b"), once.Tx.Commit)
			exec(t, db, fmt.Sprintf("UPDATE ojs_processed_jobs SET processed_at = %d WHERE job_id = '%s'", 1000*n, newJob(n, "").ID))
		}
		for _, tt := range []struct{ before, want, left int64 }{{0, 0, 5}, {2000, 2, 3}, {2001, 1, 2}, {2001, 0, 2}} {
			n, err := once.Prune(t.Context(), db, time.UnixMilli(tt.before))
			if left := number(t, db, "SELECT COUNT(*) FROM ojs_processed_jobs"); err != nil || n != tt.want || left != tt.left {
				t.Errorf("before %d: removed %d, left %d, %v, want %d, %d", tt.before, n, left, err, tt.want, tt.left)
			}
		}
		if recordOnce(t, begin, newJob(4, "a.b"), once.Tx.Rollback) {
			t.Error("a record that is young enough was removed")
		}
		before := time.Now().UnixMilli()
		recordOnce(t, begin, newJob(9, "a.b"), once.Tx.Commit)
		if at := number(t, db, "SELECT MAX(processed_at) FROM ojs_processed_jobs"); at < before || at > time.Now().UnixMilli() {
			t.Errorf("processed at %d, which is not now", at)
		}
	})
}

// Every worker may make the table when it starts.
func TestCreateByMany(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, db *sql.DB, begin func(context.Context) (once.Tx, error)) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := once.Create(t.Context(), db); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if !recordOnce(t, begin, newJob(1, "a.b"), once.Tx.Commit) {
			t.Error("not first in a new table")
		}
		if err := once.Create(t.Context(), db); err != nil || recordOnce(t, begin, newJob(1, "a.b"), once.Tx.Commit) {
			t.Errorf("a second Create forgot the records, or failed: %v", err)
		}
	})
}

// On MySQL the table must know transactions whatever the default engine is, and
// pruning must not look at, and so lock, other rows.
func TestTableOnMySQL(t *testing.T) {
	t.Parallel()
	db := openMySQL(t)
	prepare(t, db)
	var name, made string
	if err := db.QueryRowContext(t.Context(), "SHOW CREATE TABLE ojs_processed_jobs").Scan(&name, &made); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ENGINE=InnoDB", "PRIMARY KEY (`job_id`)", "KEY `ojs_processed_jobs_at` (`processed_at`)"} {
		if !strings.Contains(made, want) {
			t.Errorf("no %s in %s", want, made)
		}
	}
}

// newJob is a job with a number as its id.
func newJob(n int, jobType string) *job.Job {
	return &job.Job{Envelope: job.Envelope{ID: job.ID(fmt.Sprintf("019539a4-b68c-7def-8000-%012d", n)), Type: jobType, Args: json.RawMessage("[]")}}
}
