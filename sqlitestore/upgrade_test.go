package sqlitestore

import (
	"bytes"
	"database/sql/driver"
	_ "embed"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
)

//go:embed testdata/schema1.sql
var schema1 string

// connected is a connection to a file without a store around it.
func connected(t *testing.T, path string) driver.Conn {
	t.Helper()
	c, err := newConnector(path, false)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := c.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func run(t *testing.T, conn driver.Conn, sql string) {
	t.Helper()
	if err := script(conn, sql); err != nil {
		t.Fatal(err)
	}
}

// strings1 are the first columns of the rows that a statement answers.
func strings1(t *testing.T, conn driver.Conn, query string) (out []string) {
	t.Helper()
	st, err := prepare(conn, query)
	if err != nil {
		t.Fatal(err)
	}
	defer st.s.Close()
	if err := st.each(func(v []driver.Value) error { out = append(out, fmt.Sprint(v[0])); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

// ofAge1 makes a file of schema 1 with the jobs of a store in it.
func ofAge1(t *testing.T, from *Store) (path string) {
	t.Helper()
	return ofAge(t, from, schema1, 1, "jobs", "queues", "workers", "events", "marks")
}

// ofAge makes a file of an older schema with some tables of a store in it.
func ofAge(t *testing.T, from *Store, schema string, version int, tables ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "old.db")
	conn := connected(t, path)
	defer conn.Close()
	run(t, conn, "PRAGMA auto_vacuum = INCREMENTAL; VACUUM")
	run(t, conn, fmt.Sprintf("BEGIN; %s; PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT", schema, applicationID, version))
	run(t, conn, "ATTACH '"+from.path+"' AS new")
	for _, table := range tables {
		if table == "events" {
			eventsOfOld(t, from, conn)
			continue
		}
		columns := strings.Join(strings1(t, conn, "SELECT name FROM pragma_table_info('"+table+"', 'main')"), ", ")
		values := strings.Replace(columns, "lease_token", "iif(typeof(lease_token) = 'blob', lower(hex(lease_token)), lease_token)", 1) // as text
		run(t, conn, "INSERT INTO main."+table+" ("+columns+") SELECT "+values+" FROM new."+table)
	}
	for mark, column := range map[string]string{"seq": "last_seq", "events": "last_event"} {
		run(t, conn, "INSERT OR REPLACE INTO main.marks (name, value) SELECT '"+mark+"', max(coalesce(max("+column+"), 0), coalesce((SELECT value FROM new.marks WHERE name = '"+mark+"'), 0)) FROM new.queues")
	}
	run(t, conn, "DELETE FROM marks WHERE name = 'identity'; DETACH new; PRAGMA wal_checkpoint(TRUNCATE)")
	return path
}

// eventsOfOld writes the event log as the schemas before 4 had it: lines of JSON.
func eventsOfOld(t *testing.T, from *Store, to driver.Conn) {
	t.Helper()
	put, err := prepare(to, "INSERT INTO main.events (first, at, lines) VALUES (?, ?, ?)")
	if err != nil {
		t.Fatal(err)
	}
	defer put.s.Close()
	rows, err := from.readers.Queryx("SELECT first, at, packed FROM events")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var first, at int64
		var packed any
		if err := rows.Scan(&first, &at, &packed); err != nil {
			t.Fatal(err)
		}
		var lines bytes.Buffer
		if err := eachEvent(first, packed, func(n note) bool {
			line, err := json.Marshal(eventLine{n.Seq, n.prev, n.Type, n.Time.UnixMilli(), n.JobID, n.JobType, n.Queue, n.Data})
			lines.Write(append(line, '\n'))
			return err == nil
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := put.exec(first, at, lines.String()); err != nil {
			t.Fatal(err)
		}
	}
}

// lives are what becomes of jobs, by the state in which they end.
var lives = map[job.State]func(*job.Job) error{
	job.Available: func(*job.Job) error { return nil },
	job.Scheduled: func(*job.Job) error { return nil },
	job.Pending:   func(*job.Job) error { return nil },
	job.Active:    start,
	job.Cancelled: func(j *job.Job) error { return j.Cancel(storetest.Now, "", "") },
	job.Completed: func(j *job.Job) error {
		if err := start(j); err != nil {
			return err
		}
		return j.Complete(storetest.Now, job.Claim{ID: j.ID, Token: "t"}, nil)
	},
	job.Retryable: func(j *job.Job) error { return fail(j, "") },
	job.Discarded: func(j *job.Job) error { return fail(j, "DEAD_LETTER") },
}

func start(j *job.Job) error {
	return j.Start(storetest.Now, job.Lease{Token: "t", Length: time.Minute})
}

func fail(j *job.Job, code string) error {
	if err := start(j); err != nil {
		return err
	}
	return j.Fail(storetest.Now, job.Claim{ID: j.ID, Token: "t"}, job.Failure{Type: "E", Code: code}, 0)
}

// policies are all the difference that schema 2 makes; "?" is one that is refused today.
var policies = []string{"", "{}", `{"states":["available"]}`, `{"states":["available","active","retryable"]}`,
	`{"keys":["args"],"states":["scheduled","available","pending","active","completed","retryable","cancelled","discarded"]}`,
	`{"period":"PT1H","states":["available","active","completed"]}`, `{"period":"P90D","states":["completed"]}`, "?"}

// mixed is a store with jobs of every state under every policy, each with its
// twin that came before it.
func mixed(t *testing.T) (*Store, []job.ID) {
	t.Helper()
	s := opened(t)
	var ids []job.ID
	for state, live := range lives {
		for i, policy := range policies {
			for twin := range 4 {
				j := storetest.New(t, "q", func(j *job.Job) {
					j.Type = fmt.Sprintf("%s.p%d.t%d", state, i, twin/2)
					j.Args = json.RawMessage(`["` + j.Type + `"]`)
					if policy != "" && policy != "?" {
						j.Unique = json.RawMessage(policy)
					}
					if state == job.Scheduled {
						j.ScheduledAt = storetest.Now.Add(time.Hour)
					}
					j.Hold = state == job.Pending
				})
				if policy == "?" {
					j.Unique = json.RawMessage(`{"keys":["shoe size"]}`)
				}
				if err := live(j); err != nil || j.State != state {
					t.Fatal(j.State, state, err)
				}
				if twin%2 == 0 {
					j.Holds = 0
				}
				if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(j) }); err != nil {
					t.Fatal(err)
				}
				ids = append(ids, j.ID)
			}
		}
	}
	storetest.Audit(t, s)
	return s, ids
}

// shape is a schema without the order of its columns and without comments.
func shape(t *testing.T, conn driver.Conn) []string {
	t.Helper()
	lines := strings1(t, conn, "SELECT type || ' ' || name || ' ' || coalesce(iif(type = 'index', sql, ''), '') FROM sqlite_schema ORDER BY 1")
	for _, table := range strings1(t, conn, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1") {
		lines = append(lines, strings1(t, conn, `SELECT format('%s.%s %s %d %s %d', '`+table+`', name, type, "notnull", dflt_value, pk) FROM pragma_table_xinfo('`+table+`') ORDER BY 1`)...)
		lines = append(lines, strings1(t, conn, `SELECT format('%s %d %d', name, wr, strict) FROM pragma_table_list('`+table+`')`)...)
	}
	return lines
}

// A file of schema 1 is taken over: its schema is that of a new file, and its
// jobs are as if schema 2 had stored them.
func TestUpgrade(t *testing.T) {
	s, ids := mixed(t)
	path := ofAge1(t, s)
	var told bytes.Buffer
	old, err := Open(t.Context(), path, Options{Log: slog.New(slog.NewTextHandler(&told, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if got := told.String(); strings.Count(got, "the database was migrated to this version") != 1 || !strings.Contains(got, "from=1 to=6") {
		t.Errorf("told %q", got)
	}
	if got, want := shape(t, old.w.conn), shape(t, s.w.conn); !slices.Equal(got, want) || len(want) < 80 {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if old.Fresh() || old.Identity() == s.Identity() {
		t.Errorf("fresh %v, identity %s", old.Fresh(), old.Identity())
	}
	storetest.Audit(t, old)
	if err := old.View(t.Context(), func(got job.ReadTx) error {
		return s.View(t.Context(), func(want job.ReadTx) error {
			for _, id := range ids {
				g, err := got.Job(id)
				w, werr := want.Job(id)
				if err != nil || werr != nil || !reflect.DeepEqual(g, w) {
					t.Errorf("%v, %v\ngot  %+v\nwant %+v", err, werr, g, w)
				}
			}
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	work(t, old)
}

// work lets a store that was taken over do what schema 2 is for.
func work(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Update(t.Context(), func(tx job.Tx) error {
		j := storetest.New(t, "q", func(j *job.Job) {
			j.Unique, j.Deduplication, j.CustomID = json.RawMessage("{}"), json.RawMessage(`{"id":"d"}`), "mine"
		})
		if err := tx.InsertJob(j); err != nil {
			return err
		}
		if err := tx.PutCron(storetest.NewCron("c", nil)); err != nil {
			return err
		}
		ready, err := tx.Available([]string{"q"}, 1000)
		if err != nil || len(ready) != 4*len(policies)+1 {
			return fmt.Errorf("%d are available, %w", len(ready), err)
		}
		for _, j := range ready {
			if err := start(j); err != nil {
				return err
			}
			if err := tx.UpdateJob(j); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	storetest.Audit(t, s)
}

// A power cut in the middle leaves schema 1, from which the next start goes on.
func TestUpgradeIsCutShort(t *testing.T) {
	s, _ := mixed(t)
	path := ofAge1(t, s)
	conn := connected(t, path)
	defer conn.Close()
	run(t, conn, "PRAGMA cache_size = 1; BEGIN IMMEDIATE") // what does not fit goes to the log early
	if err := steps(conn, 1, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.db")
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + suffix)
		if err == nil {
			err = os.WriteFile(cut+suffix, b, 0o600)
		}
		if err != nil || suffix != "" && len(b) == 0 {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
	}
	plain := connected(t, cut)
	before := shape(t, plain)
	if v, err := number(plain, "PRAGMA user_version"); v != 1 || err != nil || slices.ContainsFunc(before, func(l string) bool { return strings.Contains(l, "crons") }) {
		t.Errorf("schema %d, %v:\n%s", v, err, strings.Join(before, "\n"))
	}
	_ = plain.Close()
	for range 2 {
		old, err := Open(t.Context(), cut, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := shape(t, old.w.conn), shape(t, s.w.conn); !slices.Equal(got, want) {
			t.Errorf("got\n%s", strings.Join(got, "\n"))
		}
		storetest.Audit(t, old)
		_ = old.Close()
	}
}

// What cannot be taken over is left, with all that is in it.
func TestUpgradeFails(t *testing.T) {
	s, _ := mixed(t)
	path := ofAge1(t, s)
	conn := connected(t, path)
	run(t, conn, "CREATE TABLE crons (id)")
	before := shape(t, conn)
	_ = conn.Close()
	_, err := Open(t.Context(), path, Options{})
	if job.KindOf(err) != job.Unavailable || !strings.Contains(err.Error(), "has schema 1 and could not be brought to schema 6, so it was left as it was; free space") {
		t.Errorf("got %v", err)
	}
	conn = connected(t, path)
	defer conn.Close()
	if v, err := number(conn, "PRAGMA user_version"); v != 1 || err != nil || !slices.Equal(shape(t, conn), before) {
		t.Errorf("schema %d, %v", v, err)
	}
}
