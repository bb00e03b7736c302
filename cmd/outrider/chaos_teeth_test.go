//go:build unix

package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

// spoiled is a history by hand: seven orders, of which the last four come in pairs
// with a key, and all are well. Each case then spoils one thing.
type spoiled struct {
	s      *chaosShop
	h      *history
	orders []*placed
}

func newSpoiled(t *testing.T, database string) *spoiled {
	w := &spoiled{s: newShop(t, database), h: newHistory()}
	d := theStation{}
	w.orders = []*placed{d.order(), d.order(), d.order(),
		d.keyed(kindOf("ignore"), "a"), d.keyed(kindOf("ignore"), "a"), d.keyed(kindOf("reject"), "b"), d.keyed(kindOf("reject"), "b")}
	w.orders[1].jobID = newJobID()
	w.s.placeAll(w.orders...)
	for _, p := range w.orders {
		if p.id != 5 && p.id != 7 { // 4 answers for 5, 6 for 7
			w.runs(p, "server 1")
		}
	}
	w.park(7)
	return w
}

// runs is a run of an order, from its beginning to the server's word.
func (w *spoiled) runs(p *placed, server string) *handled {
	id := job.ID(p.jobID)
	if id == "" {
		id = deriveFor(p)
	}
	r := &handled{job: id, order: p.id, server: server, queue: p.queue, priority: p.priority, began: time.Now().UnixMicro() + 10*int64(len(w.h.runs))}
	r.done, r.acked = r.began+1, r.began+2
	w.h.runs = append(w.h.runs, r)
	return r
}

// deriveFor is an id for the job of an order without one, the same each time.
func deriveFor(p *placed) job.ID { return job.ID("derived-" + argsOf(p.id)) }

func (w *spoiled) park(order int64) {
	w.s.exec(fmt.Sprintf(`UPDATE ojs_outbox SET status = 'parked', error = 'exists' WHERE id = %d`, order)) // a row each
}

func (w *spoiled) lose(order int64) {
	w.h.runs = slices.DeleteFunc(w.h.runs, func(r *handled) bool { return r.order == order })
}

const (
	lawAnswered = iota
	lawOnce
	lawCommitted
	lawQueue
	lawID
	lawOneID
	lawParked
	noLaw = -1
)

var teeth = []struct {
	name   string
	spoil  func(w *spoiled)
	breaks int // index of the law
	orders []int64
}{
	{"nothing", func(w *spoiled) {}, noLaw, nil},
	{"a row is dropped", func(w *spoiled) { w.lose(1) }, lawAnswered, []int64{1}},
	{"a job with a key is dropped, and who it answered for", func(w *spoiled) { w.lose(4) }, lawAnswered, []int64{4, 5}},
	{"an order is rejected, and its row is not parked", func(w *spoiled) { w.s.exec(`DELETE FROM ojs_outbox WHERE id = 7`) }, lawAnswered, []int64{7}},
	{"who answers had ended before the order was placed", func(w *spoiled) {
		for _, r := range w.h.runs {
			if r.order == 4 {
				r.began, r.acked = w.orders[4].at-2, w.orders[4].at-1
			}
		}
	}, lawAnswered, []int64{5}},
	{"who answers was not heard in time", func(w *spoiled) {
		for _, r := range w.h.runs {
			if r.order == 4 {
				r.acked = 0
			}
		}
	}, noLaw, nil},
	{"a job runs twice", func(w *spoiled) { w.runs(w.orders[1], "server 1") }, lawOnce, []int64{2}},
	{"a job runs twice, and nobody hears it", func(w *spoiled) { w.runs(w.orders[1], "server 1").acked = 0 }, lawOnce, []int64{2}},
	{"a job runs again that was not heard", func(w *spoiled) {
		w.h.runs[1].acked = 0
		w.runs(w.orders[1], "server 1")
	}, noLaw, nil},
	{"a row that was there when the disk was lost", func(w *spoiled) {
		w.h.fault("server 1", diskLost, excuse{order: 2, why: "its row was in the outbox"})
		w.runs(w.orders[1], "server 2")
	}, noLaw, nil},
	{"the same once more", func(w *spoiled) {
		w.h.fault("server 1", diskLost, excuse{order: 2, why: "its row was in the outbox"})
		w.runs(w.orders[1], "server 2")
		w.runs(w.orders[1], "server 2")
	}, lawOnce, []int64{2}},
	{"another row was there when the disk was lost", func(w *spoiled) {
		w.h.fault("server 1", diskLost, excuse{order: 1, why: "its row was in the outbox"})
		w.runs(w.orders[1], "server 2")
	}, lawOnce, []int64{2}},
	{"a job that nobody ordered", func(w *spoiled) { w.runs(&placed{id: 99, queue: "default"}, "server 1") }, lawCommitted, []int64{99}},
	{"a job of another queue", func(w *spoiled) { w.h.runs[0].queue = "mail" }, lawQueue, []int64{1}},
	{"a job of another id", func(w *spoiled) { w.h.runs[1].job = "another" }, lawID, []int64{2}},
	{"two jobs of one row", func(w *spoiled) { w.runs(w.orders[0], "server 1").job = "another" }, lawOneID, []int64{1}},
	{"a row parked for nothing", func(w *spoiled) { w.park(3) }, lawParked, []int64{3}},
}

// TestTheJudgeHasTeeth: what is lost, doubled, invented, changed or parked for
// nothing is found by its law and no other, and what README allows is not.
func TestTheJudgeHasTeeth(t *testing.T) {
	for _, c := range teeth {
		t.Run(c.name, func(t *testing.T) {
			w := newSpoiled(t, "sqlite")
			c.spoil(w)
			w.s.keepHistory(w.h)
			all := laws(outbox.OnComplete, 2)
			found := w.s.find(all)
			if c.breaks == noLaw {
				if len(found) > 0 {
					t.Errorf("found %+v where nothing is wrong", found)
				}
				return
			}
			if len(found) != 1 || found[0].what != all[c.breaks].what || !slices.Equal(slices.Sorted(slices.Values(found[0].orders)), c.orders) {
				t.Errorf("got %+v, want %q of %v", found, all[c.breaks].what, c.orders)
			}
		})
	}
}

// TestTheJudgeKnowsARelease: with on_relay an order may be lost with the disk that
// it was sent to, and not when its row was still there, or came later, or when
// nothing was lost.
func TestTheJudgeKnowsARelease(t *testing.T) {
	for _, c := range []struct {
		name, fault string
		row, lost   bool // was in the outbox at the fault; may not be missing
	}{{"sent", diskLost, false, false}, {"sent, old store", putBack, false, false}, {"not sent", diskLost, true, true}, {"no disk lost", killed, false, true}} {
		t.Run(c.name, func(t *testing.T) {
			w := newSpoiled(t, "sqlite")
			w.lose(1)
			var because []excuse
			if c.row {
				because = []excuse{{order: 1, why: "its row was in the outbox"}}
			}
			w.h.fault("server 1", c.fault, because...)
			later := &placed{id: 8, via: waySQL, kind: noKey, queue: "default", shape: shapeBinding, copies: 1}
			w.s.placeAll(later)
			w.s.keepHistory(w.h)
			want := []int64{8}
			if c.lost {
				want = []int64{1, 8}
			}
			found := w.s.find(laws(outbox.OnRelay, 2))
			if len(found) != 1 || !slices.Equal(slices.Sorted(slices.Values(found[0].orders)), want) {
				t.Errorf("got %+v, want %v", found, want)
			}
		})
	}
}

// TestTheJudgeKnowsTwoServers: two rows with one id are two jobs of two stores, and one of one.
func TestTheJudgeKnowsTwoServers(t *testing.T) {
	w := newSpoiled(t, "sqlite")
	twins := &placed{id: 8, via: waySQL, jobID: newJobID(), kind: noKey, queue: "default", shape: shapeBinding, copies: 2}
	w.s.placeAll(twins)
	w.runs(twins, "server 1")
	w.runs(twins, "server 2")
	w.s.keepHistory(w.h)
	for servers, wrong := range map[int]int{1: 1, 2: 0} {
		if found := w.s.find(laws(outbox.OnComplete, servers)); len(found) != wrong {
			t.Errorf("of %d servers found %+v, want %d findings", servers, found, wrong)
		}
	}
}
