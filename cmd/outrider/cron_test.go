package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestCronPreview holds what the preview prints, word for word.
func TestCronPreview(t *testing.T) {
	const from = "2026-03-28T00:00:00Z"
	var b strings.Builder
	for _, args := range [][]string{
		{"30 2 * * *", "--tz", "Europe/Berlin", "-n", "4", "--from", from},
		{"30 2 * * *", "--tz", "Europe/Berlin", "-n", "4", "--from", from, "-o", "json"},
		{"30 2 * * *", "--tz", "Europe/Berlin", "-n", "3", "--from", "2026-10-24"},
		{"*/30 * * * *", "--tz", "Europe/Berlin", "-n", "6", "--from", "2026-10-25T01:45"},
		{"*/30 * * * *", "--tz", "Europe/Berlin", "-n", "6", "--from", "2026-10-25 01:45", "-o", "json"},
		{"CRON_TZ=Australia/Lord_Howe 15 2 * * *", "-n", "2", "--from", "2026-10-02T12:00:00"},
		{"* 3 * * *", "-n", "2", "--from", from},
		{"* 3 * * *", "-n", "1", "--from", from, "-o", "json"},
		{"0 0 29 2 *", "-n", "2", "--from", from},
		{"@every 1h30m", "-n", "2", "--from", "2026-03-28T00:00:07Z", "--tz", "Asia/Kolkata"},
		{"30 2 * 3 7L", "--tz", "Europe/Berlin", "-n", "3", "--from", from},
		{"*/20 * * * * *", "-n", "4", "--from", from},
		{"0 3 32 * *", "--tz", "Europe/Paris"}, {"0 3 * *"}, {"0 0 31 2 *"}, {"@dayly"}, {"0 3 * * \x1b[31m"}, {""},
		{"0 3 * * *", "--tz", "Europe/Pariss"}, {"0 3 * * *", "--tz", "CEST"}, {"TZ=UTC 0 3 * * *", "--tz", "Europe/Paris"},
		{}, {"0", "3", "*", "*", "*"}, {"0 3 * * *", "-n", "0"}, {"0 3 * * *", "-n", "1001"}, {"0 3 * * *", "-o", "xml"}, {"0 3 * * *", "--from", "tomorrow"},
		{"0 3 * * *", "--zone", "UTC"},
	} {
		fmt.Fprintf(&b, "$ outrider cron preview %q\n", args)
		o := try(t, nil, append([]string{"cron", "preview"}, args...)...)
		fmt.Fprintf(&b, "%s%sexit %d\n\n", o.stdout, o.stderr, o.code)
	}
	o := try(t, nil, "cron", "preveiw", "0 3 * * *")
	fmt.Fprintf(&b, "$ outrider cron preveiw\n%s%sexit %d\n", o.stdout, o.stderr, o.code)
	golden(t, "testdata/cron.golden", b.String())
}

// TestCronPreviewFromNow: without --from the runs lie ahead.
func TestCronPreviewFromNow(t *testing.T) {
	before := time.Now()
	o := try(t, nil, "cron", "preview", "* * * * *", "-o", "json")
	var answer struct {
		Runs []struct{ At, Local time.Time }
	}
	if err := json.Unmarshal([]byte(o.stdout), &answer); err != nil || o.code != exitOK {
		t.Fatalf("%v: %+v", err, o)
	}
	if len(answer.Runs) != 10 {
		t.Fatalf("got %d runs", len(answer.Runs))
	}
	for i, r := range answer.Runs {
		if !r.At.After(before) || r.At.Second() != 0 || !r.At.Equal(r.Local) || i > 0 && r.At.Sub(answer.Runs[i-1].At) != time.Minute {
			t.Errorf("run %d is at %s", i, r.At)
		}
	}
}
