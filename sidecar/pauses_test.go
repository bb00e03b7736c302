package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// gap is a time in which the process stands still.
type gap struct{ from, to time.Time }

// beater is a worker with one job, which beats until it dies.
type beater struct {
	name          string
	job           *job.Job
	length, every time.Duration // of its reservation or the silence; between two beats
	dies          time.Time     // zero: never
	next          time.Time     // when it says something next
	arrives       time.Time     // when that is heard; zero: it has not been sent
	heard         time.Time
}

// standing plays a server that stands still now and then, and workers whose words
// lie in its socket meanwhile.
type standing struct {
	*world
	r       *rapid.T
	gaps    []gap // in their order
	workers []*beater
	meant   time.Time
	judged  time.Time
}

// stopped is the gap in which t lies.
func (x *standing) stopped(t time.Time) (gap, bool) {
	i := slices.IndexFunc(x.gaps, func(g gap) bool { return !t.Before(g.from) && t.Before(g.to) })
	if i < 0 {
		return gap{}, false
	}
	return x.gaps[i], true
}

// listened is how much of the time from a to b the process ran.
func (x *standing) listened(a, b time.Time) time.Duration {
	d := b.Sub(a)
	for _, g := range x.gaps {
		d -= max(0, sooner(g.to, b).Sub(later(g.from, a)))
	}
	return d
}

func (x *standing) millis(what string, least, most int) time.Duration {
	return time.Duration(rapid.IntRange(least, most).Draw(x.r, what)) * time.Millisecond
}

func (x *standing) draw() {
	end := x.time()
	for range rapid.IntRange(1, 10).Draw(x.r, "pauses") {
		from := end.Add(x.millis("runs", 1, 3000))
		end = from.Add(x.millis("stands still", 1, rapid.SampledFrom([]int{10, 300, 300, 3000, 10_000}).Draw(x.r, "at most")))
		x.gaps = append(x.gaps, gap{from, end})
	}
	for n := range 3 {
		w := &beater{name: string(rune('a' + n))}
		visibility := x.millis("reservation", 600, 6000)
		if rapid.Bool().Draw(x.r, "by silence") {
			visibility = time.Hour
		}
		w.length = min(visibility, x.o.Silence)
		w.every = w.length - x.millis("beats before its end", 20, int(w.length.Milliseconds()*3/4))
		if rapid.Bool().Draw(x.r, "in the last moment") {
			w.every = w.length - 20*time.Millisecond
		}
		if rapid.Bool().Draw(x.r, "dies") {
			w.dies = x.time().Add(x.millis("dies after", 0, 10_000))
		}
		x.world.push(nil)
		w.job = x.take(w.name, visibility)
		x.beat(w.name, w.job)
		w.heard, w.next = x.time(), x.time().Add(w.every)
		x.workers = append(x.workers, w)
	}
}

// readWithin is how many milliseconds it takes at most to read what came in a gap.
func readWithin(g gap) int {
	d := g.to.Sub(g.from)
	if d > 2*lookEvery {
		d = min(2*d, 100*time.Millisecond)
	}
	return int(d.Milliseconds())
}

// send draws when the next word of a worker is heard.
func (x *standing) send(w *beater) {
	if !w.arrives.IsZero() || !w.dies.IsZero() && !w.next.Before(w.dies) {
		return
	}
	w.arrives = w.next.Add(x.millis("way", 0, 9))
	if g, in := x.stopped(w.arrives); in {
		w.arrives = g.to.Add(x.millis("read after", 0, readWithin(g)))
	}
	if g, in := x.stopped(w.arrives); in {
		w.arrives = g.to
	}
}

// step goes on to the next thing that happens, and says whether that was a duty, or
// the first look for a while. They come first in the instant after a pause.
func (x *standing) step() (looked bool) {
	at := x.meant
	if g, in := x.stopped(at); in {
		at = g.to
	}
	var speaks *beater
	for _, w := range x.workers {
		if x.send(w); !w.arrives.IsZero() && w.arrives.Before(at) {
			at, speaks = w.arrives, w
		}
	}
	x.set(at)
	if speaks != nil {
		x.beat(speaks.name, speaks.job)
		speaks.heard, speaks.next, speaks.arrives = at, at.Add(speaks.every), time.Time{}
	}
	poked := false
	select {
	case <-x.clock.poke: // a beat that shortens a reservation wakes the loop
		poked = true
	default:
	}
	if meant := sooner(x.meant, x.clock.soonest()); poked || !meant.After(at) {
		x.listen(at, meant)
		looked = !x.clock.soonest().After(at) || at.Sub(x.judged) >= readTime/8
		if looked {
			x.judged = at
		}
		x.round(x.t.Context())
		x.meant = x.planned(at)
		return looked
	}
	return false
}

// judge compares one worker's job with what must hold of it.
func (x *standing) judge(w *beater) {
	end, now := w.heard.Add(w.length), x.time()
	j := x.read(w.job.ID)
	lost := j.Attempt != 1 || j.State != job.Active
	if alive := w.dies.IsZero() || w.next.Before(w.dies) || !w.arrives.IsZero(); lost && (alive || now.Before(end)) {
		x.r.Fatalf("%s: worker %s, last heard %s before, lost its job, which would have ended %s before", now.Sub(genesis), w.name, now.Sub(w.heard), now.Sub(end))
	}
	for _, g := range x.gaps {
		if covered := g.to.Add(min(g.to.Sub(g.from), x.o.Silence/3) + readTime); !g.from.After(end) && x.listened(g.to, now) < covered.Sub(g.to) {
			return
		}
	}
	if !lost && now.After(end) {
		x.r.Fatalf("%s: worker %s was last heard %s before, and still has its job, which ended %s before", now.Sub(genesis), w.name, now.Sub(w.heard), now.Sub(end))
	}
}

// Whatever pauses there are, who lives keeps his job, and who is dead loses it as
// soon as nothing that he might have said can still be unheard.
func TestPausesRobNobodyAndSpareNobodyLong(t *testing.T) {
	chooseSequences(t, 100, 4)
	playSequences(t, func(t *testing.T, r *rapid.T, store *sqlitestore.Store) {
		x := &standing{world: &world{t: t, now: genesis, store: store}, r: r}
		x.Sidecar = New(store, Options{Now: x.time, Silence: rapid.SampledFrom([]time.Duration{3 * time.Second, 6 * time.Second}).Draw(r, "silence"), Rand: func() float64 { return 0.5 }})
		x.settle()
		x.set(genesis.Add(6 * time.Second)) // until which a server that has just begun spares everybody
		x.meant = x.time()
		x.draw()
		over := x.gaps[len(x.gaps)-1].to.Add(12 * time.Second)
		for x.time().Before(over) {
			if !x.step() {
				continue
			}
			for _, w := range x.workers {
				x.judge(w)
			}
		}
	})
}

// A stream of pauses, each shorter than the reservations, puts off none of them
// for longer than it takes to listen for as long as one pause was.
func TestAStreamOfPausesSparesNobodyForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	w.push(nil)
	dead := w.take("dead", 2*time.Second)
	meant := w.time()
	for n := range 100 {
		now := w.time().Add(time.Second) // of which it ran for 50 ms
		w.set(now)
		w.listen(now, now.Add(-950*tick))
		w.round(t.Context())
		meant = now
		if w.read(dead.ID).State == job.Available {
			if n < 2 || n > 30 {
				t.Errorf("lost after %d pauses", n)
			}
			return
		}
	}
	t.Errorf("held after 100 pauses, at %s", meant.Sub(genesis))
}

// What ran out before a pause began is not spared by it.
func TestAPauseSparesNothingThatRanOutBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	w.push(nil)
	w.push(nil)
	before, within := w.take("w", time.Second), w.take("w", 3*time.Second)
	w.listen(w.time(), w.time())
	w.set(genesis.Add(6 * time.Second))
	w.listen(w.time(), genesis.Add(2*time.Second))
	w.settle()
	w.is("ran out a second before the pause", before.ID, job.Available)
	w.is("ran out within it", within.ID, job.Active)
	for range 42 {
		w.is("within the length of the pause, and the time to read", within.ID, job.Active)
		w.set(w.time().Add(100 * tick))
		w.listen(w.time(), w.time())
		w.settle()
	}
	w.is("afterwards", within.ID, job.Available)
}

// In the last moments before something runs out the loop looks often, so that no
// pause in them is missed; at other times it sleeps.
func TestTheLastMomentsAreWatched(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	w.push(nil)
	w.take("w", 5*time.Second)
	looks := 0
	for end := genesis.Add(5 * time.Second); w.time().Before(end); looks++ {
		next := w.planned(w.time())
		if d := next.Sub(w.time()); d <= 0 || d > longest || d > lookEvery && next.After(end.Add(-readTime)) {
			t.Fatalf("%s before the end the loop sleeps for %s", end.Sub(w.time()), d)
		}
		w.set(next)
	}
	if looks > 50 {
		t.Errorf("it looked %d times in 5 s", looks)
	}
}

// An ACK that lay in the socket is not beaten by the execution timeout that
// passed while nobody read it (ojs-core.md §5.2).
func TestAPauseLetsAnAckBeReadBeforeTheTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	w.push(func(e *job.Envelope) { e.Timeout = 3 * time.Second })
	held := w.take("w", time.Minute)
	w.listen(w.time(), w.time())
	w.set(genesis.Add(5 * time.Second))
	w.listen(w.time(), genesis.Add(2*time.Second))
	w.settle()
	if done, err := w.Ack(t.Context(), job.Claim{ID: held.ID, Token: held.Lease.Token}, nil); err != nil || done.Errors != nil {
		t.Errorf("%v, %s", err, done.Errors)
	}
}

// A clock that is set forward, or goes on while the machine sleeps, makes no
// attempt longer: the rest of its time is left to it, and no more.
func TestAClockThatJumpsEndsNoAttempt(t *testing.T) {
	t.Parallel()
	for _, own := range []time.Duration{0, 10 * time.Minute} {
		bubble(t, func(t *testing.T, w *world) {
			w.push(func(e *job.Envelope) { e.Timeout = own })
			held := w.take("w", 30*time.Second)
			live := func(d time.Duration) {
				for range int(d / (5 * time.Second)) {
					w.beat("w", held)
					time.Sleep(5 * time.Second) // of the bubble
				}
			}
			limit := own
			if own == 0 {
				limit = 30 * time.Minute
			}
			live(time.Minute)
			w.skew.Add(int64(2 * time.Hour))
			live(time.Minute)
			w.skew.Add(int64(time.Hour))
			live(limit - 2*time.Minute - 10*time.Second)
			w.is("10 s before its limit", held.ID, job.Active)
			live(5 * time.Second)
			time.Sleep(10 * time.Second)
			if j := w.read(held.ID); j.State == job.Active || !strings.Contains(string(j.Error), `"type":"timeout"`) {
				t.Errorf("after its limit: %s, %s", j.State, j.Error)
			}
		})
	}
}

// An attempt that began after the clock was set forward, but before that was
// noticed, has the time of its limit and not that of the jump as well.
func TestAClockThatJumpedBeforeAnAttemptMakesItNoLonger(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, w *world) {
		w.push(nil)
		w.take("another", time.Minute)      // so that the loop is not woken for the next
		time.Sleep(1500 * time.Millisecond) // of the bubble; it looks at each second
		w.skew.Add(int64(2 * time.Hour))
		w.push(func(e *job.Envelope) { e.Timeout = 10 * time.Second })
		held := w.take("w", time.Hour)
		time.Sleep(9 * time.Second)
		w.is("before its limit", held.ID, job.Active)
		time.Sleep(9 * time.Second) // with the grace that follows a jump
		if j := w.read(held.ID); !strings.Contains(string(j.Error), `"type":"timeout"`) {
			t.Errorf("after its limit: %s, %s", j.State, j.Error)
		}
	})
}

// What is due already when it is stored was not slept through: whoever pushes jobs
// that have expired spares no dead worker.
func TestWhatIsDueAtOnceIsNoPause(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, w *world) {
		w.push(nil)
		dead := w.take("dead", 3*time.Second)
		for range 10 {
			time.Sleep(500 * time.Millisecond) // of the bubble
			w.push(func(e *job.Envelope) { e.ExpiresAt = w.Sidecar.now().Add(-time.Hour) })
		}
		w.is("2 s after its reservation", dead.ID, job.Available)
	})
}

// full is a store whose disk is full while it says so.
type full struct {
	job.Store
	is bool
}

func (f *full) Update(ctx context.Context, fn func(job.Tx) error) error {
	if f.is {
		return &job.Error{Kind: job.Unavailable, Message: "the disk is full", Err: errors.ErrUnsupported}
	}
	return f.Store.Update(ctx, fn)
}

// A worker whose beats could not be stored was not silent, also
// where the disk was full for longer than any grace. One that says nothing
// afterwards loses its job.
func TestBeatsThatCouldNotBeStored(t *testing.T) {
	t.Parallel()
	for _, long := range []time.Duration{3 * time.Second, 10 * time.Minute} {
		w := newWorld(t, Retention{})
		disk := &full{Store: w.store}
		w.Sidecar = New(disk, Options{Now: w.time, Rand: w.o.Rand})
		live, dead := w.push(nil), w.push(nil)
		held := w.take("live", 2*time.Second)
		w.take("dead", 2*time.Second)
		turn := func() {
			w.set(w.time().Add(500 * tick))
			w.listen(w.time(), w.time())
			w.round(t.Context())
		}
		beat := func() error {
			_, err := w.Beat(t.Context(), job.Beat{Worker: job.WorkerInfo{ID: "live"}, Jobs: []job.Claim{{ID: held.ID, Token: held.Lease.Token}}})
			return err
		}
		turn()
		disk.is = true
		for until := w.time().Add(long); w.time().Before(until); turn() {
			if err := beat(); job.KindOf(err) != job.Unavailable {
				t.Fatalf("a beat on a full disk: %v", err)
			}
		}
		disk.is = false
		turn()
		turn()
		w.is("the disk takes beats again", live.ID, job.Active)
		for range 32 {
			if err := beat(); err != nil {
				t.Fatal(err)
			}
			turn()
		}
		w.is("it has beaten since", live.ID, job.Active)
		w.is("it has not", dead.ID, job.Available)
	}
}

// A stranger whose beats are broken off must not spare the dead.
func TestBeatsThatAreBrokenOffSpareNobodyForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	dead := w.push(nil)
	w.take("dead", 2*time.Second)
	gone, leave := context.WithCancel(t.Context())
	leave()
	for range 60 {
		_, _ = w.Beat(gone, job.Beat{Worker: job.WorkerInfo{ID: "stranger"}}) // fails, or not
		w.pauses.missed(w.time())
		w.set(w.time().Add(500 * tick))
		w.listen(w.time(), w.time())
		w.round(t.Context())
	}
	w.is("half a minute later", dead.ID, job.Available)
}

// The silence that ends a worker is a setting (ojs-core.md §7.5), and a worker
// that registers is told it.
func TestSilenceIsASetting(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Retention{})
	w.Sidecar = New(w.store, Options{Now: w.time, Rand: w.o.Rand, Silence: 20 * time.Second})
	r, err := w.Register(t.Context(), job.WorkerInfo{ID: "w"})
	if err != nil || r.Silence != 20*time.Second {
		t.Errorf("%+v, %v", r, err)
	}
	j := w.push(func(e *job.Envelope) { e.Meta = json.RawMessage(`{}`) })
	w.take("w", time.Hour)
	w.pass(20*time.Second - tick)
	w.is("one tick before", j.ID, job.Active)
	w.pass(tick)
	w.is("silent for 20 s", j.ID, job.Available)
	if h, err := w.Health(t.Context()); err != nil || h.StaleNow != 1 || h.StaleAfter != 20*time.Second {
		t.Errorf("%+v, %v", h, err)
	}
}
