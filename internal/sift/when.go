package sift

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// Direction is where a span without a sign leads.
type Direction int

// A span such as 1h is an hour ago in a filter, and in an hour for a job to be run.
const (
	Past   Direction = -1
	Future Direction = 1
)

// forms are the ways to write an instant without a zone: that of this machine holds.
var forms = []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02"}

// Time reads an instant as people write it: a span from now such as 90s, 1h, 2d 3h or PT5M,
// RFC 3339, a date with or without a time, a time of day, now, today, yesterday or tomorrow.
// A time of day is that of today, and where it is to come and has passed, of tomorrow.
func Time(text string, now time.Time, d Direction) (time.Time, error) {
	text = strings.TrimSpace(text)
	switch local := now.Local(); text {
	case "now":
		return now, nil
	case "today", "yesterday", "tomorrow":
		days := map[string]int{"yesterday": -1, "tomorrow": 1}[text]
		return time.Date(local.Year(), local.Month(), local.Day()+days, 0, 0, 0, 0, local.Location()), nil
	}
	if t, err := job.ParseTime(text); err == nil {
		return t, nil
	}
	for _, form := range forms {
		if t, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return t, nil
		}
	}
	if t, err := time.Parse("15:04", text); err == nil {
		l, day := now.Local(), 0
		if d == Future && (t.Hour() < l.Hour() || t.Hour() == l.Hour() && t.Minute() < l.Minute()) {
			day = 1 // at eight, said at noon, is tomorrow
		}
		return time.Date(l.Year(), l.Month(), l.Day()+day, t.Hour(), t.Minute(), 0, 0, l.Location()), nil
	}
	span, err := Span(strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(text, "+"), "in "), " ago"))
	if err != nil {
		return time.Time{}, fmt.Errorf("%.60q is no time: write a span such as 90s, 1h or 2d, or 2026-05-04 17:30, or RFC 3339", text)
	}
	return now.Add(time.Duration(d) * span), nil
}

// units are those of a span, as in 1w 2d 3h 4m 5s 600ms.
var units = map[string]time.Duration{"w": 7 * 24 * time.Hour, "d": 24 * time.Hour, "h": time.Hour, "m": time.Minute, "s": time.Second, "ms": time.Millisecond}

// Span reads a length of time: numbers with units behind them, or an ISO 8601 duration.
func Span(text string) (time.Duration, error) {
	if upper := strings.ToUpper(text); strings.HasPrefix(upper, "P") {
		return job.ParseDuration(upper)
	}
	wrong := fmt.Errorf("%.60q is no span: write 90s, 5m, 1h 30m or 2d, or PT5M", text)
	rest := strings.ReplaceAll(text, " ", "")
	if rest == "" {
		return 0, wrong
	}
	var sum time.Duration
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789."))
		letters := len(rest[digits:]) - len(strings.TrimLeft(rest[digits:], "abcdefghijklmnopqrstuvwxyz"))
		n, err := strconv.ParseFloat(rest[:digits], 64)
		unit, known := units[rest[digits:digits+letters]]
		if err != nil || !known || n*float64(unit) > float64(job.MaxDuration) {
			return 0, wrong
		}
		sum += time.Duration(n * float64(unit))
		rest = rest[digits+letters:]
	}
	if sum > job.MaxDuration {
		return 0, wrong
	}
	return sum, nil
}
