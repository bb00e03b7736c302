package outbox

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/job"
)

// TestARowReadsBackAsItsEnvelope is the property that Add stands on: what the
// relay reads is what was added.
func TestARowReadsBackAsItsEnvelope(t *testing.T) {
	raw := func(values ...string) *rapid.Generator[json.RawMessage] {
		return rapid.Map(rapid.SampledFrom(values), func(s string) json.RawMessage {
			if s == "" {
				return nil
			}
			return json.RawMessage(s)
		})
	}
	whole := func(t *rapid.T, name string) time.Duration {
		return time.Duration(rapid.SampledFrom([]int64{0, 0, 1, 1500, 86_400_000}).Draw(t, name)) * time.Millisecond
	}
	rapid.Check(t, func(t *rapid.T) {
		e := job.Envelope{
			Type:     rapid.SampledFrom([]string{"a", "email.send", "a.b.c-d"}).Draw(t, "type"),
			Queue:    rapid.SampledFrom([]string{"", "default", "mail", "a-b.c"}).Draw(t, "queue"),
			Args:     raw(`[]`, `[1,"ü\u0000",{"a":[null]}]`, `[ 1 ]`).Draw(t, "args"),
			Meta:     raw("", `{}`, `{"trace":"x","n":1e400}`).Draw(t, "meta"),
			Priority: rapid.IntRange(-100, 100).Draw(t, "priority"),
			Hold:     rapid.Bool().Draw(t, "hold"),
			Timeout:  whole(t, "timeout"),
			Retry:    raw("", `{"max_attempts":7}`, `{"initial_interval":"1s","x_mine":true}`).Draw(t, "retry"),
			Unique:   raw("", `{"keys":["args"]}`).Draw(t, "unique"),
			Extra:    raw("", `{"tags":["a"],"mine":{"b":[]}}`, `{"options":{"x_mine":"x"}}`, `{"timeout":7}`).Draw(t, "extra"),
		}
		if rapid.Bool().Draw(t, "relative") {
			e.Delay, e.TTL = whole(t, "delay"), whole(t, "ttl")
		} else if rapid.Bool().Draw(t, "timed") {
			e.ScheduledAt = time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "scheduled")).UTC()
			e.ExpiresAt = time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "expires")).UTC()
		}
		if string(e.Extra) == `{"timeout":7}` && e.Timeout == 0 {
			e.Timeout = 7 * time.Second // as the parser would have read it
		}
		want, err := e.Check()
		if err != nil {
			t.Fatalf("%+v: %v", e, err)
		}
		r, err := newRow(want)
		if err != nil {
			t.Fatalf("%+v: %v", e, err)
		}
		got, err := r.envelope("")
		if err != nil {
			t.Fatalf("%s: %v", r.options, err)
		}
		if err := want.SetID(job.ID(r.jobID)); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("row %s\n got %+v\nwant %+v", r.options, got, want)
		}
	})
}

// TestWhatCameInGoesOut: an envelope that was parsed of a client's body comes
// out of the outbox with the client's own spelling.
func TestWhatCameInGoesOut(t *testing.T) {
	for _, body := range []string{
		`{"type":"a","args":[],"options":{"queue":"mail","visibility_timeout":30,"tags":["x"],"job_id":"7"}}`,
		`{"type":"a","args":[],"options":{"visibility_timeout_ms":100,"scheduled_at":"2030-01-01T00:00:00+02:00"},"more":1}`,
		`{"type":"a","args":[],"expires_at":"2030-01-01T00:00:00.123456Z","priority":"HIGH"}`,
		`{"specversion":"1.0","type":"a","args":[],"retry":{"initial_interval":"1s"},"timeout":5}`,
		`{"type":"a","args":[],"options":{"max_attempts":9,"delay":2.5,"ttl_ms":7000}}`,
	} {
		c, err := job.ParseEnvelope([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		r, err := newRow(c)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		back, err := r.envelope("")
		if err != nil {
			t.Fatalf("%s: %v", r.options, err)
		}
		e, got := c.Envelope(), back.Envelope()
		e.ID, got.Extra, e.Extra = got.ID, sorted(t, got.Extra), sorted(t, e.Extra)
		if !reflect.DeepEqual(e, got) {
			t.Errorf("%s as %s\n got %+v\nwant %+v", body, r.options, got, e)
		}
	}
}

func sorted(t *testing.T, obj []byte) []byte {
	if obj == nil {
		return nil
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(obj, &m); err != nil {
		t.Fatal(err)
	}
	b, _ := json.Marshal(m) // it was JSON
	return b
}

func TestAnEnvelopeWithoutOptionsHasNone(t *testing.T) {
	e := job.Envelope{Type: "a", Args: json.RawMessage(`[]`), Queue: "default"}
	c, err := e.Check()
	if err != nil {
		t.Fatal(err)
	}
	if got := string(c.AppendOptions(nil)); got != `{}` {
		t.Errorf("got %s, want {}", got)
	}
}

func TestDerivedIDs(t *testing.T) {
	seen := map[job.ID]bool{}
	for _, of := range []string{"a", "b"} {
		for row := range int64(100) {
			for _, created := range []int64{-1, 0, 1_700_000_000_000, 1 << 60} {
				id := deriveID(of, row, created)
				if !job.ValidID(string(id)) || id != deriveID(of, row, created) {
					t.Fatalf("got %s", id)
				}
				seen[id] = true
			}
		}
	}
	if len(seen) != 2*100*2 { // three of the four times count as none
		t.Errorf("got %d ids, want 400", len(seen))
	}
	// This id is on disks: it must never change.
	if got := deriveID("5f0c1a", 42, 1_700_000_000_000); got != golden {
		t.Errorf("got %s, want %s", got, golden)
	}
}

const golden = "018bcfe5-6800-7afe-8b3e-f2622cbdda8d"

func TestRuns(t *testing.T) {
	for _, c := range []struct {
		ids  []int64
		want [][2]int64
	}{
		{nil, nil},
		{[]int64{5}, [][2]int64{{5, 5}}},
		{[]int64{3, 1, 2, 7, 9, 8, 8}, [][2]int64{{1, 3}, {7, 9}}},
		{[]int64{-2, 0}, [][2]int64{{-2, -2}, {0, 0}}},
	} {
		outcomes := make([]outcome, len(c.ids))
		for i, id := range c.ids {
			outcomes[i].row = id
		}
		if got := runsOf(outcomes); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v: got %v, want %v", c.ids, got, c.want)
		}
	}
}
