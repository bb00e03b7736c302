package once

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// Table is the statement that makes the table of [Record], for those who keep the
// schema of the app in files of its own. It works as it is on SQLite,
// PostgreSQL, MySQL and MariaDB, of which the last two read what stands in /*! */:
// there [Prune] would else lock the rows that it only looks at, and some
// engines know no transactions. processed_at is milliseconds since 1970.
const Table = `CREATE TABLE IF NOT EXISTS ojs_processed_jobs (
	job_id       CHAR(36) NOT NULL PRIMARY KEY,
	processed_at BIGINT   NOT NULL /*!, INDEX ojs_processed_jobs_at (processed_at) */
) /*! ENGINE = InnoDB */`

// Execer is what [Create] and [Prune] need of a database. *sql.DB and
// *sqlx.DB have it.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Tx is what [Record] needs of a transaction. *sql.Tx and *sqlx.Tx have it. A
// database handle has not, and on purpose: a record outside of the transaction
// of the effect protects nothing. Record neither commits nor rolls back.
type Tx interface {
	Execer
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	Commit() error
	Rollback() error
}

// Record records inside tx, a transaction of the app's own database, that the job
// is processed, and reports whether it is the first to do so. A handler whose
// effects are in tx too takes effect once, however often its job is delivered:
// effect and record commit together or not at all (ojs-delivery-guarantees.md
// §7.4). The example shows the pattern:
//
//   - call Record first, before the effects;
//   - when first is false, roll back and return nil: the job was processed
//     before, and only its ACK was lost;
//   - after an error, also of Record, roll back and return it: the job is retried;
//   - return nil only after the commit has succeeded.
//
// Of two transactions that record one job at the same time, the second waits for
// the end of the first and then has first false, or an error where the database
// cannot go on (a lock that took too long, a deadlock, a snapshot that is too
// old). Both never have first true. Effects outside of the database, such as
// mail, are not in tx and are not protected. Records must outlive the
// redeliveries; see [Prune].
//
// It works on SQLite, PostgreSQL, MySQL and MariaDB, where the table must be: see
// [Create]. Errors are Invalid for a job without a valid id, and Unavailable
// when the database refuses.
func Record(ctx context.Context, tx Tx, j *job.Job) (first bool, err error) {
	if j == nil || !job.ValidID(string(j.ID)) {
		return false, job.Errorf(job.Invalid, "record a job as processed: it has no valid id")
	}
	insert, err := insertion(ctx, tx, j.ID, time.Now())
	if err == nil {
		first, err = oneRow(tx.ExecContext(ctx, insert))
	}
	if err != nil {
		return false, job.Errorf(job.Unavailable, "record job %s as processed: %w (if there is no table ojs_processed_jobs, make it with once.Create)", j.ID, err)
	}
	return first, nil
}

// askMySQL is 2 on MySQL and MariaDB, and 1 elsewhere, where /*! */ is a
// comment. It reads no table, so it begins no snapshot.
const askMySQL = `SELECT 1 /*! + 1 */`

// insertion is the statement that adds the record or, if it is there, nothing.
// There is no such statement that all databases know. INSERT … WHERE NOT EXISTS
// comes near, but fails the second of two on PostgreSQL, and on MySQL locks gaps,
// so that unrelated jobs deadlock. Placeholders differ, too: the values are an id
// of hexadecimal digits and a number, and stand in the text.
func insertion(ctx context.Context, tx Tx, id job.ID, now time.Time) (string, error) {
	var dialect int
	if err := tx.QueryRowContext(ctx, askMySQL).Scan(&dialect); err != nil {
		return "", err
	}
	values := fmt.Sprintf("INTO ojs_processed_jobs (job_id, processed_at) VALUES ('%s', %d)", id, now.UnixMilli())
	if dialect == 2 {
		return "INSERT IGNORE " + values, nil
	}
	return "INSERT " + values + " ON CONFLICT DO NOTHING", nil
}

func oneRow(r sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n == 1, err
}

// Create makes the table of [Record] where it is missing. It may be called at
// every start, and by several processes. The error is Unavailable.
func Create(ctx context.Context, db Execer) error {
	_, err := db.ExecContext(ctx, Table)
	if err != nil {
		// PostgreSQL may fail one of two that make a table at the same time. Now it is there.
		_, err = db.ExecContext(ctx, Table)
	}
	if err != nil {
		return job.Errorf(job.Unavailable, "make the table ojs_processed_jobs: %w", err)
	}
	return nil
}

// Prune removes the records of jobs that were processed before t and returns
// how many. A job that is delivered again after its record was removed takes
// effect again, so t must lie further back than any job can still be delivered
// again, or be retried by hand from the dead letter queue: the server keeps dead
// letters for 180 days unless told otherwise. The error is Unavailable.
func Prune(ctx context.Context, db Execer, t time.Time) (int64, error) {
	r, err := db.ExecContext(ctx, fmt.Sprintf("DELETE FROM ojs_processed_jobs WHERE processed_at < %d", t.UnixMilli()))
	var n int64
	if err == nil {
		n, err = r.RowsAffected()
	}
	if err != nil {
		return 0, job.Errorf(job.Unavailable, "remove old records of processed jobs: %w", err)
	}
	return n, nil
}
