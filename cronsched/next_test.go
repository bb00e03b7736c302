package cronsched

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// TestAllZonesLoad: the list of names is what can be loaded, and each may be given.
func TestAllZonesLoad(t *testing.T) {
	names := strings.Fields(zoneNames)
	if len(names) < 590 {
		t.Errorf("there are %d zones", len(names))
	}
	for _, zone := range names {
		if s, err := Parse("0 3 * * *", zone); err != nil || s.Zone() != zone {
			t.Errorf("%s: %v", zone, err)
		}
	}
}

// TestZoneBoundsEndAYearEarly keeps a fault of package time: in the last day of a
// leap year, the span of a zone that changes by a rule has ended already.
func TestZoneBoundsEndAYearEarly(t *testing.T) {
	s, err := Parse("0 3 * * *", "America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2052, 12, 31, 12, 0, 0, 0, time.UTC)
	if _, last := at.In(s.Location()).ZoneBounds(); last.After(at) {
		t.Errorf("it now ends at %s", last)
	}
	seg := s.segmentAt(at.Unix())
	if want := time.Date(2053, 1, 1, 0, 0, 0, 0, time.UTC).Unix(); seg.end != want {
		t.Errorf("got the end %d, want %d", seg.end, want)
	}
	if o, ok := s.Next(at); !ok || o.Local() != "2053-01-01T03:00:00-05:00" {
		t.Errorf("got %s", o.Local())
	}
}

// TestCalendar counts 9999 years month by month, with the rule of leap years.
func TestCalendar(t *testing.T) {
	at, weekday := int64(beginning), 1 // the first day of the year 1 is a Monday
	for y := 1; y < 10_000; y++ {
		for m, n := range [...]int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31} {
			if m++; m == 2 && y%4 == 0 && (y%100 != 0 || y%400 == 0) {
				n++
			}
			if got := daysIn(y, m); got != n {
				t.Fatalf("%d-%d has %d days, got %d", y, m, n, got)
			}
			if first := midnight(y, m, 1); first.Unix() != at || int(first.Weekday()) != weekday {
				t.Fatalf("%d-%d begins at %d on weekday %d, got %s", y, m, at, weekday, first)
			}
			at, weekday = at+int64(n)*24*3600, (weekday+n)%7
		}
	}
	if at != end {
		t.Errorf("the year 10000 begins at %d, got %d", at, int64(end))
	}
}

// TestSecondsInASetClock compares schedules of every second with plain bookkeeping.
func TestSecondsInASetClock(t *testing.T) {
	s, err := Parse("* * 1-3 * * *", "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	shown, fired := map[string]bool{}, 0
	from := time.Date(2026, 10, 24, 22, 0, 0, 0, time.UTC)
	next, _ := s.Next(from)
	for at := from.Add(time.Second); at.Before(from.Add(6 * time.Hour)); at = at.Add(time.Second) {
		wall := at.In(s.Location()).Format("15:04:05")
		if wall >= "01" && wall < "04" && !shown[wall] {
			if fired++; !next.At.Equal(at) {
				t.Fatalf("at %s comes %s", at, next.Local())
			}
			next, _ = s.Next(at)
		}
		shown[wall] = true
	}
	if fired != 3*3600 {
		t.Errorf("it fired %d times", fired)
	}
	n := 0
	for range s.Skips(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)) {
		n++
	}
	if n != 3600 {
		t.Errorf("%d seconds are skipped", n)
	}
}

// TestSkipsJoin: spans that touch tell each skipped tick once.
func TestSkipsJoin(t *testing.T) {
	s, err := Parse("*/10 2 * * *", "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	jump := time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)
	count := func(from, to time.Time) (n int) {
		for range s.Skips(from, to) {
			n++
		}
		return n
	}
	if a, b := count(jump.AddDate(0, -1, 0), jump.Add(-1)), count(jump.Add(-1), jump); a != 0 || b != 6 {
		t.Errorf("up to the jump %d, at the jump %d", a, b)
	}
	if a := count(jump, jump.AddDate(0, 1, 0)); a != 0 {
		t.Errorf("after the jump %d", a)
	}
}

// TestOneSpecForMany: the race detector reads with us.
func TestOneSpecForMany(t *testing.T) {
	s, err := Parse("30 2 L * *", "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 100 {
				s.Next(time.Unix(1_800_000_000, 0))
			}
		})
	}
	wait.Wait()
}

var speeds = []struct{ name, expr, zone string }{
	{"ordinary/5min", "*/5 * * * *", "UTC"},
	{"ordinary/minute", "* * * * *", "Europe/Berlin"},
	{"ordinary/daily", "30 2 * * *", "Europe/Berlin"},
	{"ordinary/workdays", "0 9 * * 1-5", "America/New_York"},
	{"ordinary/lord_howe", "45 1 * * *", "Australia/Lord_Howe"},
	{"rare/29feb", "0 0 29 2 *", "Europe/Berlin"},
	{"rare/fifth", "0 0 * 2 0#5", "Europe/Berlin"},
	{"rare/last", "0 0 L * 5L", "Africa/Casablanca"},
	{"rare/never", "30 2 * 3 7L", "Europe/Berlin"},
	{"rare/apia", "* * 0-22 * * *", "Pacific/Apia"},
}

func BenchmarkNext(b *testing.B) {
	for _, tt := range speeds {
		s, err := Parse(tt.expr, tt.zone)
		if err != nil {
			b.Fatal(err)
		}
		for _, year := range []int{2026, 2073} { // by the table of the zone, and by its rule
			at := time.Date(year, 3, 25, 0, 0, 0, 0, time.UTC)
			b.Run(tt.name+at.Format("/2006"), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					s.Next(at)
				}
			})
		}
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("*/5 9-17 * * MON-FRI", "Europe/Berlin"); err != nil {
			b.Fatal(err)
		}
	}
}
