package cronsched

import (
	"errors"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// FuzzParse: whatever the strings, there is no panic; an error is whole, and a
// schedule goes forward for ever, matches its own fields, and reads itself again.
func FuzzParse(f *testing.F) {
	for i, expr := range append(append([]string{}, bad...), oracleExpressions...) {
		f.Add(expr, badZones[i%len(badZones)], int64(i)*1e8)
		f.Add(expr, "Australia/Lord_Howe", int64(i)*1e7)
		f.Add(expr, "", int64(-i)*1e9)
	}
	f.Add("CRON_TZ=Pacific/Apia */7 1,2-4/2 ? JAN-dec 5L,1#2", "Pacific/Apia", int64(1325200000))
	f.Add("* * 0-22 LW,15W * SUN", "Pacific/Kwajalein", int64(-7900000))
	f.Fuzz(func(t *testing.T, expr, zone string, from int64) {
		s, err := Parse(expr, zone)
		if err != nil {
			var e *job.Error
			var fault *Fault
			if !errors.As(err, &e) || !errors.As(err, &fault) || s != (Spec{}) {
				t.Fatalf("%q in %q: %v, %v", expr, zone, s, err)
			}
			checkFault(t, fault, e, expr, zone)
			return
		}
		advances(t, s, time.Unix(from%end, 0))
		s.Warnings(time.Unix(from%end, 0))
		again, err := Parse(s.String(), s.Zone())
		if err != nil {
			t.Fatalf("%q in %q cannot be read again: %v", expr, zone, err)
		}
		if again.loc, s.loc = nil, nil; again != s {
			t.Errorf("%q in %q: got %+v, then %+v", expr, zone, s, again)
		}
	})
}

// advances takes 200 steps. Each must go forward, land on what the fields say,
// and be told in the same way by Upcoming.
func advances(t *testing.T, s Spec, from time.Time) {
	t.Helper()
	began := time.Now()
	for range 200 {
		o, ok := s.Next(from)
		if !ok {
			break
		}
		if !o.At.After(from) {
			t.Fatalf("%q in %s: after %s comes %s", s, s.Zone(), from, o.At)
		}
		if wall, ok := s.match(o.wall); s.every == 0 && (!ok || wall != o.wall) {
			t.Fatalf("%q in %s: %s does not match", s, s.Zone(), o.Local())
		}
		if shown := o.At.Format("2006-01-02T15:04:05"); shown != o.Wall().Format("2006-01-02T15:04:05") {
			t.Fatalf("%q in %s: the clock shows %s at %s", s, s.Zone(), shown, o.Local())
		}
		if s.fixed && s.every == 0 && o.Repeat == 2 {
			t.Fatalf("%q in %s fires again at %s", s, s.Zone(), o.Local())
		}
		from = o.At
	}
	n := 0
	for range s.Skips(from, from.AddDate(3, 0, 0)) {
		if n++; n == 200 {
			break
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("%q in %s took %s", s, s.Zone(), took)
	}
}
