package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/internal/appdb"
	"github.com/outrider-jobs/outrider/internal/testdb"
)

// appDB is a database such as an app has, of its own for one test.
type appDB struct {
	*sql.DB
	scheme string
	dsn    string // as a user writes it
	own    string // the schema or database, dropped behind the test
	user   string // of a user with few rights, made by limited
}

// canary is a password that must be in no output. The servers of the tests trust
// whoever connects, or are asked without it.
const canary = "c4nary-Pass"

func ownName() string { return "outrider_cmd_" + strings.ToLower(rand.Text())[:12] }

// onEachDatabase runs a test on each of the three.
func onEachDatabase(t *testing.T, test func(t *testing.T, db *appDB)) {
	t.Run("postgres", func(t *testing.T) { test(t, postgresDB(t)) })
	t.Run("mysql", func(t *testing.T) { test(t, mysqlDB(t)) })
	t.Run("sqlite", func(t *testing.T) { test(t, sqliteDB(t)) })
}

func sqliteDB(t *testing.T) *appDB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop.db")
	return &appDB{testdb.Open(t, "sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)"), appdb.SQLite, "sqlite:" + path, path, ""}
}

func postgresDB(t *testing.T) *appDB {
	t.Helper()
	u := testdb.Postgres(t)
	q := u.Query()
	own := q.Get("search_path")
	q.Set("application_name", own)
	u.RawQuery = q.Encode()
	db := &appDB{nil, appdb.Postgres, u.String(), own, ""}
	q.Set("application_name", "the_app")
	u.RawQuery = q.Encode()
	db.DB = testdb.Open(t, "pgx", u.String())
	return db
}

func mysqlDB(t *testing.T) *appDB {
	t.Helper()
	c := testdb.MySQL(t)
	u := testdb.MySQLURL(c)
	u.User = url.UserPassword(c.User, c.Passwd)
	return &appDB{testdb.Open(t, "mysql", c.FormatDSN()), appdb.MySQL, u.String(), c.DBName, ""}
}

func (db *appDB) exec(t *testing.T, stmts ...string) {
	t.Helper()
	for _, s := range stmts {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// drop is called when the test's own context has ended.
func drop(t *testing.T, db *sql.DB, stmt string) {
	if _, err := db.ExecContext(context.Background(), stmt); err != nil {
		t.Errorf("%s: %v", stmt, err)
	}
}

// init makes the outbox by the command.
func (db *appDB) init(t *testing.T, flags ...string) {
	t.Helper()
	if o := try(t, nil, append([]string{"outbox", "init", db.dsn}, flags...)...); o.code != exitOK || o.stderr != "" {
		t.Fatalf("init: %+v", o)
	}
}

// limited is the DSN of a user that has the rights of the grants, which are
// statements in which {user} stands for it.
func (db *appDB) limited(t *testing.T, grants ...string) string {
	t.Helper()
	db.user = ownName()
	u, err := url.Parse(db.dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(db.user, canary)
	quoted := db.user
	switch db.scheme {
	case appdb.Postgres:
		db.exec(t, "CREATE ROLE "+db.user+" LOGIN PASSWORD '"+canary+"'", "GRANT USAGE ON SCHEMA "+db.own+" TO "+db.user)
		t.Cleanup(func() {
			drop(t, db.DB, "DROP OWNED BY "+db.user)
			drop(t, db.DB, "DROP ROLE "+db.user)
		})
	case appdb.MySQL:
		quoted = "'" + db.user + "'@'%'"
		db.exec(t, "CREATE USER "+quoted+" IDENTIFIED BY '"+canary+"'")
		t.Cleanup(func() { drop(t, db.DB, "DROP USER "+quoted) })
	}
	for _, g := range grants {
		db.exec(t, strings.ReplaceAll(g, "{user}", quoted))
	}
	return u.String()
}

// rows counts the rows of the outbox that are in a status.
func (db *appDB) rows(t *testing.T, status string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM ojs_outbox WHERE status = '"+status+"'").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, limit time.Duration, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); {
		if time.Since(began) > limit {
			t.Fatalf("after %v still not: %s", limit, what)
		}
		<-time.After(20 * time.Millisecond)
	}
}
