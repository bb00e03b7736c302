package examples_test

import (
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	_ "modernc.org/sqlite"

	"github.com/outrider-jobs/outrider/internal/testdb"
)

// newSQLite is a file that does not exist yet; db is the test's own look into it.
func newSQLite(t *testing.T) (db *sql.DB, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "app.db")
	return testdb.Open(t, "sqlite", "file:"+path+"?_pragma=busy_timeout(10000)"), path
}

// newPostgres makes a database, and drops it behind the test.
func newPostgres(t *testing.T) (db *sql.DB, dsn string) {
	t.Helper()
	dsn = testdb.PostgresDatabase(t).String()
	return testdb.Open(t, "pgx", dsn), dsn
}

// mysqlAt is where a database is: as the driver writes it, and as everybody else does.
type mysqlAt struct {
	dsn, url string
	config   *mysql.Config
}

// newMySQL makes a database, and drops it behind the test.
func newMySQL(t *testing.T) (*sql.DB, mysqlAt) {
	t.Helper()
	c := testdb.MySQL(t)
	return testdb.Open(t, "mysql", c.FormatDSN()), mysqlAt{c.FormatDSN(), testdb.MySQLURL(c).String(), c}
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
