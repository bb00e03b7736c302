package sidecar

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// contract §4.9: silent for 45 s after a beat is dead; known through fetch only is never dead.
func TestWorkerDeath(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	first, second, third := w.push(nil), w.push(nil), w.push(nil)
	w.take("beats.once", time.Hour)
	kept := w.take("beats.on", time.Hour)
	w.take("never.beats", time.Hour)
	w.beat("earlier") // so that the workers are looked at half a second before the first dies
	w.pass(500 * tick)
	w.beat("beats.once")
	for range 3 {
		w.beat("beats.on", kept)
		w.pass(silence/3 - tick)
		w.is("within 45 s", first.ID, job.Active)
	}
	w.pass(2 * tick)
	w.beat("beats.on", kept)
	w.is("one tick before 45 s", first.ID, job.Active)
	w.pass(tick)
	w.is("silent for 45 s", first.ID, job.Available)
	if j := w.read(first.ID); string(j.Errors) == "" || j.Attempt != 1 || !strings.Contains(string(j.Error), `"type":"worker_death"`) || !strings.Contains(string(j.Error), `"code":"timeout"`) {
		t.Errorf("%s", j.Error)
	}
	w.is("a worker that beats", second.ID, job.Active)
	w.is("a worker that never beat", third.ID, job.Active)
	w.pass(20 * time.Minute)
	w.is("a worker that never beat, after 20 min", third.ID, job.Active)
	w.is("a worker that stopped", second.ID, job.Available)
}

// A job fetched between the last beat and the death of its worker must not wait
// for the half hour of its reservation: 45 s after the claim is the latest that
// contract §4.9 can be read to mean.
func TestWorkerDeathAfterAFetch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	w.beat("w")
	w.pass(30 * time.Second)
	w.push(nil)
	held := w.take("w", 0)
	w.pass(silence - 30*time.Second)
	w.pass(30 * time.Second)
	w.is("75 s after the beat, 45 s after the claim", held.ID, job.Available)
}

// A job that kills every worker which takes it ends after max_attempts.
func TestPoisonJobEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	j := w.push(nil)
	for n := range 3 {
		w.is("before the run", j.ID, job.Available)
		worker := string(rune('a' + n))
		w.take(worker, time.Hour)
		w.beat(worker)
		w.pass(silence)
	}
	w.is("after three workers", j.ID, job.Discarded)
	if got := w.read(j.ID); got.Attempt != 3 {
		t.Errorf("attempt %d", got.Attempt)
	}
}

// Stale workers are forgotten after 24 h (contract §4.9).
func TestStaleWorkersAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	w.beat("old")
	for range 24 {
		w.pass(time.Hour)
	}
	if h, err := w.Health(t.Context()); err != nil || h.Workers != 1 || h.StaleNow != 1 {
		t.Errorf("after 24 h: %+v, %v", h, err)
	}
	w.pass(2 * time.Hour)
	if h, err := w.Health(t.Context()); err != nil || h.Workers != 0 || h.StaleNow != 0 {
		t.Errorf("after 26 h: %+v, %v", h, err)
	}
}

// Leases, schedules and dead letters outlive the process (contract §4.6).
func TestRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	active, later, waits := w.push(nil), w.push(func(e *job.Envelope) { e.Delay = time.Hour }), w.push(nil)
	held := w.take("w", time.Minute)
	dead := w.fail(w.take("w", 0), job.Failure{Code: "DEAD_LETTER"})
	if dead.ID != waits.ID {
		t.Fatalf("fetched %s, want %s", dead.ID, waits.ID)
	}
	w.beat("w", held)
	w.set(genesis.Add(30 * time.Second))
	w.restart()
	w.is("held over the restart", active.ID, job.Active)
	w.ack(held)
	w.is("acknowledged with its token", active.ID, job.Completed)
	w.push(nil)
	held = w.take("w2", time.Minute)
	w.set(w.time().Add(2 * time.Minute))
	w.restart() // the first thing it does is to take back what ran out
	w.is("ran out while nobody looked", held.ID, job.Available)
	w.is("not due yet", later.ID, job.Scheduled)
	w.pass(time.Hour)
	w.is("due", later.ID, job.Available)
	if st, err := w.DeadStats(t.Context()); err != nil || st.Total != 1 {
		t.Errorf("%+v, %v", st, err)
	}
}

// A quiet worker is quiet after a restart, too: nobody has told it to go on.
func TestRestartKeepsWorkersQuiet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	if _, err := w.Beat(t.Context(), job.Beat{Worker: job.WorkerInfo{ID: "w", State: "quiet"}}); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.push(nil)
	if got := w.fetch("w", 1, 0); len(got) != 0 {
		t.Errorf("a quiet worker got %s", got[0].ID)
	}
	w.take("other", 0)
}

// A heartbeat without a length takes the one fixed at FETCH (contract §4.6), which may
// end before what an earlier heartbeat asked for: the duties, which have looked in
// between, must learn of it.
func TestABeatShortensAReservation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	for _, again := range []time.Duration{0, 3 * time.Second} { // that of FETCH, and one of its own
		w.push(nil)
		held := w.take("w", 2*time.Second)
		beat := func(length time.Duration) {
			t.Helper()
			reply, err := w.Beat(t.Context(), job.Beat{Worker: job.WorkerInfo{ID: "w"}, Jobs: []job.Claim{{ID: held.ID, Token: held.Lease.Token}}, Visibility: length})
			if err != nil || len(reply.Extended) != 1 {
				t.Fatalf("%+v, %v", reply, err)
			}
		}
		beat(time.Minute)
		w.pass(10 * time.Second) // the duties have looked, and plan to look in 50 s
		beat(again)
		w.pass(cmp.Or(again, 2*time.Second) - tick)
		w.is("one tick before", held.ID, job.Active)
		w.pass(tick)
		w.is("after the shorter reservation", held.ID, job.Available)
		w.ack(w.take("w", 0))
	}
}

// A clock that is set back by an hour runs nothing early, and freezes nothing that
// becomes due by the new clock.
func TestClockGoesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	far := w.push(func(e *job.Envelope) { e.Delay = time.Minute })
	w.push(nil)
	held := w.take("w", time.Minute)
	w.beat("w", held)
	w.pass(time.Second)
	w.set(w.time().Add(-time.Hour))
	w.settle()
	near := w.push(func(e *job.Envelope) { e.Delay = time.Second })
	w.pass(time.Second - tick)
	w.is("one tick early", near.ID, job.Scheduled)
	w.pass(tick)
	w.is("due by the new clock", near.ID, job.Available)
	got := w.take("w", time.Second)
	w.pass(time.Second)
	w.is("reserved by the new clock", got.ID, job.Available)
	w.is("its own time has not come", far.ID, job.Scheduled)
	failed := w.fail(w.take("w", 0), job.Failure{Message: "no"})
	w.pass(failed.RetryDelay)
	w.is("backoff by the new clock", failed.ID, job.Available)
	w.set(genesis.Add(time.Minute))
	w.settle()
	w.is("its time has come", far.ID, job.Available)
}

// When the clock jumps forward, or the process was suspended, a worker that beats
// keeps its jobs over the first look, and a silent one still loses them in the end.
func TestClockJumpsForward(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, w *world) {
		w.push(nil)
		held := w.take("w", 30*time.Second)
		live := func(beats int) {
			for range beats {
				w.beat("w", held)
				time.Sleep(5 * time.Second) // of the bubble
			}
		}
		live(3)
		w.skew.Add(int64(time.Hour))
		time.Sleep(4 * time.Second)
		w.is("the first looks after the jump", held.ID, job.Active)
		live(20)
		w.is("it has beaten since", held.ID, job.Active)
		time.Sleep(25*time.Second - tick)
		w.is("30 s after the last beat, less a tick", held.ID, job.Active)
		time.Sleep(2 * tick)
		w.is("30 s after the last beat", held.ID, job.Available)
		again := w.take("w", 30*time.Second)
		w.beat("w", again)
		w.skew.Add(int64(time.Hour))
		time.Sleep(time.Minute)
		w.is("a minute after a jump, and no beat", again.ID, job.Available)
	})
}
