package job

import (
	"testing"
	"time"
)

// A row of an outbox that comes again is compared with the job that it was made
// into: what counts from the PUSH counts from that job's own.
func TestSameOptions(t *testing.T) {
	for _, tt := range []struct {
		was, is string
		same    bool
	}{
		{`"delay":30`, `"delay":30`, true},
		{`"delay":30`, `"delay_ms":30000`, true},
		{`"delay":30`, `"delay":31`, false},
		{`"delay":30`, `"delay":3600`, false},
		{`"delay":30`, `"priority":0`, false},
		{`"priority":0`, `"delay":30`, false},
		{`"pending":true`, `"pending":true,"delay":30`, false},
		{`"pending":true`, `"pending":true`, true},
		{`"pending":true`, `"priority":0`, false},
		{`"priority":0`, `"pending":true`, false},
		{`"delay":30`, `"pending":true,"delay":30`, false},
		{`"delay":30`, `"scheduled_at":"2030-01-01T00:00:00Z"`, false},
		{`"scheduled_at":"2030-01-01T00:00:00Z"`, `"delay":30`, false},
		{`"ttl_ms":5000`, `"ttl_ms":5000`, true},
		{`"ttl_ms":5000`, `"enqueue_ttl":5`, true},
		{`"ttl_ms":5000`, `"ttl_ms":7000`, false},
		{`"delay":"PT0.0123456S"`, `"delay":"PT0.0123456S"`, true},
		{`"scheduled_at":"2030-01-01T00:00:00.123456Z"`, `"scheduled_at":"2030-01-01T00:00:00.123456Z"`, true},
		{`"expires_at":"2030-01-01T00:00:00.123456Z"`, `"expires_at":"2030-01-01T00:00:00.123456Z"`, true},
		{`"timeout_ms":700,"tags":["a"]`, `"tags":["a"],"timeout_ms":700`, true},
	} {
		parse := func(options string) Envelope {
			e, err := parseEnvelope([]byte(`{"type":"a.b","args":[],"options":{` + options + `}}`))
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		now := time.Date(2026, 11, 22, 1, 2, 3, 456789, time.UTC)
		j := &Job{Envelope: parse(tt.was)}
		if err := j.push(now); err != nil {
			t.Fatal(err)
		}
		if e := parse(tt.is); e.SameOptions(j) != tt.same {
			t.Errorf("%s, then %s: not %v", tt.was, tt.is, tt.same)
		}
	}

	// A server elsewhere shows an instant as it came, and not as it is stored.
	at := time.Date(2030, 1, 1, 0, 0, 0, 123456000, time.UTC)
	if e := (&Envelope{ScheduledAt: at, ExpiresAt: at}); !e.SameOptions(&Job{Envelope: *e}) {
		t.Error("an instant with microseconds counts as another over HTTP")
	}

	// Who has activated a job has not changed the row.
	held := &Job{Envelope: Envelope{Hold: true}}
	for _, err := range []error{held.push(at), held.Activate(at.Add(time.Second))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if e := (&Envelope{Hold: true}); !e.SameOptions(held) {
		t.Error("a job that was activated counts as another")
	}

	// A server may forget the schedule of a job whose time has come.
	e := Envelope{Delay: time.Minute}
	j := &Job{Status: Status{CreatedAt: time.Unix(0, 0), EnqueuedAt: time.Unix(60, 0)}}
	if !e.SameOptions(j) {
		t.Error("a job that was promoted, without its schedule, counts as another")
	}
}
