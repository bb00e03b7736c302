package once_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"
)

func openSQLite(t *testing.T) *sql.DB {
	t.Helper()
	return open(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "app.db")+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)")
}

// openPostgres opens a schema of its own, which is dropped behind the test.
func openPostgres(t *testing.T) *sql.DB {
	t.Helper()
	dsn := cmp.Or(os.Getenv("OUTRIDER_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test")
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatalf("OUTRIDER_TEST_POSTGRES: %v", err)
	}
	admin, schema := open(t, "pgx", dsn), ownName()
	skipUnlessAnswered(t, admin, "PostgreSQL at "+u.Host)
	exec(t, admin, "CREATE SCHEMA "+schema)
	t.Cleanup(func() { drop(t, admin, "DROP SCHEMA "+schema+" CASCADE") })
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return open(t, "pgx", u.String())
}

// openMySQL opens a database of its own, which is dropped behind the test.
func openMySQL(t *testing.T) *sql.DB {
	t.Helper()
	c, err := mysql.ParseDSN(cmp.Or(os.Getenv("OUTRIDER_TEST_MYSQL"), "root@tcp(127.0.0.1:3306)/test"))
	if err != nil {
		t.Fatalf("OUTRIDER_TEST_MYSQL: %v", err)
	}
	admin, name := open(t, "mysql", c.FormatDSN()), ownName()
	skipUnlessAnswered(t, admin, "MariaDB or MySQL at "+c.Addr)
	exec(t, admin, "CREATE DATABASE "+name)
	t.Cleanup(func() { drop(t, admin, "DROP DATABASE "+name) })
	c.DBName = name
	return open(t, "mysql", c.FormatDSN())
}

func open(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(8)
	t.Cleanup(func() { _ = db.Close() }) // the test is over
	return db
}

func ownName() string { return "outrider_once_" + strings.ToLower(rand.Text()) }

func skipUnlessAnswered(t *testing.T, db *sql.DB, what string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := db.PingContext(ctx); err != nil {
		t.Skipf("skipped: no %s: %v", what, err)
	}
}

// drop is called when the test's own context has ended.
func drop(t *testing.T, db *sql.DB, query string) {
	if _, err := db.ExecContext(context.Background(), query); err != nil {
		t.Errorf("%s: %v", query, err)
	}
}
