package sqlitestore

import (
	"context"
	"database/sql/driver"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	outrider "github.com/outrider-jobs/outrider"
	"github.com/outrider-jobs/outrider/job"
)

var updateGolden = flag.Bool("update", false, "write the golden files anew")

func opened(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "o.db"), Options{alone: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Every statement's plan is kept: an index that is lost is a diff.
func TestPlans(t *testing.T) {
	s := opened(t)
	var b strings.Builder
	listed := func(number string, f job.Filter) string {
		w := conditions(f)
		return "SELECT " + number + from(f) + w.String()
	}
	dead := job.Filter{Dead: true, Queue: "q"}
	for _, q := range []struct{ name, sql string }{
		{"insertBody", insertBody}, {"insertState", insertState}, {"plainBody", plainBody.sql(2)}, {"plainState", plainState.sql(2)},
		{"insertFirst", insertFirst}, {"keyedState", keyedState.sql(2)},
		{"stateUpdate", stateUpdate{changed: 1<<len(changing) - 1}.sql()}, {"rewriteBody", rewriteBody}, {"heldKey", heldKey}, {"pastKey", pastKey},
		{"dedupKey", dedupKey}, {"customID", customID}, {"deleteBody", deleteBody}, {"deleteState", deleteState}, {"takeBack", takeBack},
		{"jobByID", jobByID}, {"readJob", readJob}, {"jobByNumber", jobByNumber}, {"strangers", strangers}, {"readJobNumber", readJobNumber},
		{"nextAvailable", nextAvailable}, {"allDue", allDue}, {"nextDue", nextDue}, {"allWaiting", allWaiting}, {"countWaiting", countWaiting}, {"heldJobs", heldJobs}, {"holders", holders},
		{"deadStats", deadStats}, {"list", listed("b.n", job.Filter{}) + " ORDER BY id_bytes DESC LIMIT ?"}, {"list of a queue", listed("b.n", job.Filter{Queue: "q"}) + " ORDER BY id_bytes DESC LIMIT ?"},
		{"list of a type", listed("b.n", job.Filter{Type: "a.*"}) + " ORDER BY id_bytes DESC LIMIT ?"},
		{"list dead", listed("s.n", dead) + " ORDER BY finished_at DESC, s.n DESC LIMIT ?"},
		{"list dead of a type", listed("s.n", job.Filter{Dead: true, Type: "a.b"}) + " ORDER BY finished_at DESC, s.n DESC LIMIT ?"},
		{"list holding", listed("s.n", job.Filter{Holding: true, Queue: "q", Type: "a.*", States: job.States[:2]}) + " ORDER BY id_bytes DESC LIMIT ?"},
		{"list deduping", listed("s.n", job.Filter{Dedup: true, Queue: "q", States: job.States[:2]}) + " ORDER BY id_bytes DESC LIMIT ?"},
		{"count deduping", listed("count(*)", job.Filter{Dedup: true})},
		{"count holding", listed("count(*)", job.Filter{Holding: true})},
		{"count newest", "SELECT count(*) FROM (SELECT 1 FROM (" + newestJobs + ") WHERE type = ? LIMIT ?)"},
		{"count newest dead", "SELECT count(*) FROM (SELECT 1 FROM (" + newestDead + ") WHERE type = ? LIMIT ?)"},
		{"allQueues", allQueues}, {"queueByName", queueByName}, {"putQueue", putQueue}, {"putWorker", putWorker},
		{"putMark", putMark}, {"lastSeq", lastSeq}, {"lastEvent", lastEvent}, {"putEvents", putEvents}, {"eventChunks", eventChunks}, {"eventSpan", eventSpan}, {"pruneEvents", pruneEvents},
		{"toldOf", selectLastEvent}, {"eventChunk", eventChunk}, {"oldest dead", listed("s.n", dead) + oldestDead},
		{"deleteQueue", deleteQueue}, {"allSettings", allSettings}, {"putSettings", putSettings}, {"deleteSettings", deleteSettings}, {"addSlot", addSlot}, {"deleteSlots", deleteSlots},
		{"pruneSlots", pruneSlots}, {"slotsOfOne", slotsOfOne}, {"slotsOfAll", slotsOfAll}, {"priorities", priorities}, {"oldestSince", oldestSince}, {"oldestAvailable", oldestAvailable}, {"answerByKey", answerByKey}, {"putAnswer", putAnswer}, {"pruneAnswers", pruneAnswers},
		{"cronByName", cronByName}, {"allCrons", allCrons}, {"putCron", putCron}, {"stepCron", stepCron}, {"deleteCron", deleteCron},
		{"flowByID", flowByID}, {"flowNodes", flowNodes}, {"flowNode", flowNode}, {"endFlow", endFlow}, {"saveNode", saveNode},
		{"allFlows", allFlows}, {"someFlows", someFlows}, {"countSome", countSome}, {"endedFlows", endedFlows}, {"deleteFlow", deleteFlow}, {"deleteFlowNodes", deleteFlowNodes},
		{"limitByKey", limitByKey}, {"someLimits", someLimits}, {"countLimits", countLimits}, {"openingLimits", openingLimits}, {"nextOpening", nextOpening},
		{"putLimit", putLimit}, {"deleteLimit", deleteLimit}, {"laneHead", laneHead}, {"laneNext", laneNext}, {"laneDepth", laneDepth}, {"countBehind", countBehind}, {"tenantJobs", tenantJobs}, {"siftSame", siftSame}, {"siftLower", siftLower}, {"countTenant", countTenant}, {"listTenants", listTenants},
		{"allWebhooks", allWebhooks}, {"oneWebhook", oneWebhook}, {"allDeliveries", allDeliveries}, {"oneDelivery", oneDelivery}, {"putWebhook", putWebhook}, {"stepWebhook", stepWebhook}, {"skipWebhook", skipWebhook},
		{"putDelivery", putDelivery}, {"trimDead", trimDead}, {"deleteDelivery", deleteDelivery}, {"pruneDeliveries", pruneDeliveries}, {"deleteWebhook", deleteWebhook}, {"deleteDeliveries", deleteDeliveries},
		{"list of a tenant", listed("b.n", job.Filter{Tenant: "t"}) + " ORDER BY id_bytes DESC LIMIT ?"},
	} {
		fmt.Fprintf(&b, "%s\n", q.name)
		for _, line := range plan(t, s, q.sql) {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	path := "testdata/plans.golden"
	if *updateGolden {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the plans differ from %s:\n%s", path, b.String())
	}
}

// plan is what EXPLAIN QUERY PLAN says, with NULL for every argument.
func plan(t *testing.T, s *Store, query string) (lines []string) {
	t.Helper()
	args := make([]any, strings.Count(query, "?"))
	rows, err := s.readers.Query("EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, detail)
	}
	return lines
}

// Every connection of both pools has its pragmas; one without them is refused.
func TestPragmasAreAsserted(t *testing.T) {
	s := opened(t)
	for range 8 {
		conn, err := s.readers.Connx(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pragmas(true) {
			var got string
			if err := conn.QueryRowxContext(t.Context(), "PRAGMA "+p.name).Scan(&got); err != nil || got != p.shows {
				t.Errorf("PRAGMA %s is %s, %v; want %s", p.name, got, err, p.shows)
			}
		}
		if _, err := conn.ExecContext(t.Context(), "DELETE FROM job_states"); err == nil {
			t.Error("a reader could write")
		}
		defer conn.Close()
		if conn2 := s.readers.Stats(); conn2.OpenConnections >= 4 {
			break
		}
	}
	// A database in memory cannot have a write-ahead log: what a network file
	// system does silently.
	c, err := newConnector(":memory:", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Connect(context.Background()); err == nil || !strings.Contains(err.Error(), "journal_mode is memory and cannot be made WAL") {
		t.Errorf("a connection without WAL: %v", err)
	}
}

// Migrating from an empty file gives exactly what schema.sql says.
func TestSchema(t *testing.T) {
	s := opened(t)
	read := func(conn driver.Conn) string {
		st, err := prepare(conn, "SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY 1")
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := st.each(func(v []driver.Value) error { fmt.Fprintln(&b, v[0]); return nil }); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	plainC, err := newConnector(filepath.Join(t.TempDir(), "plain.db"), false)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := plainC.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if err := script(plain, outrider.Schema); err != nil {
		t.Fatal(err)
	}
	want := read(plain)
	if got := read(s.w.conn); got != want || !strings.Contains(got, "jobs_claim") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, name := range []string{"job_bodies", "job_states", "queues", "workers", "events", "marks", "crons", "schemas", "queue_settings", "queue_slots", "answers", "limits", "workflows", "workflow_nodes", "webhooks", "webhook_deliveries"} {
		if !strings.Contains(want, "table "+name+" ") {
			t.Errorf("no table %s", name)
		}
	}
	if n, tables := strings.Count(want, "STRICT"), strings.Count(want, "CREATE TABLE"); n != tables || n == 0 {
		t.Errorf("%d of %d tables are STRICT", n, tables)
	}
}

// After a flush has failed nothing more is acknowledged, whatever later calls would say.
func TestBrokenWriterRefuses(t *testing.T) {
	s := opened(t)
	if err := s.Update(t.Context(), func(tx job.Tx) error {
		_ = s.w.doubt(job.Errorf(job.Unavailable, "the disk failed"))
		return nil
	}); job.KindOf(err) != job.Unavailable {
		t.Errorf("the call of the failed commit: %v", err)
	}
	if err := s.Update(t.Context(), func(tx job.Tx) error { return nil }); job.KindOf(err) != job.Unavailable {
		t.Errorf("the next call: %v", err)
	}
	if err := s.View(t.Context(), func(tx job.ReadTx) error { _, err := tx.Queues(); return err }); err != nil {
		t.Errorf("reading goes on: %v", err)
	}
}

// SQLite up to 3.51.2 can corrupt a file whose log is reset while another
// connection writes; and the driver is only tested with the libc that it names.
func TestSQLiteIsNewEnough(t *testing.T) {
	s := opened(t)
	var version string
	if err := s.readers.Get(&version, "SELECT sqlite_version()"); err != nil {
		t.Fatal(err)
	}
	var major, minor, patch int
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); err != nil {
		t.Fatal(err)
	}
	if major*1_000_000+minor*1000+patch < 3_053_004 {
		t.Errorf("SQLite is %s, it must be 3.53.4 or newer", version)
	}
	ours, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "modernc.org/libc").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "modernc.org/sqlite").Output()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "modernc.org/libc " + strings.TrimSpace(string(ours)) + "\n"; !strings.Contains(string(theirs), want) {
		t.Errorf("the driver's go.mod does not name the libc that is built in: %s", want)
	}
}

// A call that fails after it has written is undone alone, and its neighbours run
// again; one that fails before costs nobody a second run.
func TestASpoiltPassIsMadeAgain(t *testing.T) {
	s := opened(t)
	for _, writes := range []bool{false, true} {
		runs, calls := map[string]int{}, []*call{}
		for _, name := range []string{"before", "failing", "behind"} {
			calls = append(calls, &call{ctx: t.Context(), done: make(chan error, 1), fn: func(tx job.Tx) error {
				runs[name]++
				if name != "failing" || writes {
					if err := tx.PutWorker(job.WorkerInfo{ID: name}); err != nil {
						return err
					}
				}
				if name == "failing" {
					return job.Errorf(job.Conflict, "it does not work out")
				}
				return nil
			}})
		}
		if n, err := inOneGroup(s.w, calls); n != 3 || err != nil {
			t.Fatalf("commit: %d, %v", n, err)
		}
		again := 1
		if writes {
			again = 2
		}
		if runs["before"] != again || runs["failing"] != again || runs["behind"] != 1 {
			t.Errorf("it writes %v: runs %v", writes, runs)
		}
		if calls[0].err != nil || calls[2].err != nil || job.KindOf(calls[1].err) != job.Conflict {
			t.Errorf("answers %v, %v, %v", calls[0].err, calls[1].err, calls[2].err)
		}
		var ids []string
		if err := s.readers.Select(&ids, "SELECT id FROM workers ORDER BY id"); err != nil || len(ids) != 2 || ids[0] != "before" || ids[1] != "behind" {
			t.Errorf("stored %v, %v", ids, err)
		}
	}
}

// A row of events is bounded by their number and by their bytes, and holds one at least.
func TestRowsOfEvents(t *testing.T) {
	events := func(n, size int) []note {
		all := make([]note, n)
		for i := range all {
			all[i].Data = make([]byte, size)
		}
		return all
	}
	for _, tt := range []struct{ n, size, want int }{
		{1, 0, 1}, {1, 1 << 20, 1}, {2, 1 << 20, 1}, {999, 10, 999}, {1000, 10, 1000}, {1001, 10, 1000}, {100, 64 << 10, 4}, {3, 64 << 10, 3},
	} {
		if got := rowOf(events(tt.n, tt.size)); got != tt.want {
			t.Errorf("%d events of %d bytes: %d in a row, want %d", tt.n, tt.size, got, tt.want)
		}
	}
}
