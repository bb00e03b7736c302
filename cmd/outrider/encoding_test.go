package main

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/internal/appdb"
	"github.com/outrider-jobs/outrider/internal/testdb"
)

// encodedDB is a database of PostgreSQL with an encoding of its own.
func encodedDB(t *testing.T, encoding string) *appDB {
	t.Helper()
	admin := postgresDB(t)
	name := ownName()
	admin.exec(t, "CREATE DATABASE "+name+" ENCODING '"+encoding+"' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
	t.Cleanup(func() { drop(t, admin.DB, "DROP DATABASE "+name+" WITH (FORCE)") })
	u, err := url.Parse(admin.dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.Path, u.RawQuery = "/"+name, ""
	db := &appDB{nil, appdb.Postgres, u.String(), name, ""}
	u.RawQuery = "client_encoding=UTF8"
	db.DB = testdb.Open(t, "pgx", u.String())
	return db
}

// TestADatabaseInLatin1: its text is text in the jobs, and a reason that it
// cannot hold is written in escapes, so that the row is parked and stops nothing.
func TestADatabaseInLatin1(t *testing.T) {
	db := encodedDB(t, "LATIN1")
	db.init(t)
	if o := try(t, nil, "outbox", "check", db.dsn); o.code != exitOK {
		t.Fatalf("check: %+v", o)
	}
	url, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t), "--shutdown-grace", "0s", "--outbox", db.dsn, "--outbox-poll-idle", "50ms")
	db.exec(t, `INSERT INTO ojs_outbox (job_type, job_args, job_options) VALUES ('shop.bad', '[]', '{"queue":"\u20ac"}')`)
	db.exec(t, `INSERT INTO ojs_outbox (job_type, job_args) VALUES ('shöp', '[]')`)
	db.insert(t, "shop.ordered")
	if j := fetched(t, url, "shop.ordered", time.Minute); !strings.Contains(string(j.Args), `"ü"`) {
		t.Errorf("got %s", j.Args)
	}
	eventually(t, "2 rows are parked", time.Minute, func() bool { return db.rows(t, "parked") == 2 })
	var why string
	if err := db.QueryRowContext(t.Context(), `SELECT error FROM ojs_outbox WHERE job_type = 'shop.bad'`).Scan(&why); err != nil || !strings.Contains(why, "queue") || !strings.Contains(why, `\u20ac`) {
		t.Errorf("got %q, %v", why, err)
	}
}

// TestADatabaseWithoutAnEncoding is refused: nobody knows what its bytes mean.
func TestADatabaseWithoutAnEncoding(t *testing.T) {
	db := encodedDB(t, "SQL_ASCII")
	o := try(t, nil, "outbox", "init", db.dsn)
	if o.code == exitOK {
		o = try(t, nil, "outbox", "check", db.dsn)
	}
	if o.code == exitOK || !strings.Contains(o.stderr, "SQL_ASCII") || !strings.Contains(o.stderr, "ENCODING 'UTF8'") {
		t.Errorf("got %+v", o)
	}
}
