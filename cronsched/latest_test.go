package cronsched

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Latest is what walking from tick to tick comes to.
func TestLatestIsTheLastOfAWalk(t *testing.T) {
	t.Parallel()
	type kind struct {
		expr, zone string
		span       time.Duration // that is walked at most
	}
	kinds := []kind{
		{"* * * * * *", "", 10 * time.Minute}, {"*/5 * * * * *", "", time.Hour}, {"* * * * *", "", 10 * time.Hour},
		{"0 * * * *", "Australia/Lord_Howe", 90 * 24 * time.Hour}, {"*/20 1-2 * * *", "Europe/Berlin", 200 * 24 * time.Hour},
		{"30 2 * * *", "America/New_York", 400 * 24 * time.Hour}, {"0 0 29 2 *", "", 30 * 366 * 24 * time.Hour},
		{"0 0 L * *", "Pacific/Apia", 4 * 366 * 24 * time.Hour}, {"@every 7s", "", time.Hour}, {"@every 36h", "Asia/Tokyo", 400 * 24 * time.Hour},
	}
	rapid.Check(t, func(r *rapid.T) {
		k := rapid.SampledFrom(kinds).Draw(r, "kind")
		s, err := Parse(k.expr, k.zone)
		if err != nil {
			r.Fatal(err)
		}
		base := time.Date(2011, 1, 1, 0, 0, 0, 0, time.UTC)
		anchor := base.Add(time.Duration(rapid.Int64Range(0, 20*365*24*3600*1000).Draw(r, "anchor ms")) * time.Millisecond)
		from := anchor.Add(time.Duration(rapid.Int64Range(0, 400*24*3600*1000).Draw(r, "after it, ms")) * time.Millisecond)
		until := from.Add(time.Duration(rapid.Int64Range(-2000, int64(k.span/time.Millisecond)).Draw(r, "until, ms")) * time.Millisecond)
		if o, ok := s.EveryNext(anchor, from); ok && rapid.Bool().Draw(r, "until a tick") && o.At.Sub(from) < k.span {
			until = o.At.Add(time.Duration(rapid.IntRange(-1, 1).Draw(r, "beside it")) * time.Millisecond)
		}
		var want Occurrence
		found := false
		for o, ok := s.EveryNext(anchor, from); ok && !o.At.After(until); o, ok = s.EveryNext(anchor, o.At) {
			want, found = o, true
		}
		got, ok := s.Latest(anchor, from, until)
		if ok != found || !got.At.Equal(want.At) || got.Repeat != want.Repeat || got.Local() != want.Local() {
			r.Fatalf("%s in %s from %s until %s, anchor %s: %v %v, want %v %v", k.expr, k.zone, from, until, anchor, got, ok, want, found)
		}
	})
}

// Two hundred years of ticks take no longer than one.
func TestLatestIsQuick(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, expr := range []string{"* * * * * *", "@every 1s", "0 0 29 2 *"} {
		s, err := Parse(expr, "")
		if err != nil {
			t.Fatal(err)
		}
		until := from.AddDate(200, 0, 0)
		began := time.Now()
		o, ok := s.Latest(from, from, until)
		if took := time.Since(began); took > time.Second {
			t.Errorf("%s: took %s", expr, took)
		}
		if next, _ := s.EveryNext(from, o.At); !ok || o.At.After(until) || !next.At.After(until) {
			t.Errorf("%s: %s, and the next is %s", expr, o.At, next.At)
		}
	}
}
