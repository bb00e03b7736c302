package sqlitestore

import (
	"database/sql/driver"
	"fmt"
	"log/slog"
	"strconv"

	outrider "github.com/outrider-jobs/outrider"
	"github.com/outrider-jobs/outrider/job"
)

// Whose a file is, and of which age, stands in its header.
const (
	applicationID = 0x4f555452 // "OUTR"
	version       = 2          // of schema.sql
)

// migrate makes the schema in an empty file, brings it up to date in an older
// one, and checks it in another.
func migrate(conn driver.Conn, path string, log *slog.Logger) error {
	app, err := number(conn, "PRAGMA application_id")
	if err != nil {
		return err
	}
	v, err := number(conn, "PRAGMA user_version")
	if err != nil {
		return err
	}
	tables, err := number(conn, "SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return err
	}
	if app == 0 && v == 0 && tables == 0 {
		return build(conn)
	}
	if err := judge(path, app, v); err != nil || v == version {
		return err
	}
	if err := upgrade(conn, path); err != nil {
		return err
	}
	log.Info("the database was brought to the schema of this outrider; an older one cannot use it any more", "path", path, "from", v, "to", version)
	return nil
}

// judge says whether a file with this header is a store that this program can use.
func judge(path string, app, v int64) error {
	switch {
	case app != applicationID:
		return job.Errorf(job.Unavailable, "%s is a SQLite database of another program (application_id %#x); choose another file with --db, this one was not changed", path, app)
	case v > version:
		return job.Errorf(job.Unavailable, "%s has schema %d, this outrider knows %d; start a newer outrider or restore the backup from before the upgrade, the file was not changed", path, v, version)
	case v < oldest:
		return job.Errorf(job.Unavailable, "%s has schema %d, so it was written by a build of outrider from before the first release, this one reads schema %d to %d; start with a new file with --db, this one was not changed", path, v, oldest, version)
	}
	return nil
}

// build makes the schema in one transaction and moves it into the main file, so
// that the header tells whose the file is even without its log.
func build(conn driver.Conn) error {
	// auto_vacuum takes effect only before the first table, and not inside a transaction.
	if err := script(conn, "PRAGMA auto_vacuum = INCREMENTAL; VACUUM"); err != nil {
		return fmt.Errorf("prepare an empty database: %w", err)
	}
	err := script(conn, "BEGIN IMMEDIATE;"+outrider.Schema+
		fmt.Sprintf("; PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT", applicationID, version))
	if err != nil {
		return fmt.Errorf("make the schema: %w", err)
	}
	return script(conn, "PRAGMA wal_checkpoint(TRUNCATE)")
}

// number is the one number that a statement answers.
func number(conn driver.Conn, query string) (int64, error) {
	v, err := one(conn, query)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(fmt.Sprint(v), 10, 64)
}
