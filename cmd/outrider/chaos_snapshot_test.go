//go:build unix

package main

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func argsOf(order int64) string { return fmt.Sprintf("[%d]", order) }

// TestRestoredSnapshot: an app's database is copied with the identity of its
// outbox, both go on writing, and one server relays both. Row ids come twice
// then; what tells the jobs apart is the time of their rows.
func TestRestoredSnapshot(t *testing.T) { onShopsAtOnce(t, restoredSnapshot) }

func restoredSnapshot(t *testing.T, s *chaosShop) {
	const old, each = 50, 200
	s.fill(old) // these rows are pending in both: the same jobs
	twin := s.restored()

	// Orders of the twin are told by their numbers. Both write at once, so some
	// rows of equal id are of the same millisecond too.
	done := make(chan error, 2)
	write := func(s *chaosShop, first int64) {
		for i := range int64(each) {
			if err := s.oneOrder(first+i, true); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}
	go write(s, 1000)
	go write(twin, 2000)
	for range 2 {
		s.must(<-done)
	}
	// Equal in id and time. With other content it is a collision that somebody
	// must see; with the same content nobody can tell it from a resend.
	const other, same = int64(old + each + 1000), int64(old + each + 1001)
	for i, of := range []*chaosShop{s, twin} {
		of.rowAt(other, argsOf(3000+int64(i)))
		of.rowAt(same, argsOf(4000))
	}

	addr := freePort(t)
	jobs := filepath.Join(t.TempDir(), "jobs.db")
	server := keep(t, "server", "serve", "--listen", addr, "--db", jobs, "--outbox", s.dsn, "--outbox", twin.dsn)
	up(t, server, "http://"+addr)
	for _, of := range []*chaosShop{s, twin} {
		settles(func() int64 { st := of.status(); return st.Pending + st.Taken + st.Relayed })
	}
	server.stop()

	// Each row is a job, or parked where everybody can see it, with a reason.
	has := map[int64]int{}
	for _, j := range jobsIn(t, jobs) {
		has[j.order]++
	}
	parked := map[int64]string{}
	for _, of := range []*chaosShop{s, twin} {
		rows, err := of.app.Query(`SELECT job_args, error FROM ojs_outbox WHERE status = 'parked'`)
		s.must(err)
		for rows.Next() {
			var args, why string
			var order int64
			s.must(rows.Scan(&args, &why))
			if _, err := fmt.Sscanf(args, "[%d]", &order); err != nil {
				t.Fatal(err)
			}
			parked[order] = why
		}
		s.must(rows.Err())
		rows.Close()
		if st := of.status(); st.Pending+st.Taken+st.Relayed+st.Sent > 0 {
			t.Errorf("rows are left: %+v", st)
		}
	}
	collided := 0
	want := func(order int64) {
		switch _, aside := parked[order]; {
		case has[order] == 1 && !aside:
		case has[order] == 0 && aside:
			collided++
		default:
			t.Errorf("order %d has %d jobs, parked: %v", order, has[order], aside)
		}
	}
	for i := range int64(old) {
		if want(i + 1); has[i+1] != 1 {
			t.Errorf("order %d was in the snapshot and has %d jobs, want the one", i+1, has[i+1])
		}
	}
	for i := range int64(each) {
		want(1000 + i)
		want(2000 + i)
	}
	naturally := collided
	want(3000)
	want(3001)
	if collided != naturally+1 {
		t.Errorf("of two rows with one id and two contents, %d are parked, want 1", collided-naturally)
	}
	for order, why := range parked {
		if !strings.Contains(why, "id") {
			t.Errorf("order %d is parked without a word on its id: %s", order, why)
		}
	}
	if has[4000] != 1 {
		t.Errorf("rows equal in id, time and content make %d jobs, want 1", has[4000])
	}
	t.Logf("%s: %d rows in the snapshot, %d more in each of both; %d collided by themselves and were parked, such as: %v",
		s.d.Name(), old, each, naturally, one(parked))
}

func one(of map[int64]string) string {
	for _, v := range of {
		return v
	}
	return "none"
}

// rowAt writes a row with an id and a time of its own.
func (s *chaosShop) rowAt(id int64, args string) {
	s.t.Helper()
	always := ""
	if s.d.Name() == "postgres" {
		always = "OVERRIDING SYSTEM VALUE "
	}
	s.exec(fmt.Sprintf(`INSERT INTO ojs_outbox (id, job_type, job_args, job_options, created_at) %sVALUES (%d, 'order.confirm', '%s', '{}', %d)`,
		always, id, args, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()))
}

// restored is the shop as it is now in another database, identity and numbers included.
func (s *chaosShop) restored() *chaosShop {
	s.t.Helper()
	if s.d.Name() == "sqlite" {
		path := filepath.Join(s.t.TempDir(), "twin.db")
		s.exec(`VACUUM INTO '` + path + `'`)
		twin := &chaosShop{t: s.t}
		twin.inSQLite(path)
		return twin
	}
	twin := newShop(s.t, s.d.Name())
	twin.exec(`DELETE FROM ojs_outbox_identity`)
	const cols = `id, job_id, job_type, job_args, job_options, status, owner, attempts, next_try_at, created_at, sent_at, error`
	mine, always := s.schema(), ""
	if s.d.Name() == "postgres" {
		always = "OVERRIDING SYSTEM VALUE "
	}
	for _, stmt := range []string{
		`INSERT INTO ojs_outbox_identity SELECT * FROM ` + mine + `.ojs_outbox_identity`,
		`INSERT INTO ojs_outbox_relays SELECT * FROM ` + mine + `.ojs_outbox_relays`,
		`INSERT INTO orders SELECT * FROM ` + mine + `.orders`,
		`INSERT INTO ojs_outbox (` + cols + `) ` + always + `SELECT ` + cols + ` FROM ` + mine + `.ojs_outbox`,
	} {
		twin.exec(stmt)
	}
	if s.d.Name() == "postgres" {
		twin.exec(`SELECT setval(pg_get_serial_sequence('ojs_outbox', 'id'), (SELECT last_value FROM ` + mine + `.ojs_outbox_id_seq))`)
	} else {
		// What MySQL has given out and what it will give next may differ by a block.
		twin.exec(`ALTER TABLE ojs_outbox AUTO_INCREMENT = 10000`)
		s.exec(`ALTER TABLE ojs_outbox AUTO_INCREMENT = 10000`)
	}
	return twin
}

// schema is where the shop's tables are.
func (s *chaosShop) schema() string {
	s.t.Helper()
	u, err := url.Parse(s.dsn)
	s.must(err)
	if name := u.Query().Get("search_path"); name != "" {
		return name
	}
	return strings.TrimPrefix(u.Path, "/")
}
