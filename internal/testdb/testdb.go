package testdb

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
)

// Postgres returns the URL of a new schema in PostgreSQL, which is its search_path.
func Postgres(t testing.TB) *url.URL {
	t.Helper()
	u, name := postgres(t), newName()
	create(t, "pgx", u.String(), "SCHEMA "+name, " CASCADE")
	q := u.Query()
	q.Set("search_path", name)
	u.RawQuery = q.Encode()
	return u
}

// PostgresDatabase returns the URL of a new database in PostgreSQL, for programs
// that do not know of search_path.
func PostgresDatabase(t testing.TB) *url.URL {
	t.Helper()
	u, name := postgres(t), newName()
	create(t, "pgx", u.String(), "DATABASE "+name, " WITH (FORCE)")
	u.Path = "/" + name
	return u
}

// MySQL returns where a new database in MySQL or MariaDB is.
func MySQL(t testing.TB) *mysql.Config {
	t.Helper()
	c, err := mysql.ParseDSN(cmp.Or(os.Getenv("OUTRIDER_TEST_MYSQL"), "root@tcp(127.0.0.1:3306)/test"))
	if err != nil {
		t.Fatalf("OUTRIDER_TEST_MYSQL: %v", err)
	}
	name := newName()
	create(t, "mysql", c.FormatDSN(), "DATABASE "+name, "")
	c.DBName = name
	return c
}

// MySQLURL is a config as a URL, as everybody but the driver writes it.
func MySQLURL(c *mysql.Config) *url.URL {
	u := url.URL{Scheme: "mysql", Host: c.Addr, Path: "/" + c.DBName, User: url.User(c.User)}
	if c.Passwd != "" {
		u.User = url.UserPassword(c.User, c.Passwd)
	}
	return &u
}

// Open opens a database that is closed behind the test.
func Open(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // the test is over
	return db
}

func postgres(t testing.TB) *url.URL {
	t.Helper()
	u, err := url.Parse(cmp.Or(os.Getenv("OUTRIDER_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test"))
	if err != nil {
		t.Fatal("OUTRIDER_TEST_POSTGRES is no URL") // the error would show a password
	}
	return u
}

func newName() string { return "outrider_test_" + strings.ToLower(rand.Text())[:16] }

// create makes what is dropped behind the test, when its own context has ended.
func create(t testing.TB, driver, dsn, what, drop string) {
	t.Helper()
	admin := Open(t, driver, dsn)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := admin.PingContext(ctx); err != nil {
		t.Skipf("skipped: no server for driver %s: %v", driver, err)
	}
	t.Cleanup(func() {
		if _, err := admin.ExecContext(context.Background(), "DROP "+what+drop); err != nil {
			t.Errorf("drop %s: %v", what, err)
		}
	})
	if _, err := admin.ExecContext(t.Context(), "CREATE "+what); err != nil {
		t.Fatalf("create %s: %v", what, err)
	}
}
