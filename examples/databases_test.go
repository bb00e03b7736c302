package examples_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"
)

// newSQLite is a file that does not exist yet; db is the test's own look into it.
func newSQLite(t *testing.T) (db *sql.DB, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "app.db")
	return open(t, "sqlite", "file:"+path+"?_pragma=busy_timeout(10000)"), path
}

// newPostgres makes a database, and drops it behind the test.
func newPostgres(t *testing.T) (db *sql.DB, dsn string) {
	t.Helper()
	u, err := url.Parse(cmp.Or(os.Getenv("OUTRIDER_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test"))
	if err != nil {
		t.Fatalf("OUTRIDER_TEST_POSTGRES: %v", err)
	}
	admin, name := open(t, "pgx", u.String()), ownName()
	skipUnlessAnswered(t, admin, "PostgreSQL at "+u.Host)
	execute(t, admin, "CREATE DATABASE "+name)
	t.Cleanup(func() { execute(t, admin, "DROP DATABASE "+name+" WITH (FORCE)") })
	u.Path = "/" + name
	return open(t, "pgx", u.String()), u.String()
}

// mysqlAt is where a database is: as the driver writes it, and as everybody else does.
type mysqlAt struct {
	dsn, url string
	config   *mysql.Config
}

// newMySQL makes a database, and drops it behind the test.
func newMySQL(t *testing.T) (*sql.DB, mysqlAt) {
	t.Helper()
	c, err := mysql.ParseDSN(cmp.Or(os.Getenv("OUTRIDER_TEST_MYSQL"), "root@tcp(127.0.0.1:3306)/test"))
	if err != nil {
		t.Fatalf("OUTRIDER_TEST_MYSQL: %v", err)
	}
	admin, name := open(t, "mysql", c.FormatDSN()), ownName()
	skipUnlessAnswered(t, admin, "MariaDB or MySQL at "+c.Addr)
	execute(t, admin, "CREATE DATABASE "+name)
	t.Cleanup(func() { execute(t, admin, "DROP DATABASE "+name) })
	c.DBName = name
	u := url.URL{Scheme: "mysql", User: url.User(c.User), Host: c.Addr, Path: "/" + name}
	if c.Passwd != "" {
		u.User = url.UserPassword(c.User, c.Passwd)
	}
	return open(t, "mysql", c.FormatDSN()), mysqlAt{c.FormatDSN(), u.String(), c}
}

// play runs a file of SQL: with the mysql client as in the README, or with the
// driver, statement by statement on one connection, where there is no client.
func (at mysqlAt) play(t *testing.T, db *sql.DB, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	host, port, _ := strings.Cut(at.config.Addr, ":")
	if _, err := exec.LookPath("mysql"); err == nil && at.config.Net == "tcp" {
		cmd := command(t.Context(), "mysql", "-h", host, "-P", port, "-u", at.config.User, at.config.DBName)
		cmd.Env = append(cmd.Env, "MYSQL_PWD="+at.config.Passwd)
		cmd.Stdin = strings.NewReader(string(text))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("mysql < %s: %v\n%s", file, err, out)
		}
		return
	}
	conn, err := db.Conn(t.Context())
	must(t, err)
	defer conn.Close()
	for _, stmt := range strings.SplitAfter(string(text), ";\n") {
		if strings.TrimSpace(stmt) != "" {
			_, err := conn.ExecContext(t.Context(), stmt)
			must(t, err)
		}
	}
}

func open(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() }) // the test is over
	return db
}

func ownName() string { return "outrider_example_" + strings.ToLower(rand.Text()) }

func skipUnlessAnswered(t *testing.T, db *sql.DB, what string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := db.PingContext(ctx); err != nil {
		t.Skipf("skipped: no %s: %v", what, err)
	}
}

// execute is also called when the test's own context has ended.
func execute(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	if _, err := db.ExecContext(context.Background(), query); err != nil {
		t.Errorf("%s: %v", query, err)
	}
}
