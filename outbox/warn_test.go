package outbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/outbox"
)

// TestUnknownOptionsOfRowsAreLogged: an option that nobody reads is told once an
// hour for each name, however many rows have it, and the row is sent.
func TestUnknownOptionsOfRowsAreLogged(t *testing.T) {
	w, log, now := newWorld(t), journal{}, time.UnixMilli(1e12)
	r := w.relay(outbox.RelayOptions{Log: log.log(), Now: func() time.Time { return now }})
	step := func(options string) {
		t.Helper()
		for range 3 {
			w.exec(`INSERT INTO ojs_outbox (job_type, job_args, job_options) VALUES ('a.b', '[]', ?)`, options)
		}
		if _, err := r.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []struct {
		options string
		after   time.Duration
		told    int
		last    string
	}{
		{`{"queue":"mail","tags":["a"]}`, 0, 0, ""},
		{`{"quue":"mail"}`, 0, 1, "did you mean queue?"},
		{`{"quue":"mail","colour":"red"}`, time.Minute, 2, "options.colour"},
		{`{"quue":"mail"}`, time.Hour, 3, "options.quue"},
	} {
		now = now.Add(s.after)
		step(s.options)
		lines := log.all()
		if len(lines) != s.told || s.told > 0 && (!strings.Contains(lines[s.told-1], s.last) || !strings.Contains(lines[s.told-1], "level=WARN")) {
			t.Errorf("%s: the log is %q", s.options, lines)
		}
	}
	if n := w.count("sent"); n != 12 {
		t.Errorf("%d rows were sent", n)
	}
}
