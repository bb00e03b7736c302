package memory

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestSizes(t *testing.T) {
	for v, want := range map[string]int64{"0": 0, "1": 1, "17B": 17, "64KB": 64 << 10, "64KiB": 64 << 10, "256MB": 256 << 20, "256MiB": 256 << 20,
		"268435456": 256 << 20, "2GB": 2 << 30, "1TiB": 1 << 40, "9223372036854775807": math.MaxInt64} {
		if got, err := ParseSize(v); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", v, got, err, want)
		}
	}
	for _, v := range []string{"", "MB", "-1", "-1MB", "1.5GB", "256 MB", "256mb", "1KBMB", "1e9", "9223372036854775808", "9007199254740993GB", "NaN", "256M"} {
		if got, err := ParseSize(v); err == nil {
			t.Errorf("%q is %d", v, got)
		}
	}
}

// The smallest of what is allowed holds, SQLite has its part of it, and the
// operator's GOMEMLIMIT is never made larger.
func TestWhatTheMemoryLimitComesTo(t *testing.T) {
	for _, tt := range []struct{ setting, group, own, all, heap, bodies int64 }{
		{256, 0, 0, 256, 192, 144},
		{256, 512, 0, 256, 192, 144},
		{256, 100, 0, 90, 45, 22},
		{64, 0, 0, 64, 32, 16},
		{1024, 512, 0, 459, 395, 347}, // nine tenths of 512, in whole tenths
		{256, 0, 100, 256, 100, 52},
		{256, 0, 4096, 256, 192, 144},
		{256, 0, math.MaxInt64 >> 20, 256, 192, 144},
	} {
		m := bounded(tt.setting<<20, tt.group<<20, tt.own<<20)
		near := func(got, want int64) bool { return got>>20 == want || got>>20 == want+1 }
		if !near(m.All, tt.all) || !near(m.Heap, tt.heap) || !near(m.Bodies, tt.bodies) {
			t.Errorf("%+v: %+v", tt, m)
		}
		if m.Bodies >= m.Heap || m.Heap >= m.All {
			t.Errorf("%+v: the parts are larger than the whole: %+v", tt, m)
		}
	}
}

// The runtime keeps to the lesser of the two, whichever was set: a GOMEMLIMIT as
// large as the container would have it wait until there is nothing left. While little
// is in use it has to do with less.
func TestTheRuntimeKeepsToTheLesserLimit(t *testing.T) {
	for own, want := range map[string]int64{"": 192 << 20, "off": 192 << 20, "512MiB": 192 << 20, "100MiB": 100 << 20} {
		before := debug.SetMemoryLimit(math.MaxInt64)
		t.Cleanup(func() { debug.SetMemoryLimit(before) })
		if n, _ := ParseSize(own); n > 0 {
			debug.SetMemoryLimit(n) // as the runtime does by itself
		}
		m, _, stop := Limit(256<<20, own)
		heap := m.Heap
		if got := debug.SetMemoryLimit(-1); got != calm(heap) || got > 64<<20 {
			t.Errorf("GOMEMLIMIT=%s: the runtime keeps to %d bytes at first, want %d", own, got, calm(heap))
		}
		stop()
		if got := debug.SetMemoryLimit(-1); got != heap || groupLimit() == 0 && got != want {
			t.Errorf("GOMEMLIMIT=%s: the runtime keeps to %d bytes, want %d", own, got, want)
		}
	}
}

// A heap with little in use may grow as GOGC says, up to a bound; one with more in use
// may be half as large again, and never larger than all that is allowed.
func TestHowMuchTheRuntimeMayTake(t *testing.T) {
	for _, tt := range []struct{ most, live, want int64 }{
		{192, 0, 64}, {192, 8, 64}, {192, 32, 64}, {192, 40, 76}, {192, 80, 136}, {192, 120, 192}, {192, 300, 192},
		{32, 0, 32}, {32, 30, 32}, // --memory-limit 64MB
		{960, 0, 320}, {960, 300, 466}, // 1GB
	} {
		p := pace{calm: calm(tt.most << 20), most: tt.most << 20}
		if got := p.limit(tt.live<<20) >> 20; got != tt.want {
			t.Errorf("%d MB in use of %d: %d, want %d", tt.live, tt.most, got, tt.want)
		}
	}
}

// The limit follows what is in use, up and down, by nothing but collections.
func TestTheLimitFollowsWhatIsInUse(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	const most = 192 << 20
	stop := keep(most)
	until := func(what string, right func(limit int64) bool) {
		t.Helper()
		for over := time.Now().Add(10 * time.Second); !right(debug.SetMemoryLimit(-1)); time.Sleep(time.Millisecond) {
			if time.Now().After(over) {
				t.Fatalf("%s the limit is %d MB", what, debug.SetMemoryLimit(-1)>>20)
			}
			runtime.GC()
		}
	}
	for range 3 {
		until("with nothing in use", func(limit int64) bool { return limit == calm(most) })
		bodies := make([]byte, 80<<20)
		until("with 80 MB in use", func(limit int64) bool { return limit>>20 >= 132 && limit < most })
		runtime.KeepAlive(bodies)
	}
	stop()
	runtime.GC()
	time.Sleep(10 * time.Millisecond)
	if got := debug.SetMemoryLimit(-1); got != most {
		t.Errorf("after the end it is %d MB", got>>20)
	}
}

// Memory is given back once after large bodies have gone, and once when a busy
// server rests; not while it works, and not again and again.
func TestWhenMemoryIsGivenBack(t *testing.T) {
	const mb = 1 << 20
	peak := time.Unix(100, 0)
	r := rest{least: 20 * mb}
	for i, step := range []struct {
		footprint, allocated uint64
		large                time.Time
		want                 bool
	}{
		{20 * mb, 10 * mb, time.Time{}, false},  // nothing happens
		{90 * mb, 300 * mb, time.Time{}, false}, // it works
		{90 * mb, 301 * mb, time.Time{}, true},  // it rests
		{20 * mb, 302 * mb, time.Time{}, false}, // and goes on resting
		{90 * mb, 900 * mb, peak, true},         // large bodies have gone, and small ones come
		{90 * mb, 1500 * mb, peak, false},       // that was once
		{90 * mb, 2500 * mb, peak.Add(1), true}, // others
	} {
		if got := r.due(step.footprint, step.allocated, step.large); got != step.want {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		} else if got {
			r.given(20 * mb)
		}
	}
	if footprint() == 0 || allocated() == 0 {
		t.Error("the runtime does not say how much memory it has")
	}
}
