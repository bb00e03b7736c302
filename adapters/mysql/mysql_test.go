package mysql_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/adapters/mysql"
	"github.com/outrider-jobs/outrider/internal/testdb"
)

// TestVersions: which servers are too old, asked of a real server about others.
func TestVersions(t *testing.T) {
	db := testdb.Open(t, "mysql", testdb.MySQL(t).FormatDSN())
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
		err := db.QueryRow(strings.Replace(d.Statements().Audit[0], "VERSION()", "'"+version+"'", 1)).Scan(&got)
		if want == "" && !errors.Is(err, sql.ErrNoRows) || want != "" && !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, %v", version, got, err)
		}
	}
}
