package once_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/outrider-jobs/outrider/internal/testdb"
)

func openSQLite(t *testing.T) *sql.DB {
	t.Helper()
	return open(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "app.db")+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)")
}

func openPostgres(t *testing.T) *sql.DB {
	t.Helper()
	return open(t, "pgx", testdb.Postgres(t).String())
}

func openMySQL(t *testing.T) *sql.DB {
	t.Helper()
	return open(t, "mysql", testdb.MySQL(t).FormatDSN())
}

func open(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db := testdb.Open(t, driver, dsn)
	db.SetMaxOpenConns(8)
	return db
}
