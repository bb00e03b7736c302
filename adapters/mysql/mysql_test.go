package mysql_test

import (
	"cmp"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"

	"github.com/outrider-jobs/outrider/adapters/mysql"
	"github.com/outrider-jobs/outrider/job"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestTheSQL is all of the dialect under another name, compared whole: no
// statement may speak of ojs_outbox any more.
func TestTheSQL(t *testing.T) {
	d, err := mysql.Dialect("shop_jobs")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	v := reflect.ValueOf(d)
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			fmt.Fprintf(&b, "== %s\n%s\n", v.Type().Field(i).Name, strings.TrimSpace(f.String()))
		case reflect.Slice:
			fmt.Fprintf(&b, "== %s\n%s\n", v.Type().Field(i).Name, strings.Join(f.Interface().([]string), "\n"))
		}
	}
	got, file := b.String(), filepath.Join("testdata", "shop_jobs.sql")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the SQL has changed; see the diff of go test -update. got\n%s", got)
	}
	if strings.Contains(got, "ojs_outbox") {
		t.Error("a statement keeps the default name")
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"", "a", "_a1", strings.Repeat("a", 40)} {
		if d, err := mysql.Dialect(name); err != nil || name != "" && d.Table != name {
			t.Errorf("%q: got table %q and %v", name, d.Table, err)
		}
	}
	for _, name := range []string{"1a", "Jobs", "a b", "a;b", "a\"", "a.b", "ä", strings.Repeat("a", 41)} {
		if _, err := mysql.Dialect(name); job.KindOf(err) != job.Invalid || err == nil {
			t.Errorf("%q: got %v, want Invalid", name, err)
		}
	}
}

// TestVersions: which servers are too old, asked of a real server about others.
func TestVersions(t *testing.T) {
	db := openMySQL(t)
	d, err := mysql.Dialect("")
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{
		"8.0.13": "", "8.0.36-0ubuntu0.22.04.1": "", "8.4.0": "", "9.1.0-log": "", "10.6.0-MariaDB": "", "10.11.19-MariaDB-0+deb12u1": "", "11.4.2-MariaDB-log": "",
		"8.0.12":     "MySQL 8.0.12 is too old",
		"5.7.44-log": "MySQL 5.7.44 is too old",
		"10.5.23-MariaDB-1:10.5.23+maria~ubu2004": "MariaDB 10.5.23 is too old",
	} {
		var got string
		err := db.QueryRow(strings.Replace(d.Audit[0], "VERSION()", "'"+version+"'", 1)).Scan(&got)
		if want == "" && !errors.Is(err, sql.ErrNoRows) || want != "" && !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, %v", version, got, err)
		}
	}
}

func openMySQL(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", cmp.Or(os.Getenv("OUTRIDER_TEST_MYSQL"), "root@tcp(127.0.0.1:3306)/test"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // the test is over
	if err := db.PingContext(t.Context()); err != nil {
		t.Skipf("skipped: no MariaDB or MySQL: %v", err)
	}
	return db
}
