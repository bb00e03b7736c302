package job

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestAnOriginIsReadAsItWasSet(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_800_000_000_123).UTC()
	for name, tt := range map[string]struct {
		extra string
		set   Origin
		want  string
	}{
		"alone":              {"", Origin{"shop", 17, at}, `{"outbox":{"name":"shop","row":17,"written_at":"2027-01-15T08:00:00.123Z"}}`},
		"behind others":      {`{"tags":["a"],"v":1e2}`, Origin{"shop", 1, at}, `{"tags":["a"],"v":1e2,"outbox":{"name":"shop","row":1,"written_at":"2027-01-15T08:00:00.123Z"}}`},
		"over what was said": {`{"outbox":"mine","v":1}`, Origin{"shop", 1, at}, `{"v":1,"outbox":{"name":"shop","row":1,"written_at":"2027-01-15T08:00:00.123Z"}}`},
		"an odd name":        {"", Origin{"a\"\\\n<b>", 1 << 62, time.Time{}}, `{"outbox":{"name":"a\"\\\n\u003cb\u003e","row":4611686018427387904}}`},
		"a year too far":     {"", Origin{"shop", 1, time.Date(12_000, 1, 1, 0, 0, 0, 0, time.UTC)}, `{"outbox":{"name":"shop","row":1}}`},
	} {
		c, err := Envelope{Type: "a", Args: []byte(`[]`), Extra: []byte(tt.extra)}.Check()
		if tt.extra == "" {
			c, err = Envelope{Type: "a", Args: []byte(`[]`)}.Check()
		}
		must(t, err)
		c.SetOrigin(tt.set)
		e := c.Envelope()
		if string(e.Extra) != tt.want {
			t.Errorf("%s: got %s, want %s", name, e.Extra, tt.want)
		}
		if tt.set.Written.Year() > 9999 {
			tt.set.Written = time.Time{}
		}
		if got, ok := e.Origin(); !ok || got != tt.set {
			t.Errorf("%s: read %+v, %v, want %+v", name, got, ok, tt.set)
		}
		if again, err := ParseEnvelope(c.AppendPush(nil)); err != nil || string(again.e.Extra) != tt.want {
			t.Errorf("%s: sent on, it is %s (%v)", name, again.e.Extra, err)
		}
	}
}

// Anybody may send a member of that name, in any form: it is kept, and only the form of
// a relay is read as an origin.
func TestOnlyTheFormOfARelayIsAnOrigin(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]bool{
		`{"name":"shop","row":1,"written_at":"2027-01-15T08:00:00Z","more":[1]}`: true,
		`{"name":"shop","row":1}`:                          true,
		`{"name":"shop","row":1,"written_at":"yesterday"}`: false,
		`{"name":"shop","row":0}`:                          false,
		`{"name":"shop","row":"1"}`:                        false,
		`{"name":"shop","row":1.5}`:                        false,
		`{"name":7,"row":1}`:                               false,
		`{"row":1}`:                                        false,
		`{"name":"shop"}`:                                  false,
		`"shop"`:                                           false,
		`["shop",1]`:                                       false,
		`null`:                                             false,
		`{}`:                                               false,
	} {
		c, err := ParseEnvelope([]byte(`{"type":"a","args":[],"outbox":` + raw + `}`))
		must(t, err)
		e := c.Envelope()
		if _, ok := e.Origin(); ok != want {
			t.Errorf("%s is an origin: %v, want %v", raw, ok, want)
		}
		if want := `{"outbox":` + raw + `}`; string(e.Extra) != want {
			t.Errorf("kept as %s, want %s", e.Extra, want)
		}
	}
}

func TestARowDoesNotMakeItAnotherJob(t *testing.T) {
	t.Parallel()
	extras := []string{`{"v":1}`, `{"outbox":{"name":"a","row":1},"v":1}`, `{"v":1,"outbox":{"name":"b","row":2}}`}
	for _, x := range extras {
		for _, y := range extras {
			if !(&Envelope{Extra: []byte(x)}).Same(&Envelope{Extra: []byte(y)}) {
				t.Errorf("%s and %s ask for different jobs", x, y)
			}
		}
		if (&Envelope{Extra: []byte(x)}).Same(&Envelope{Extra: []byte(`{"v":2}`)}) {
			t.Errorf("%s is the same as with another v", x)
		}
	}
	if !(&Envelope{}).Same(&Envelope{Extra: []byte(extras[1][:len(extras[1])-len(`,"v":1}`)] + "}")}) {
		t.Error("a job with an origin alone is not the same as one without")
	}
}

// A job that may be sent without an origin may be sent with one, too.
func TestAnOriginMakesNoJobTooLarge(t *testing.T) {
	t.Parallel()
	empty, err := Envelope{Type: "a", Args: []byte(`[""]`)}.Check()
	must(t, err)
	base := len(empty.AppendPush(nil))
	for _, spare := range []int{0, 1, 90, 1000, originRoom, originRoom + 500} {
		args, err := json.Marshal([]string{strings.Repeat("x", MaxJobBytes-base-spare)})
		must(t, err)
		c, err := Envelope{Type: "a", Args: args}.Check()
		must(t, err)
		c.SetOrigin(Origin{"shop", 17, time.UnixMilli(1)})
		if _, err := ParseEnvelope(c.AppendPush(nil)); err != nil {
			t.Errorf("with %d bytes to spare: %v", spare, err)
		}
		_, ok := c.e.Origin()
		if want := spare > originRoom; ok != want {
			t.Errorf("with %d bytes to spare it has an origin: %v", spare, ok)
		}
	}
}
