//go:build unix

package main

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
)

// TestBacklog: many rows are pending before a server starts. It takes them in
// the order of their ids, and in bounded memory.
func TestBacklog(t *testing.T) {
	onShops(t, func(t *testing.T, s *chaosShop) { backlog(t, s, "on_relay", chaosRows(t, 20_000)) })
}

// TestBacklogWithoutWorkers is TestBacklog with on_complete while no worker is
// there: the rows stay, all of them, and it is no slower for that.
func TestBacklogWithoutWorkers(t *testing.T) {
	onShops(t, func(t *testing.T, s *chaosShop) { backlog(t, s, "on_complete", chaosRows(t, 20_000)) })
}

func backlog(t *testing.T, s *chaosShop, release string, rows int) {
	s.fill(rows)
	dir, addr := t.TempDir(), freePort(t)
	jobs := filepath.Join(dir, "jobs.db")
	began := time.Now()
	server := keep(t, "server", "serve", "--listen", addr, "--db", jobs, "--outbox", s.dsn, "--outbox-release", release)
	up(t, server, "http://"+addr)
	c, err := client.New("http://"+addr, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	left := func() int64 { // the server keeps count; to count rows would burden the database
		queues, err := c.Queues(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := int64(rows)
		for _, q := range queues {
			for _, of := range q.Counts {
				n -= of
			}
		}
		return n
	}
	if n := settles(left); n > 0 {
		t.Errorf("%d of %d rows have not become jobs", n, rows)
	}
	took := time.Since(began)
	settles(func() int64 { st := s.status(); return st.Pending + st.Taken })
	marked := time.Since(began)
	before := server.cpu()
	time.Sleep(time.Second)
	idle := server.cpu() - before
	server.stop()
	stored := jobsIn(t, jobs)
	for i, j := range stored {
		if j.order != int64(i+1) {
			t.Errorf("job %d of %d is that of order %d: the rows were not taken in their order", i+1, len(stored), j.order)
			break
		}
	}
	if len(stored) != rows {
		t.Errorf("%d jobs, want %d", len(stored), rows)
	}
	if release == "on_relay" {
		s.emptyOutbox()
	} else if st := s.status(); st.Relayed != int64(rows) {
		t.Errorf("no job has ended, and the outbox has %+v, want %d relayed", st, rows)
	}
	t.Logf("%s %s: %d rows became jobs in %v, %.0f rows/s; all were marked after %v; the server took %d MB at most, and %v of CPU in the idle second after",
		s.d.Name(), release, rows, took.Round(time.Millisecond), float64(rows)/took.Seconds(), marked.Round(time.Millisecond), server.hwm/1024, idle)
}

// TestRestartWithManyRows: a server has the jobs of many rows when it is killed
// and started again at once. It takes them up again; another server, to which it
// must show that it lives, does not take them away.
func TestRestartWithManyRows(t *testing.T) {
	for _, name := range []string{"postgres", "mysql"} { // in SQLite the other one stands by
		t.Run(name, func(t *testing.T) { restartWithMany(t, newShop(t, name), chaosRows(t, 40_000)) })
	}
}

func restartWithMany(t *testing.T, s *chaosShop, rows int) {
	// The first lease is longer than any restart takes; from then on the server
	// must renew a short one.
	first, lease := "1h", 3*time.Second
	if raced {
		lease = 12 * time.Second
	}
	s.fill(rows)
	var servers [2]*keeper
	dir := t.TempDir()
	run := func(i int, lease string) {
		addr := freePort(t)
		servers[i] = keep(t, fmt.Sprintf("server %d", i+1), "serve", "--listen", addr, "--db", filepath.Join(dir, fmt.Sprint(i)),
			"--outbox", s.dsn, "--outbox-release", "on_complete", "--outbox-lease", lease)
		up(t, servers[i], "http://"+addr)
	}
	run(0, first)
	settles(func() int64 { st := s.status(); return st.Pending + st.Taken })
	run(1, lease.String())
	servers[0].args[len(servers[0].args)-1] = lease.String()
	servers[0].crash(nil)
	time.Sleep(lease + 5*time.Second) // whoever does not renew it is taken for dead by now
	if n := servers[1].said("has not renewed its lease"); n > 0 {
		t.Errorf("a server that lives and looks for its jobs was taken for dead")
	}
	owners := map[string]int{}
	rowsOf, err := s.app.Query(`SELECT coalesce(owner, 'nobody'), count(*) FROM ojs_outbox GROUP BY owner`)
	s.must(err)
	defer rowsOf.Close()
	for rowsOf.Next() {
		var owner string
		var n int
		s.must(rowsOf.Scan(&owner, &n))
		owners[owner] = n
	}
	s.must(rowsOf.Err())
	if len(owners) != 1 {
		t.Errorf("the rows have the owners %v, want one", owners)
	}
	t.Logf("%s: %d rows, of %v", s.d.Name(), rows, owners)
}

// fill places orders 1 to n.
func (s *chaosShop) fill(n int) {
	s.t.Helper()
	for from := 0; from < n; {
		tx, err := s.app.Begin()
		s.must(err)
		for range 20 {
			var ids []int64
			for ; from < n && len(ids) < 1000; from++ {
				ids = append(ids, int64(from+1))
			}
			if len(ids) > 0 {
				s.must(placeOrders(tx, ids...))
			}
		}
		s.must(tx.Commit())
	}
}

// TestAppUnderRelay: what the app's own transaction takes, with and without the
// row of the outbox, and with and without a relay at work.
func TestAppUnderRelay(t *testing.T) { onShops(t, appUnderRelay) }

func appUnderRelay(t *testing.T, s *chaosShop) {
	const rounds = 4
	each := max(100, chaosRows(t, 1000)/4/rounds)
	each = min(each, 2000)
	addr := freePort(t)
	jobs := filepath.Join(t.TempDir(), "jobs.db")
	times := map[string][]time.Duration{}
	order, failed := int64(0), 0
	measure := func(what string, row bool) {
		for range each {
			order++
			began := time.Now()
			if err := s.oneOrder(order, row); err != nil {
				failed++
				t.Logf("%s: %v", what, err)
			}
			times[what] = append(times[what], time.Since(began))
			time.Sleep(2 * time.Millisecond)
		}
	}
	kept := keep(t, "server", "serve", "--listen", addr, "--db", jobs, "--outbox", s.dsn)
	for range rounds {
		up(t, kept, "http://"+addr)
		if n := settles(func() int64 { st := s.status(); return st.Pending + st.Taken }); n > 0 {
			t.Fatalf("%d rows are not relayed", n)
		}
		measure("order only, relay", false)
		measure("order and row, relay", true)
		kept.stop()
		measure("order only, no relay", false)
		measure("order and row, no relay", true)
		kept.start()
	}
	settles(func() int64 { st := s.status(); return st.Pending + st.Taken })
	s.emptyOutbox()
	if failed > 0 {
		t.Errorf("the app has seen %d errors", failed)
	}
	for _, what := range []string{"order only, no relay", "order and row, no relay", "order only, relay", "order and row, relay"} {
		all := times[what]
		t.Logf("%-8s %-24s %5d transactions: p50 %7v, p99 %7v, max %7v", s.d.Name(), what, len(all),
			percentile(all, 0.5).Round(10*time.Microsecond), percentile(all, 0.99).Round(10*time.Microsecond), all[len(all)-1].Round(10*time.Microsecond))
	}
}

// oneOrder is one transaction of the app, with parameters as an app has them.
func (s *chaosShop) oneOrder(id int64, row bool) error {
	param := func(q string) string {
		if s.d.Name() == "postgres" {
			return strings.Replace(strings.Replace(q, "?", "$1", 1), "?", "$2", 1)
		}
		return q
	}
	tx, err := s.app.Begin()
	if err != nil {
		return err
	}
	defer func(tx *sql.Tx) { _ = tx.Rollback() }(tx) // after Commit it does nothing
	if _, err := tx.Exec(param(`INSERT INTO orders (id, email) VALUES (?, ?)`), id, "ada@example.com"); err != nil {
		return err
	}
	if row {
		if _, err := tx.Exec(param(`INSERT INTO ojs_outbox (job_type, job_args, job_options) VALUES ('order.confirm', ?, ?)`), argsOf(id), chaosOptions); err != nil {
			return err
		}
	}
	return tx.Commit()
}
