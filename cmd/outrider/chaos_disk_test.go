//go:build unix

package main

import (
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestDisposableDisk: two job servers relay one outbox with on_complete, and ten
// times under load one is killed and its disk is gone for good. Every committed
// order is done at least once.
func TestDisposableDisk(t *testing.T) {
	onShopsAtOnce(t, func(t *testing.T, s *chaosShop) {
		underFaults(t, s, 10, func(k *keeper, disk string) {
			k.crash(func() {
				if err := os.RemoveAll(disk); err != nil {
					t.Error(err)
				}
				if err := os.Mkdir(disk, 0o700); err != nil {
					t.Error(err)
				}
			})
		})
	})
}

// TestPausedServer: twice under load one of the two servers stands still for
// longer than its lease, and goes on. What it says then of rows that are no
// longer its own changes nothing.
func TestPausedServer(t *testing.T) {
	onShopsAtOnce(t, func(t *testing.T, s *chaosShop) {
		underFaults(t, s, 2, func(k *keeper, _ string) {
			for _, step := range []struct {
				sig  syscall.Signal
				wait time.Duration
			}{{syscall.SIGSTOP, 3500 * time.Millisecond}, {syscall.SIGCONT, 0}} {
				if err := k.cmd.Process.Signal(step.sig); err != nil {
					t.Error(err)
				}
				time.Sleep(step.wait)
			}
		})
	})
}

// underFaults is two servers with on_complete under load, and so many faults of
// one of them.
func underFaults(t *testing.T, s *chaosShop, faults int, fault func(k *keeper, disk string)) {
	rows := chaosRows(t, 2000)
	seed := uint64(time.Now().UnixNano())
	first := mathrand.New(mathrand.NewPCG(seed, 0)).IntN(2)
	d := done{times: map[int64]int{}}
	var servers []*keeper
	var disks []string
	for _, name := range []string{"server 1", "server 2"} {
		disk, addr := filepath.Join(t.TempDir(), "disk"), freePort(t)
		if err := os.Mkdir(disk, 0o700); err != nil {
			t.Fatal(err)
		}
		k := keep(t, name, "serve", "--listen", addr, "--db", filepath.Join(disk, "jobs.db"),
			"--outbox", s.dsn, "--outbox-release", "on_complete", "--outbox-lease", "2s")
		up(t, k, "http://"+addr)
		d.work(t, "http://"+addr, 6, 49*time.Millisecond)
		servers, disks = append(servers, k), append(disks, disk)
	}

	// The load goes on until the last fault.
	began := time.Now()
	app := &load{shop: s, target: int64(rows), size: max(1, rows/800), delay: 100 * time.Millisecond, seed: seed}
	if s.d.Name == "sqlite" {
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
		if s.d.Name == "sqlite" && settles(func() (idle int64) {
			s.must(s.app.QueryRow(`SELECT max(seen_at) <= ? FROM ojs_outbox_relays`, last.UnixMilli()).Scan(&idle))
			return idle
		}) > 0 {
			t.Fatal("no server relays")
		}
		relayed += s.status().Relayed
		ended, _ := d.sizes()
		least = min(least, int(app.committed.Load())-ended)
		i := (first + n) % len(servers) // in turn: of SQLite one of two has all the rows
		fault(servers[i], disks[i])
		last = time.Now()
	}
	<-written
	wrote := time.Since(began)
	settles(func() int64 { st := s.status(); return st.Pending + st.Taken + st.Relayed })
	ended := time.Since(began)

	committed := s.committed()
	if missing := d.missing(committed); len(missing) > 0 {
		t.Errorf("orders that were never done: %s", some(missing))
	}
	phantom, orders := []int64{}, map[int64]bool{}
	for _, id := range committed {
		orders[id] = true
	}
	d.mu.Lock()
	for id := range d.times {
		if !orders[id] {
			phantom = append(phantom, id)
		}
	}
	d.mu.Unlock()
	if len(phantom) > 0 {
		t.Errorf("done, and never committed: %s", some(phantom))
	}
	s.emptyOutbox()
	app.seen(t)
	_, again := d.sizes()
	freed := 0
	for _, k := range servers {
		freed += k.said("has not renewed its lease")
	}
	t.Logf("%s, seed %d: %d orders committed, %d faults while %d orders or more were not done and %d rows in all were relayed, rows freed %d times, %d executions too many; written in %v, done after %v",
		s.d.Name, seed, len(committed), faults, least, relayed, freed, again, wrote.Round(time.Millisecond), ended.Round(time.Millisecond))
	if freed == 0 && rows >= 20_000 { // a small load may be over before anything is lost
		t.Errorf("no row was freed: the faults were for nothing")
	}
}
