package job

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func parseEnvelope(raw []byte) (Envelope, error) {
	c, err := ParseEnvelope(raw)
	return c.e, err
}

// appendPush takes envelopes that Check would not, but for what it makes of Extra.
func appendPush(e Envelope) []byte {
	_ = e.checkExtra()
	c := Checked{e: e}
	return c.AppendPush(nil)
}

// TestZeroCheckedIsNoEnvelope: what nobody has checked becomes no job, whatever
// id it is given, and an envelope takes no id that [ValidID] does not.
func TestZeroCheckedIsNoEnvelope(t *testing.T) {
	t.Parallel()
	const id = ID("019539a4-b68c-7def-8000-1a2b3c4d5e6f")
	var zero Checked
	if err := zero.SetID(id); KindOf(err) != Invalid || zero.ID() != "" {
		t.Errorf("SetID: got %q, %v", zero.ID(), err)
	}
	zero.e.ID = id
	for name, push := range map[string]func() (*Job, error){
		"Push":       func() (*Job, error) { return zero.Push(time.UnixMilli(1)) },
		"PushBehind": func() (*Job, error) { return zero.PushBehind(id, time.UnixMilli(1)) },
	} {
		if j, err := push(); KindOf(err) != Invalid {
			t.Errorf("%s: got %+v, %v", name, j, err)
		}
	}
	c, err := Envelope{Type: "a", Args: json.RawMessage(`[]`)}.Check()
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []ID{"", "x", "019539A4-b68c-7def-8000-1a2b3c4d5e6f", id + "0"} {
		if err := c.SetID(bad); KindOf(err) != Invalid || c.ID() != "" {
			t.Errorf("SetID(%q): got %q, %v", bad, c.ID(), err)
		}
	}
	if err := c.SetID(id); err != nil || c.ID() != id {
		t.Errorf("got %q, %v", c.ID(), err)
	}
}

// What a body says is valid a second time, and stays as it is.
func TestCheckLeavesWhatIsValid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := body().Draw(t, "body")
		e, err := parseEnvelope([]byte(raw))
		if err != nil {
			t.Skip("no valid body") // this draw, not the test
		}
		c, err := e.Check()
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if !reflect.DeepEqual(c.e, e) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", raw, c.e, e)
		}
	})
}

// What was valid once is held to every rule again when it has been changed.
func TestCheckReadsAll(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*Envelope)
		kind   Kind
		field  string
	}{
		"args that are no JSON":  {func(e *Envelope) { e.Args = json.RawMessage(`[1`) }, Invalid, "args"},
		"args of another shape":  {func(e *Envelope) { e.Args = json.RawMessage(`{}`) }, Invalid, "args"},
		"no args":                {func(e *Envelope) { e.Args = nil }, Invalid, "args"},
		"meta that is no JSON":   {func(e *Envelope) { e.Meta = json.RawMessage(`{"a":}`) }, Invalid, "meta"},
		"meta that is too large": {func(e *Envelope) { e.Meta = json.RawMessage(`{"a":"` + strings.Repeat("x", MaxMetaBytes) + `"}`) }, TooLarge, "meta"},
		"a system member":        {func(e *Envelope) { e.Extra = json.RawMessage(`{"state":"active"}`) }, Invalid, "extra"},
		"a type":                 {func(e *Envelope) { e.Type = "No" }, Invalid, "type"},
		"a retry policy":         {func(e *Envelope) { e.Retry = json.RawMessage(`{"max_attempts":-1}`) }, BadRetry, "retry.max_attempts"},
	} {
		e, err := parseEnvelope([]byte(`{"type":"a.b","args":[1]}`))
		if err != nil {
			t.Fatal(err)
		}
		tt.change(&e)
		var got *Error
		if _, err := e.Check(); !errors.As(err, &got) || got.Kind != tt.kind || !strings.Contains(got.Message, tt.field) {
			t.Errorf("%s: got %v, %+v", name, err, got)
		}
	}
}

func TestCheckFillsWhatWasTakenAway(t *testing.T) {
	t.Parallel()
	e, err := parseEnvelope([]byte(`{"type":"a.b","args":[1],"queue":"mail","retry":{"max_attempts":7}}`))
	if err != nil {
		t.Fatal(err)
	}
	e.Queue, e.Retry = "", json.RawMessage(`{"max_attempts":2}`)
	if c, err := e.Check(); err != nil || c.e.Queue != DefaultQueue || c.e.MaxAttempts != 2 {
		t.Errorf("got queue %q, %d attempts, %v", c.e.Queue, c.e.MaxAttempts, err)
	}
}

// An answer must not show the client's spelling of a time that is no longer its.
func TestCheckDropsTheSpellingOfAnotherTime(t *testing.T) {
	t.Parallel()
	const raw = `{"type":"a.b","args":[],"x":1,"scheduled_at":"2026-03-15t09:30:00+01:00","expires_at":"2027-03-15T09:30:00.123456Z"}`
	const both = `{"x":1,"scheduled_at":"2026-03-15t09:30:00+01:00","expires_at":"2027-03-15T09:30:00.123456Z"}`
	for name, tt := range map[string]struct {
		change func(*Envelope)
		want   string
	}{
		"nothing":       {func(*Envelope) {}, both},
		"another zone":  {func(e *Envelope) { e.ScheduledAt = e.ScheduledAt.In(time.FixedZone("", 3600)) }, both},
		"another start": {func(e *Envelope) { e.ScheduledAt = e.ScheduledAt.Add(time.Hour) }, `{"x":1,"expires_at":"2027-03-15T09:30:00.123456Z"}`},
		"a delay":       {func(e *Envelope) { e.Delay = time.Hour }, `{"x":1,"expires_at":"2027-03-15T09:30:00.123456Z"}`},
		"no end":        {func(e *Envelope) { e.ExpiresAt = time.Time{} }, `{"x":1,"scheduled_at":"2026-03-15t09:30:00+01:00"}`},
		"a life":        {func(e *Envelope) { e.TTL = time.Hour }, `{"x":1,"scheduled_at":"2026-03-15t09:30:00+01:00"}`},
	} {
		e, err := parseEnvelope([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		tt.change(&e)
		if c, err := e.Check(); err != nil || string(c.e.Extra) != tt.want {
			t.Errorf("%s: got %s, %v, want %s", name, c.e.Extra, err, tt.want)
		}
	}
}
