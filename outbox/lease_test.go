package outbox_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// pod is a job server with a disk of its own, and a relay.
type pod struct {
	*sidecar.Sidecar
	store *sqlitestore.Store
	relay *outbox.Relay
	log   *journal
	ahead time.Duration // of its relay's clock
}

// lease is longer than a test takes on any machine: nobody waits until it has run out.
const lease = 10 * time.Minute

func (w *world) pod(t testing.TB, disk string, o outbox.RelayOptions) *pod {
	t.Helper()
	store, err := sqlitestore.Open(t.Context(), disk, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	p := &pod{Sidecar: sidecar.New(store, sidecar.Options{}), store: store, log: new(journal)}
	o.Owner, o.Fresh, o.Lineage, o.Lease, o.Log = store.Identity(), store.Fresh(), store.Lineage(), lease, p.log.log()
	o.Now = func() time.Time { return time.Now().Add(p.ahead) }
	p.relay = outbox.NewRelay(w.again(), w.d, p.Sidecar, o)
	return p
}

// outlive lets the lease of a pod run out, in the database and for itself, and
// another watch it for as long.
func (w *world) outlive(p, other *pod) {
	w.t.Helper()
	w.expire(p)
	p.ahead += 2 * lease
	other.watch(w.t, 5)
}

// expire lets the leases of pods run out by the clock of the database.
func (w *world) expire(pods ...*pod) {
	w.t.Helper()
	for _, p := range pods {
		w.exec(`UPDATE ojs_outbox_relays SET until = 2 WHERE until > 0 AND owner = '` + p.store.Identity() + `'`)
	}
}

// watch lets a pod look so many times, each when it is due. Four are one lease
// and the look before it; who stands by asks before it counts, and so once more.
func (p *pod) watch(t testing.TB, times int) {
	t.Helper()
	for range times {
		p.ahead += lease/3 + time.Second
		if _, err := p.relay.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func disk(t *testing.T) string { return filepath.Join(t.TempDir(), "jobs.db") }

// work does n jobs.
func (p *pod) work(t *testing.T, n int) (done []string) {
	t.Helper()
	for range n {
		jobs, err := p.Fetch(t.Context(), job.FetchRequest{Queues: []string{"default"}, Worker: "w"})
		if err != nil || len(jobs) != 1 {
			t.Fatalf("fetched %d, %v", len(jobs), err)
		}
		if _, err := p.Ack(t.Context(), job.Claim{ID: jobs[0].ID, Token: jobs[0].Lease.Token}, nil); err != nil {
			t.Fatal(err)
		}
		done = append(done, string(jobs[0].Args))
	}
	return done
}

func step(t *testing.T, r *outbox.Relay) int {
	t.Helper()
	n, err := r.Step(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

var onComplete = outbox.RelayOptions{Release: outbox.OnComplete}

// TestRowsStayUntilTheirJobsHaveEnded: done, cancelled and discarded jobs free their rows, others do not.
func TestRowsStayUntilTheirJobsHaveEnded(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p := w.pod(t, disk(t), onComplete)
		w.commit(w.write(0, 10))
		step(t, p.relay)
		if s := w.status(); s.Relayed != 10 || s.Pending+s.Taken != 0 {
			t.Fatalf("got %+v, want ten relayed", s)
		}
		p.work(t, 6)
		page, err := p.Jobs(t.Context(), job.Filter{States: []job.State{job.Available}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Cancel(t.Context(), page.Jobs[0].ID, "", ""); err != nil {
			t.Fatal(err)
		}
		step(t, p.relay)
		if s := w.status(); s.Relayed != 3 || w.rows() != 3 {
			t.Errorf("got %+v, want three relayed", s)
		}
		p.work(t, 3)
		step(t, p.relay)
		if n := w.rows(); n != 0 {
			t.Errorf("%d rows are left", n)
		}
	})
}

// TestALostDisk: the rows of a job server that is gone are taken by another,
// under the same job ids, and not before its lease has run out.
func TestALostDisk(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		first := w.pod(t, disk(t), onComplete)
		w.commit(w.write(0, 1200))
		for step(t, first.relay) > 0 {
		}
		first.work(t, 200)
		step(t, first.relay)
		second := w.pod(t, disk(t), onComplete)
		if n := step(t, second.relay); n != 0 {
			t.Errorf("the second has taken %d rows of one that lives", n)
		}
		w.outlive(first, second)
		w.until("the second has the rows", func() bool { step(t, second.relay); return w.arrived(second) == 1000 })
		if got := ids(t, second.store); len(got) != 1000 || !subset(got, ids(t, first.store)) {
			t.Errorf("%d jobs in the second, under other ids", len(got))
		}
		second.work(t, 1000)
		w.until("all rows are gone", func() bool { step(t, second.relay); return w.rows() == 0 })
		if !strings.Contains(strings.Join(second.log.all(), ""), "has not renewed its lease") {
			t.Error("nothing is said of the one that is gone")
		}
		// Who comes back late changes nothing of what is another's.
		w.commit(w.write(1200, 1210))
		w.until("the second has them", func() bool { step(t, second.relay); return w.status().Relayed == 10 })
		if _, err := first.relay.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := w.status(); s.Relayed != 10 {
			t.Errorf("got %+v", s)
		}
	})
}

func (w *world) arrived(p *pod) int {
	q, err := p.Queue(w.t.Context(), "default")
	if err != nil {
		return 0
	}
	return int(q.Counts[job.Available])
}

func ids(t *testing.T, s *sqlitestore.Store) map[job.ID]bool {
	t.Helper()
	all := map[job.ID]bool{}
	err := s.View(t.Context(), func(tx job.ReadTx) error {
		f := job.Filter{Limit: 1000}
		for {
			page, err := tx.Jobs(f)
			if err != nil {
				return err
			}
			for _, j := range page.Jobs {
				all[j.ID] = true
			}
			if f.Cursor = page.Next; page.Next == "" {
				return nil
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func subset(a, b map[job.ID]bool) bool {
	for id := range a {
		if !b[id] {
			return false
		}
	}
	return true
}

// TestADyingRelayLeavesNothingTaken: rows that were taken and not sent are sent
// by the same server at once when it starts again, by another after the lease.
func TestADyingRelayLeavesNothingTaken(t *testing.T) {
	onShared(t, func(t *testing.T, w *world) {
		w.commit(w.write(0, 20))
		dying := w.d.Statements()
		dying.Done = "no statement"
		dying.Back = strings.Replace(w.d.Statements().Back, "WHERE owner", "WHERE 1 = 0 AND owner", 1)
		r := outbox.NewRelay(w.relayDB, outbox.NewDialect(dying), w.server, outbox.RelayOptions{Owner: "a", Lease: time.Minute, Log: new(journal).log()})
		if _, err := r.Step(t.Context()); err == nil {
			t.Fatal("it could mark")
		}
		if s := w.status(); s.Taken != 20 {
			t.Fatalf("got %+v, want 20 taken", s)
		}
		other := outbox.NewRelay(w.again(), w.d, w.server, outbox.RelayOptions{Owner: "b", Lease: time.Minute, Log: new(journal).log()})
		if n := step(t, other); n != 0 {
			t.Errorf("another took %d rows of one that lives", n)
		}
		same := outbox.NewRelay(w.again(), w.d, w.server, outbox.RelayOptions{Owner: "a", Lease: time.Minute, Log: new(journal).log()})
		w.drain(same)
		if n, resends, _ := w.server.sizes(); n != 20 || resends != 20 || w.rows() != 0 {
			t.Errorf("%d jobs, %d resends, %d rows; want 20, 20 and 0", n, resends, w.rows())
		}
	})
}

// TestAServerThatIsAwayKeepsNoRows: what it does not take is everybody's again.
func TestAServerThatIsAwayKeepsNoRows(t *testing.T) {
	onShared(t, func(t *testing.T, w *world) {
		w.commit(w.write(0, 20))
		w.server.refuse = func(int, []job.Envelope) error { return job.Errorf(job.Unavailable, "away") }
		r := outbox.NewRelay(w.relayDB, w.d, w.server, outbox.RelayOptions{Owner: "a", Log: new(journal).log()})
		if _, err := r.Step(t.Context()); job.KindOf(err) != job.Unavailable {
			t.Fatalf("got %v", err)
		}
		if s := w.status(); s.Pending != 20 {
			t.Errorf("got %+v, want 20 pending", s)
		}
		w.server.refuse = nil
		w.drain(outbox.NewRelay(w.again(), w.d, w.server, outbox.RelayOptions{Owner: "b", Log: new(journal).log()}))
		if n, _, _ := w.server.sizes(); n != 20 {
			t.Errorf("%d jobs, want 20", n)
		}
	})
}

// TestANewDiskIsTold: where rows went for good to a server that is no more, the
// next one says at its start what may be lost.
func TestANewDiskIsTold(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		old := w.pod(t, disk(t), outbox.RelayOptions{})
		w.commit(w.write(0, 7))
		step(t, old.relay)
		stop := run(t, old.relay)
		stop() // it leaves, and counts
		next := w.pod(t, disk(t), outbox.RelayOptions{})
		step(t, next.relay)
		if all := strings.Join(next.log.all(), ""); !strings.Contains(all, "disk is new") || !strings.Contains(all, "rows_sent_by_others=7") {
			t.Errorf("it says %q", all)
		}
	})
}

// TestAnAppWithAnOpenTransaction: rows that have not committed hold up nobody else's.
func TestAnAppWithAnOpenTransaction(t *testing.T) {
	onShared(t, func(t *testing.T, w *world) {
		now := time.Now()
		open := w.write(0, 5)
		r := outbox.NewRelay(w.relayDB, w.d, w.server, outbox.RelayOptions{Now: func() time.Time { return now }, Log: new(journal).log()})
		for minute := range 60 {
			now = now.Add(time.Minute)
			w.commit(w.write(10*minute+10, 10*minute+20))
			w.drain(r)
			if n, _, _ := w.server.sizes(); n != 10*minute+10 {
				t.Fatalf("minute %d: %d jobs", minute, n)
			}
		}
		w.commit(open)
		w.drain(r)
		if n, resends, _ := w.server.sizes(); n != 605 || resends != 0 {
			t.Errorf("%d jobs, %d resends; want 605 and 0", n, resends)
		}
	})
}

// TestNoLockIsHeldDuringACall: while the job server thinks, the app may change
// any row, and the relay's connection is in no transaction.
func TestNoLockIsHeldDuringACall(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.commit(w.write(0, 3))
		w.server.refuse = func(int, []job.Envelope) error {
			tx, err := w.app.Begin()
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if w.d.Name() != "sqlite" {
				if _, err := tx.Exec(map[string]string{"postgres": "SET LOCAL lock_timeout = '500ms'", "mysql": "SET innodb_lock_wait_timeout = 1"}[w.d.Name()]); err != nil {
					return err
				}
			}
			if _, err := tx.Exec(`UPDATE ojs_outbox SET error = 'touched'`); err != nil {
				return fmt.Errorf("a row is locked: %w", err)
			}
			return nil
		}
		r := outbox.NewRelay(w.relayDB, w.d, w.server, outbox.RelayOptions{Log: new(journal).log()})
		if n := step(t, r); n != 3 {
			t.Errorf("%d rows were settled, want 3", n)
		}
	})
}

// TestASlowJobServer: a relay whose job server takes longer than its lease lives
// all the while, so nobody takes its rows and what it says of them counts.
func TestASlowJobServer(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		until := func() (ms int64) {
			if err := w.app.QueryRow(`SELECT max(until) FROM ojs_outbox_relays`).Scan(&ms); err != nil {
				t.Error(err)
			}
			return ms
		}
		w.commit(w.write(0, 3))
		w.server.refuse = func(int, []job.Envelope) error {
			for first, end := until(), time.Now().Add(30*time.Second); until() < first+200; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Error("the lease is not renewed while the job server works")
					break
				}
			}
			return nil
		}
		r := outbox.NewRelay(w.again(), w.d, w.server, outbox.RelayOptions{Lease: 300 * time.Millisecond, Log: new(journal).log()})
		if n := step(t, r); n != 3 || w.rows() != 0 {
			t.Errorf("%d rows are settled, %d are left", n, w.rows())
		}
	})
}

// TestAnOutageIsNobodysDeath: leases run out while nobody could renew them. Who is
// back first takes no rows of one that comes back after it; if that one is dead,
// they are taken when the other has watched for a lease, and not before.
func TestAnOutageIsNobodysDeath(t *testing.T) {
	for _, c := range []struct {
		name string
		then func(t *testing.T, w *world, p, q *pod) *pod // leases have run out; the one that is back first
	}{
		{"both were cut off", func(t *testing.T, w *world, p, q *pod) *pod {
			q.ahead += 3 * lease
			return q
		}},
		{"again and again", func(t *testing.T, w *world, p, q *pod) *pod {
			for range 5 {
				q.ahead += lease * 2 / 3
				step(t, q.relay)
			}
			return q
		}},
		{"the clock of the database jumped", func(t *testing.T, w *world, p, q *pod) *pod {
			q.ahead += lease/3 + time.Second
			return q
		}},
		{"a server has started since", func(t *testing.T, w *world, p, q *pod) *pod {
			return w.pod(t, disk(t), onComplete)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, w *world) {
				p, q := w.pod(t, disk(t), onComplete), w.pod(t, disk(t), onComplete)
				step(t, p.relay) // in SQLite it is the one that works
				q.watch(t, 3)
				w.orders(0, 5)
				p.watch(t, 1)
				w.expire(p, q)
				q.watch(t, 1) // it knows when that lease ended
				first := c.then(t, w, p, q)
				step(t, first.relay)
				if n := w.arrived(first); n != 0 {
					t.Fatalf("%d rows were taken from a job server that had no time to come back", n)
				}
				p.ahead += 3 * lease
				step(t, p.relay)
				first.watch(t, 5)
				if n := w.arrived(first); n != 0 {
					t.Fatalf("%d rows of a job server that is back were taken", n)
				}
				p.work(t, 2)
				step(t, p.relay)
				if got, want := w.held(), statuses("relayed", 2, 5); got != want {
					t.Fatalf("there are %s, want %s", got, want)
				}

				w.expire(p) // it is dead
				first.watch(t, 3)
				if n := w.arrived(first); n != 0 {
					t.Errorf("%d rows were taken before a lease was over", n)
				}
				first.watch(t, 2)
				if n := w.arrived(first); n != 3 {
					t.Errorf("%d rows were taken when it was, want 3", n)
				}
			})
		})
	}
}

// TestALockIsNobodysDeath: the app holds SQLite's write lock for longer than a
// lease. Who stands by may read all the while, and takes nothing over.
func TestALockIsNobodysDeath(t *testing.T) {
	w := newWorld(t)
	w.relayDB = w.open("file:" + w.path + "?_txlock=immediate") // it does not wait for the app
	p, q := w.pod(t, disk(t), onComplete), w.pod(t, disk(t), onComplete)
	w.orders(0, 5)
	step(t, p.relay)
	q.watch(t, 1)
	w.expire(p)
	q.watch(t, 1)
	tx, err := w.app.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	for range 6 {
		q.ahead += lease/3 + time.Second
		if _, err := q.relay.Step(t.Context()); err == nil {
			t.Fatal("it could write")
		}
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	step(t, q.relay)
	p.ahead += 3 * lease
	step(t, p.relay)
	q.watch(t, 5)
	if n := w.arrived(q); n != 0 {
		t.Errorf("%d rows of a job server that lives were taken", n)
	}
}

// TestABackupOfTheAppsDatabase is put back, with a lease that ended long ago: the
// one that works takes up its rows, whoever has opened the file first.
func TestABackupOfTheAppsDatabase(t *testing.T) {
	onlyUnix(t)
	w := newWorld(t)
	p, q := w.pod(t, disk(t), onComplete), w.pod(t, disk(t), onComplete)
	w.orders(0, 5)
	step(t, p.relay)
	q.watch(t, 1)
	w.expire(p)
	w.exec(`PRAGMA wal_checkpoint(TRUNCATE)`)
	files := copyDisk(t, w.path)
	q.watch(t, 3) // of the file that goes
	putBack(t, w.path, files)
	heard(t, q.relay, "another one than before")
	q.watch(t, 2)
	heard(t, p.relay, "another one than before")
	step(t, p.relay)
	q.watch(t, 5)
	if n := w.arrived(q); n != 0 {
		t.Errorf("%d rows of a job server that lives were taken", n)
	}
}

// TestWhoLeavesIsNotWaitedFor: one that has stopped as it should has given up its
// lease, so nobody watches it.
func TestWhoLeavesIsNotWaitedFor(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		p, q := w.pod(t, disk(t), outbox.RelayOptions{}), w.pod(t, disk(t), outbox.RelayOptions{})
		step(t, p.relay)
		step(t, q.relay)
		run(t, p.relay)()
		w.exec(`INSERT INTO ojs_outbox (job_type, job_args, status, owner) VALUES ('email.send', '[]', 'relayed', '` + p.store.Identity() + `')`)
		q.watch(t, 1)
		if n := w.arrived(q); n != 1 {
			t.Errorf("%d rows were taken over, want 1", n)
		}
	})
}
