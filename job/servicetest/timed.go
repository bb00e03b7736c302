package servicetest

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// Start starts a server, with its duties, over a store that is there already.
// now is its clock. stop ends the server, and the store stays.
type Start func(now func() time.Time) (s job.Service, stop func())

// RunTimed judges, as Run does, what takes hours and years. Each case has a bubble
// of synctest, where time passes only while everybody waits, and a clock that it
// may set. open makes a new, empty store for each case, and closes it with t.Cleanup.
func RunTimed(t *testing.T, open func(t *testing.T) Start) {
	for _, v := range slices.Concat(enduring, effects, windows, crons()) {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k := &kit{t: t, time: &timed{start: open(t)}}
				k.begin(midnight.Add(30 * time.Minute))
				t.Cleanup(func() { k.time.stop() })
				v.test(k)
			})
		})
	}
}

// midnight is when the day of the timed cases begins, a Monday.
var midnight = time.Date(2027, 1, 4, 0, 0, 0, 0, time.UTC)

// at is a time of that day.
func at(hour, minute int) time.Time {
	return midnight.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
}

// timed is the server of a case and its clock, which goes on as that of the bubble does.
type timed struct {
	start Start
	stop  func()
	skew  atomic.Int64
}

func (c *timed) now() time.Time { return time.Now().Add(time.Duration(c.skew.Load())).UTC() }

// now is the present, for the server as well.
func (k *kit) now() time.Time { return k.time.now() }

// pass lets time go by, and everything happen that is due then.
func (k *kit) pass(d time.Duration) {
	k.pause(d)
	synctest.Wait()
}

// reach lets time go by until t.
func (k *kit) reach(t time.Time) {
	k.t.Helper()
	d := t.Sub(k.now())
	if d < 0 {
		k.t.Fatalf("it is %s, too late for %s", k.now(), t)
	}
	k.pass(d)
}

// set sets the clock of the running server, which may take a second to notice.
func (k *kit) set(t time.Time) {
	k.time.skew.Add(int64(t.Sub(k.now())))
	k.pass(2 * time.Second)
}

// begin starts a server at an instant, after the end of the one before.
func (k *kit) begin(t time.Time) {
	if k.time.stop != nil {
		k.time.stop()
	}
	k.time.skew.Add(int64(t.Sub(k.now())))
	k.s, k.time.stop = k.time.start(k.time.now)
	synctest.Wait()
}
