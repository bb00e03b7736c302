//go:build unix

package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/outbox"
)

func outboxParked(s *chaosShop) ([]outbox.Parked, error) {
	return outbox.ParkedRows(context.Background(), s.app, s.d, 0, 3)
}

// scale is how a test of chaos is stretched with its number of rows: the small
// one is over in seconds, the big one lasts for minutes.
type scale struct {
	rows  int
	delay time.Duration // the longest a transaction is open
	every time.Duration // between two kills
	size  int           // orders of a transaction, so that the load lasts for some kills
}

func chaosScale(t *testing.T) scale {
	t.Helper()
	s := scale{rows: chaosRows(t, 2000), delay: 200 * time.Millisecond, every: time.Second}
	lasting := 6 * time.Second
	if s.rows >= 50_000 {
		s.delay, s.every, lasting = 2*time.Second, 5*time.Second, 90*time.Second
	}
	// Each writer commits once in half a delay, as much is waited on average.
	s.size = max(1, s.rows/(chaosWriters*int(lasting/(s.delay/2))))
	return s
}

// TestChaosOfRelays: two relays take the rows of an app to a server that loses
// answers, and one of the three is always being killed. Every committed order
// has one job, and nothing else has one.
func TestChaosOfRelays(t *testing.T) { onShopsAtOnce(t, chaosOfRelays) }

func chaosOfRelays(t *testing.T, s *chaosShop) {
	size, seed := chaosScale(t), chaosSeed(t)
	dir, addr := t.TempDir(), freePort(t)
	jobs := filepath.Join(dir, "jobs.db")
	server := keep(t, "server", "serve", "--listen", addr, "--db", jobs)
	up(t, server, "http://"+addr)
	proxy := newLossy(t, "http://"+addr, 20)
	h := newHistory()
	stopWorker := h.work(t, server.name, "http://"+addr, 20, 0)
	kept := []*keeper{
		keep(t, "relay 1", "relay", "--outbox", s.dsn, "--to", proxy.URL, "--outbox-lease", "2s"),
		keep(t, "relay 2", "relay", "--outbox", s.dsn, "--to", proxy.URL, "--outbox-lease", "2s"),
		server,
	}

	began := time.Now()
	app := &load{shop: s, target: int64(size.rows), size: size.size, delay: size.delay, seed: seed, kinds: append([]*keyKind{clash}, keyKinds...)}
	written := make(chan struct{})
	go func() {
		defer close(written)
		app.run(t.Context())
	}()
	kills := 0
	for running := true; running; {
		select {
		case <-time.After(size.every):
			k := kept[kills%len(kept)]
			k.crash(func() { h.fault(k.name, killed) })
			kills++
			up(t, server, "http://"+addr)
		case <-written:
			running = false
		}
	}
	wrote := time.Since(began)

	left := settles(func() int64 { st := s.status(); return st.Pending + st.Taken + st.Relayed })
	drained := time.Since(began)
	committed := s.committed()
	if left == 0 {
		settles(func() int64 { return liveAt(t, "http://"+addr) })
	}
	ended := time.Since(began)
	stopWorker()
	for _, k := range kept {
		k.stop()
	}

	stored := jobsIn(t, jobs)
	s.keepHistory(h)
	s.keepJobs(stored)
	s.judge(seed, append(laws(outbox.OnComplete, 1), storeLaws...)) // the disk is never lost
	app.seen(t)
	_, again := h.done()
	t.Logf("%s, seed %d: %d orders committed in %d transactions, %d rolled back, %d jobs; %d kills; %d posts with %d jobs sent again, %d of their answers lost, %d gets, %d requests to a dead server; %d executions too many; "+
		"written in %v, drained after %v, done after %v", s.d.Name(), seed, len(committed), app.commits.Load(), app.rolledBack.Load(), len(stored),
		kills, proxy.posts.Load(), proxy.resends(), proxy.lost.Load(), proxy.gets.Load(), proxy.down.Load(), again,
		wrote.Round(time.Millisecond), drained.Round(time.Millisecond), ended.Round(time.Millisecond))
	if proxy.lost.Load() == 0 || proxy.resends() == 0 || kills < 2 {
		t.Errorf("there was no chaos: %d kills, %d answers lost, %d resends", kills, proxy.lost.Load(), proxy.resends())
	}
}

// liveAt are the jobs of a server that have not ended.
func liveAt(t *testing.T, url string) (n int64) {
	t.Helper()
	c, err := client.New(url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	queues, err := c.Queues(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range queues {
		for state, of := range q.Counts {
			if !state.Terminal() {
				n += of
			}
		}
	}
	return n
}

// seen fails the test if the app has seen an error: a relay must not be felt.
func (l *load) seen(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.errors); n > 0 {
		t.Errorf("the app has seen %d errors in %d transactions, such as: %v", n, l.commits.Load(), l.errors[0])
	}
}

// TestChaosOfAnswersOfTheDatabase: the database does what the relays ask, and
// one in four of its answers to a COMMIT is lost with the connection. No row
// stays behind while its relay lives.
func TestChaosOfAnswersOfTheDatabase(t *testing.T) {
	for _, name := range []string{"postgres", "mysql"} {
		t.Run(name, func(t *testing.T) { lostCommits(t, newShop(t, name)) })
	}
}

func lostCommits(t *testing.T, s *chaosShop) {
	near, host := s.through(func(host string) *cutter { return newCutter(t, host, 4) })
	dir, addr := t.TempDir(), freePort(t)
	jobs := filepath.Join(dir, "jobs.db")
	server := keep(t, "server", "serve", "--listen", addr, "--db", jobs)
	up(t, server, "http://"+addr)
	h := newHistory()
	stopWorker := h.work(t, server.name, "http://"+addr, 20, 0)
	relay := keep(t, "relay", "relay", "--outbox", near, "--to", "http://"+addr)

	seed := chaosSeed(t)
	app := &load{shop: s, target: int64(min(chaosRows(t, 2000), 20_000)), size: 2, delay: 100 * time.Millisecond, seed: seed, kinds: keyKinds}
	app.run(t.Context())
	host.healed.Store(true)
	left := settles(func() int64 { st := s.status(); return st.Pending + st.Taken })
	if left > 0 {
		t.Errorf("%d rows are not relayed though all is well again: %+v", left, s.status())
	}
	committed := s.committed()
	if left == 0 {
		settles(func() int64 { return liveAt(t, "http://"+addr) })
	}
	stopWorker()
	relay.stop()
	server.stop()
	if left == 0 {
		s.keepHistory(h)
		s.keepJobs(jobsIn(t, jobs))
		s.judge(seed, append(laws(outbox.OnComplete, 1), storeLaws...))
	}
	app.seen(t)
	t.Logf("%s, seed %d: %d orders; %d of %d commits cut", s.d.Name(), seed, len(committed), host.cuts.Load(), host.commits.Load())
}

// TestChaosOfADatabaseThatIsAway: for longer than the lease no server reaches the
// database, and then one before the other. Neither is dead: no job runs twice.
func TestChaosOfADatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"postgres", "mysql"} { // SQLite is a file
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databaseAway(t, newShop(t, name))
		})
	}
}

func databaseAway(t *testing.T, s *chaosShop) {
	const lease = 3 * time.Second
	h := newHistory()
	var servers []*station
	var hosts []*cutter
	for _, name := range []string{"server 1", "server 2"} {
		dsn, host := s.through(func(host string) *cutter { return newCutter(t, host, 1) })
		host.healed.Store(true)
		servers = append(servers, newStation(t, s, h, name, dsn, "--outbox-release", string(outbox.OnComplete), "--outbox-lease", lease.String()))
		hosts = append(hosts, host)
	}
	orders := int64(0)
	place := func() {
		orders++
		s.placeAll(&placed{id: orders, via: waySQL, kind: noKey, queue: "default", shape: shapeBinding, copies: 1})
		if left := settles(func() int64 { st := s.status(); return st.Pending + st.Taken }); left > 0 {
			t.Fatalf("%d rows are not relayed: %+v", left, s.status())
		}
	}
	for _, other := range hosts { // so that each has a row
		other.let(false)
		place()
		other.let(true)
	}
	var owners int
	s.must(s.app.QueryRow(`SELECT count(DISTINCT owner) FROM ojs_outbox WHERE status = 'relayed'`).Scan(&owners))
	if owners != 2 {
		t.Fatalf("%d servers have rows", owners)
	}

	for _, host := range hosts {
		host.let(false)
	}
	time.Sleep(lease + time.Second)
	hosts[0].let(true)
	place() // the first one works again
	hosts[1].let(true)
	place()
	time.Sleep(lease * 2) // each has time to take the other for dead

	for _, st := range servers {
		h.work(t, st.name, st.url, 10, 0)
	}
	settles(func() int64 { st := s.status(); return st.Pending + st.Taken + st.Relayed })
	for _, st := range servers {
		settles(func() int64 { return liveAt(t, st.url) })
		if n := st.said("has not renewed its lease"); n > 0 {
			t.Errorf("%s took the other one for dead:\n%s", st.name, st.words(20))
		}
		st.stop()
	}
	if ended, again := h.done(); int64(ended) != orders || again != 0 {
		t.Errorf("%d orders of %d are done, and %d jobs ran twice", ended, orders, again)
	}
	s.nothingLeft()
}

// TestAnOpenTransactionOfTheApp: one transaction of the app has written a row
// and stays open. The rows of the others become jobs and go all the same.
func TestAnOpenTransactionOfTheApp(t *testing.T) {
	for _, name := range []string{"postgres", "mysql"} { // SQLite has one writer
		t.Run(name, func(t *testing.T) { openTransaction(t, newShop(t, name)) })
	}
}

func openTransaction(t *testing.T, s *chaosShop) {
	const rows = 50
	addr := freePort(t)
	jobs := filepath.Join(t.TempDir(), "jobs.db")
	s.fill(rows / 2)
	open, err := s.app.Begin()
	s.must(err)
	defer open.Rollback()           // after Commit it does nothing
	s.must(placeOrders(open, 1000)) // among the ids of the others
	for id := int64(rows/2 + 1); id <= rows; id++ {
		s.must(s.oneOrder(id, true))
	}
	server := keep(t, "server", "serve", "--listen", addr, "--db", jobs, "--outbox", s.dsn)
	up(t, server, "http://"+addr)
	began := time.Now()
	if left := settles(func() int64 { st := s.status(); return st.Pending + st.Taken }); left > 0 {
		t.Errorf("%d rows wait for a transaction that is not theirs: %+v", left, s.status())
	}
	t.Logf("%s: %d rows beside an open transaction took %v", s.d.Name(), rows, time.Since(began).Round(time.Millisecond))
	s.must(open.Commit())
	settles(func() int64 { st := s.status(); return st.Pending + st.Taken })
	server.stop()
	stored := jobsIn(t, jobs)
	if v := audit(s.committed(), stored); len(v.missing)+len(v.twice)+len(v.phantom) > 0 {
		t.Errorf("of %d jobs: %+v", len(stored), v)
	}
	s.emptyOutbox()
}
