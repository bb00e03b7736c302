//go:build unix

package main

import (
	mathrand "math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/outbox"
)

// TestDisposableDisk: two job servers relay one outbox with on_complete, and ten
// times under load one is killed and its disk is gone for good. Every committed
// order is worked on.
func TestDisposableDisk(t *testing.T) {
	onShopsAtOnce(t, func(t *testing.T, s *chaosShop) {
		underFaults(t, s, outbox.OnComplete, 2000, 10, func(*mathrand.Rand) string { return diskLost })
	})
}

// TestChaosOfStores: ten times under load one of two servers with on_complete is
// killed: it goes on with its store, an older copy of it, or a new disk. Every
// committed order is worked on, and no job that has ended runs again but those of
// the older copy.
func TestChaosOfStores(t *testing.T) {
	onShopsAtOnce(t, func(t *testing.T, s *chaosShop) { underFaults(t, s, outbox.OnComplete, 2000, 10, anyFault) })
}

// TestChaosOfStoresOnRelay is TestChaosOfStores with on_relay: what was sent to a
// store that is lost is lost with it, and nothing else.
func TestChaosOfStoresOnRelay(t *testing.T) {
	onShopsAtOnce(t, func(t *testing.T, s *chaosShop) { underFaults(t, s, outbox.OnRelay, 1000, 4, anyFault) })
}

// TestPausedServer: twice under load one of the two servers stands still for
// longer than its lease, and goes on. What it says then of rows that are no
// longer its own changes nothing.
func TestPausedServer(t *testing.T) {
	onShopsAtOnce(t, func(t *testing.T, s *chaosShop) {
		underFaults(t, s, outbox.OnComplete, 2000, 2, func(*mathrand.Rand) string { return paused })
	})
}

func anyFault(r *mathrand.Rand) string {
	return []string{killed, killed, diskLost, copyKept, putBack, putBack}[r.IntN(6)]
}

// underFaults is two servers under load, and so many faults of one of them.
func underFaults(t *testing.T, s *chaosShop, release outbox.Release, standard, faults int, draw func(*mathrand.Rand) string) {
	rows, seed := chaosRows(t, standard), chaosSeed(t)
	r := mathrand.New(mathrand.NewPCG(seed, chaosWriters))
	first := r.IntN(2)
	h := newHistory()
	var servers []*station
	for _, name := range []string{"server 1", "server 2"} {
		dsn := s.dsn
		if name == "server 2" && s.d.Name() != "sqlite" {
			dsn, _ = s.through(func(host string) *cutter { return newCutter(t, host, 20) })
		}
		st := newStation(t, s, h, name, dsn, "--outbox-release", string(release), "--outbox-lease", "2s")
		h.work(t, name, st.url, 6, 49*time.Millisecond)
		servers = append(servers, st)
	}

	// The load goes on until the last fault.
	began := time.Now()
	app := &load{shop: s, target: int64(rows), size: max(1, rows/800), delay: 100 * time.Millisecond, seed: seed, kinds: keyKinds}
	if s.d.Name() == "sqlite" {
		app.size *= 2
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		app.run(t.Context())
	}()
	relayed := int64(0) // rows that stayed for the jobs on the disks
	least := rows       // orders that are not done at a fault
	var last time.Time  // of the faults
	for n := range faults {
		// The workers are slower than the app, so there is always something to lose.
		mark := int64(rows) * int64(n+1) / int64(faults+1)
		if n := settles(func() int64 { return mark - app.committed.Load() }); n > 0 {
			t.Fatalf("the app has stopped to commit, %d orders before the fault", n)
		}
		// Of SQLite one relays at a time: somebody must have begun to since the last fault.
		if s.d.Name() == "sqlite" && settles(func() (idle int64) {
			s.must(s.app.QueryRow(`SELECT max(seen_at) <= ? FROM ojs_outbox_relays`, last.UnixMilli()).Scan(&idle))
			return idle
		}) > 0 {
			t.Fatal("no server relays")
		}
		relayed += s.status().Relayed
		ended, _ := h.done()
		least = min(least, int(app.committed.Load())-ended)
		servers[(first+n)%len(servers)].do(draw(r)) // in turn: of SQLite one of two has all the rows
		last = time.Now()
	}
	<-written
	wrote := time.Since(began)
	settles(func() int64 { st := s.status(); return st.Pending + st.Taken + st.Relayed })
	for _, st := range servers {
		up(t, st.keeper, st.url)
		settles(func() int64 { return liveAt(t, st.url) })
	}
	ended := time.Since(began)

	s.keepHistory(h)
	all := laws(release, len(servers))
	if names := starved(servers); len(names) > 0 {
		t.Logf("what ran again is not judged: this machine was too slow for the leases of %v, whose rows may have been sent again while they lived", names)
		all = slices.DeleteFunc(all, func(l law) bool { return l.what == ranAgain })
	}
	s.judge(seed, all)
	app.seen(t)
	_, again := h.done()
	freed := 0
	for _, st := range servers {
		freed += st.said("has not renewed its lease")
	}
	t.Logf("%s %s, seed %d: %d orders committed, %d faults while %d orders or more were not done and %d rows in all were relayed, rows freed %d times, %d executions too many; written in %v, done after %v",
		s.d.Name(), release, seed, len(s.committed()), faults, least, relayed, freed, again, wrote.Round(time.Millisecond), ended.Round(time.Millisecond))
	if freed == 0 && rows >= 20_000 && h.each(diskLost, paused) { // a small load may be over before anything is lost
		t.Errorf("no row was freed: the faults were for nothing")
	}
}
