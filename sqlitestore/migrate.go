package sqlitestore

import (
	"database/sql/driver"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/outrider-jobs/outrider/job"
)

// Whose a file is, and of which age, stands in its header.
const (
	applicationID = 0x4f555452 // "OUTR"
	version       = 3          // of schema.sql
)

// migrate checks whose the file is, and brings the schema of an older one up to date.
func migrate(conn driver.Conn, path string, log *slog.Logger) error {
	app, err := number(conn, "PRAGMA application_id")
	if err != nil {
		return err
	}
	v, err := number(conn, "PRAGMA user_version")
	if err != nil {
		return err
	}
	if err := judge(path, app, v); err != nil || v == version {
		return err
	}
	if err := upgrade(conn, path, v); err != nil {
		return err
	}
	log.Info("the database was migrated to this version's schema; an older version cannot open it any more", "path", path, "from", v, "to", version)
	return nil
}

// judge says whether a file with this header is a store that this program can use.
func judge(path string, app, v int64) error {
	switch {
	case app != applicationID:
		return job.Errorf(job.Unavailable, "%s is a SQLite database of another program (application_id %#x); choose another file, this one was not changed", path, app)
	case v > version:
		return job.Errorf(job.Unavailable, "%s has schema %d, this outrider knows %d; start a newer outrider or restore the backup from before the upgrade, the file was not changed", path, v, version)
	case v < oldest:
		return job.Errorf(job.Unavailable, "%s has schema %d, so it was written by a build of outrider from before the first release, this one reads schema %d to %d; start with a new file, this one was not changed", path, v, oldest, version)
	}
	return nil
}

// number is the one number that a statement answers.
func number(conn driver.Conn, query string) (int64, error) {
	v, err := one(conn, query)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(fmt.Sprint(v), 10, 64)
}
