//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/outbox"
)

// The faults of the stores, one by one and as small as they can be: one server,
// with on_complete, and no worker before the last fault.

// theStation is a shop with one server, whose orders have come to it.
type theStation struct {
	*station
	next int64 // order
}

func newTheStation(t *testing.T, s *chaosShop) *theStation {
	st := newStation(t, s, newHistory(), "server", s.dsn, "--outbox-release", string(outbox.OnComplete), "--outbox-lease", "1s")
	st.alone = true
	return &theStation{station: st}
}

// order is the next order, as plain as can be.
func (st *theStation) order() *placed {
	st.next++
	return &placed{id: st.next, via: waySQL, kind: noKey, queue: "default", shape: shapeBinding, copies: 1}
}

// keyed is the next order, with a key.
func (st *theStation) keyed(kind *keyKind, key string) *placed {
	p := st.order()
	p.kind, p.key = kind, key
	if kind.delayed {
		p.delay = 3 * time.Second
	}
	return p
}

// each are orders of each way: with an id and without, in SQL and in Go.
func (st *theStation) each() []*placed {
	all := []*placed{st.order(), st.order(), st.order(), st.order()}
	all[1].jobID = newJobID()
	all[2].via = wayGo
	all[3].via, all[3].jobID = wayGo, newJobID()
	return all
}

// relayed waits until no row waits to be sent.
func (st *theStation) relayed() {
	st.t.Helper()
	if left := settles(func() int64 { x := st.s.status(); return x.Pending + x.Taken }); left > 0 {
		st.t.Fatalf("%d rows are not relayed: %+v", left, st.s.status())
	}
}

// resumed waits until the server has taken up its rows after a start, and written
// what it thinks of them: it does so before it sends others.
func (st *theStation) resumed() {
	st.t.Helper()
	for range 2 {
		st.s.placeAll(st.order())
		st.relayed()
	}
}

// judge lets a worker do what there is, and judges.
func (st *theStation) judge(more ...law) {
	st.t.Helper()
	up(st.t, st.keeper, st.url)
	st.h.work(st.t, "server", st.url, 10, 0)
	st.drained()
	st.stop()
	st.s.keepHistory(st.h)
	st.s.judge(0, append(laws(outbox.OnComplete, 1), more...))
}

// drained waits until no row is left and no job lives.
func (st *theStation) drained() {
	st.t.Helper()
	settles(func() int64 { x := st.s.status(); return x.Pending + x.Taken + x.Relayed })
	settles(func() int64 { return liveAt(st.t, st.url) })
}

// TestChaosOfARestartAndALostDisk: a server takes its rows up again, and its disk
// is lost after that. Rows with ids and without wait for their jobs all the time.
func TestChaosOfARestartAndALostDisk(t *testing.T) {
	onShopsAtOnce(t, func(t *testing.T, s *chaosShop) {
		st := newTheStation(t, s)
		s.placeAll(st.each()...)
		st.relayed()
		st.do(killed)
		st.resumed()
		st.do(diskLost)
		st.judge()
	})
}

// TestChaosOfAnOlderStore: a store is put back that knows nothing of half of the
// jobs. Their rows are sent again, also those that were placed after a first
// return, and the log says so.
func TestChaosOfAnOlderStore(t *testing.T) {
	onShopsAtOnce(t, func(t *testing.T, s *chaosShop) {
		st := newTheStation(t, s)
		s.placeAll(st.each()...)
		st.relayed()
		st.do(copyKept)
		for range 2 { // the same copy comes back twice
			s.placeAll(st.each()...)
			st.resumed()
			st.do(putBack)
			up(t, st.keeper, st.url)
		}
		st.resumed()
		st.judge()
		if st.said("older") == 0 {
			t.Errorf("the server did not say that its store is older than it was:\n%s", st.words(20))
		}
	})
}

// TestChaosOfAnsweredRows: other jobs answer for rows, and live on the disk alone:
// they came by HTTP, or with a row that says something else. The disk is lost.
func TestChaosOfAnsweredRows(t *testing.T) {
	onShopsAtOnce(t, func(t *testing.T, s *chaosShop) {
		st := newTheStation(t, s)
		c, err := client.New(st.url, client.Options{})
		s.must(err)
		defer c.Close()
		for i, kind := range keyKinds {
			if kind.parks || kind.cancels && !kind.rewrites {
				continue // its row is parked, or a job of its own
			}
			key := fmt.Sprintf("key-%d", i)
			e := st.keyed(kind, key).envelope()
			e.Args = json.RawMessage(fmt.Sprintf(`[{"order":0,"k":"%s"}]`, key))
			e.Delay = time.Hour
			if _, err := c.Enqueue(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			s.placeAll(st.keyed(kind, key))
			if kind.rewrites { // the second word of the app is the last
				s.placeAll(st.keyed(kind, "pair"))
				s.placeAll(st.keyed(kind, "pair"))
			}
		}
		st.relayed()
		st.resumed()
		st.do(diskLost)
		st.judge(law{"orders that said the last word of their key, and nobody has worked on them",
			`SELECT o.id FROM orders o WHERE o.akey <> '' AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.order_id = o.id)
			AND NOT EXISTS (SELECT 1 FROM orders s WHERE s.akey = o.akey AND s.id > o.id)`})
	})
}

// TestChaosOfTwoRowsOfOneJob: both go when it ends, without a restart.
func TestChaosOfTwoRowsOfOneJob(t *testing.T) {
	onShopsAtOnce(t, func(t *testing.T, s *chaosShop) {
		st := newTheStation(t, s)
		twins := st.order()
		twins.jobID, twins.copies = newJobID(), 2
		s.placeAll(twins, st.order())
		st.relayed()
		st.judge()
	})
}

// TestChaosOfAChangedRelease: rows that stayed for their jobs go when the server
// starts with on_relay, which says so. When its disk is lost much later, nothing
// of them runs again.
func TestChaosOfAChangedRelease(t *testing.T) {
	onShopsAtOnce(t, func(t *testing.T, s *chaosShop) {
		st := newTheStation(t, s)
		s.placeAll(st.each()...)
		st.relayed()
		st.release(string(outbox.OnRelay))
		st.resumed()
		stop := st.h.work(t, "server", st.url, 10, 0)
		st.drained()
		s.nothingLeft()
		stop()
		if st.said("on_relay") == 0 {
			t.Errorf("the server did not say what becomes of the rows that stayed:\n%s", st.words(20))
		}
		st.crash(func() { // nothing is excused
			st.empty(st.disk)
			st.h.fault(st.name, diskLost)
		})
		st.resumed()
		st.judge()
	})
}
