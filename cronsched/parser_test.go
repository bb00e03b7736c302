package cronsched

import (
	"testing"
	"time"

	"github.com/robfig/cron/v3"
)

// The parser that this package will stand on has known faults. They are kept
// here, so that a version of it that mends one, or adds one, is noticed: the
// code around the parser must answer for each.
func TestFaultsOfTheParser(t *testing.T) {
	parser := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	t.Run("a time zone without an expression panics", func(t *testing.T) {
		defer func() {
			if recover() == nil {
				t.Error("it no longer panics")
			}
		}()
		_, _ = parser.Parse("TZ=UTC")
	})
	t.Run("an impossible date gives the year 1", func(t *testing.T) {
		s, err := parser.Parse("0 0 31 2 *")
		if err != nil {
			t.Fatal(err)
		}
		if next := s.Next(time.Now()); !next.IsZero() {
			t.Errorf("it now gives %s", next)
		}
	})
	t.Run("a negative interval is taken for a second", func(t *testing.T) {
		s, err := parser.Parse("@every -1h")
		if err != nil {
			t.Fatal(err)
		}
		if every, ok := s.(cron.ConstantDelaySchedule); !ok || every.Delay != time.Second {
			t.Errorf("it now gives %+v", s)
		}
	})
	t.Run("the repeated hour fires twice", func(t *testing.T) {
		zone, err := time.LoadLocation("America/New_York")
		if err != nil {
			t.Skipf("skipped: no time zone database: %v", err)
		}
		s, err := parser.Parse("30 1 * * *")
		if err != nil {
			t.Fatal(err)
		}
		first := s.Next(time.Date(2026, 11, 1, 0, 0, 0, 0, zone))
		if second := s.Next(first); second.Sub(first) != time.Hour {
			t.Errorf("after %s comes %s", first, second)
		}
	})
	t.Run("what is no list, step or number is taken for one", func(t *testing.T) {
		for _, expr := range []string{"1,,2 * * * *", ", * * * *", "*/100 * * * *", "+5 * * * *", "*-5 * * * *", "*/+5 * * * *"} {
			if _, err := parser.Parse(expr); err != nil {
				t.Errorf("it now refuses %q: %v", expr, err)
			}
		}
	})
	t.Run("there is no day 7 of the week", func(t *testing.T) {
		for _, expr := range []string{"0 0 * * 7", "0 0 * * 5-7", "0 0 * * FRI-SUN"} {
			if _, err := parser.Parse(expr); err == nil {
				t.Errorf("it now reads %q", expr)
			}
		}
	})
	t.Run("a date that is rarer than five years never comes", func(t *testing.T) {
		s, err := parser.Parse("0 0 29 2 *")
		if err != nil {
			t.Fatal(err)
		}
		if next := s.Next(time.Date(2096, 3, 1, 0, 0, 0, 0, time.UTC)); !next.IsZero() {
			t.Errorf("it now gives %s", next)
		}
	})
	t.Run("an hour that exists is missed where half an hour is set", func(t *testing.T) {
		zone, err := time.LoadLocation("Australia/Lord_Howe")
		if err != nil {
			t.Fatal(err)
		}
		s, err := parser.Parse("0 3 * * *")
		if err != nil {
			t.Fatal(err)
		}
		from := time.Date(2026, 10, 4, 0, 30, 0, 0, zone) // at 02:00 it becomes 02:30
		if next := s.Next(from); next.Day() != 5 {
			t.Errorf("it now gives %s", next)
		}
	})
	// A test that fails by never ending is left out: in Pacific/Apia, which had no
	// 30 December 2011, "0 0 1 * *" after 1 December 2011 searches for ever.
}
