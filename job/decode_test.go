package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// jsonValue draws JSON as clients write it: with space, odd numbers and escapes.
func jsonValue(depth int) *rapid.Generator[string] {
	leaf := rapid.OneOf(
		rapid.SampledFrom([]string{"null", "true", "false", "0", "-0.0", "1e2", "1.0", "9007199254740993", `"a\u0041\n"`, `"<é>"`, `""`}),
		rapid.Custom(func(t *rapid.T) string { return quote(rapid.String().Draw(t, "text")) }),
	)
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(leaf, jsonArray(depth), jsonObject(depth))
}

func jsonArray(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		vs := rapid.SliceOfN(jsonValue(depth-1), 0, 3).Draw(t, "elements")
		return "[" + strings.Join(vs, rapid.SampledFrom([]string{",", " , ", ",\n"}).Draw(t, "space")) + "]"
	})
}

func jsonObject(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`x_[a-z"\\é\n]{0,6}`), 0, 3, rapid.ID[string]).Draw(t, "names")
		var ms []string
		for _, n := range names {
			ms = append(ms, quote(n)+" :"+jsonValue(depth-1).Draw(t, "value"))
		}
		return "{" + strings.Join(ms, ", ") + "}"
	})
}

func quote(s string) string { return string(rawjson.AppendString(nil, s)) }

// contradicts is which members say what another does, so that the two are refused together.
var contradicts = map[string]string{"delay_ms": "scheduled_at", "ttl_ms": "expires_at", "max_attempts": "retry"}

// body draws an enqueue body of any shape that ParseEnvelope takes.
func body() *rapid.Generator[string] {
	id := `"019539a4-b68c-7def-8000-1a2b3c4d5e6f"`
	choices := map[string]*rapid.Generator[string]{
		"id":                    rapid.SampledFrom([]string{id, "null"}),
		"queue":                 rapid.SampledFrom([]string{`"mail"`, `"a.b-c"`}),
		"meta":                  jsonObject(3),
		"metadata":              jsonObject(1),
		"priority":              rapid.SampledFrom([]string{"0", "-100", "7", `"HIGH"`, "1e1"}),
		"timeout":               rapid.SampledFrom([]string{"0", "5", "null"}),
		"timeout_ms":            rapid.SampledFrom([]string{"0", "1500", "null"}),
		"visibility_timeout":    rapid.SampledFrom([]string{"30", `"PT1M"`}),
		"visibility_timeout_ms": rapid.SampledFrom([]string{"30000"}),
		"scheduled_at":          rapid.SampledFrom([]string{`"2026-03-15T09:30:00.000Z"`, `"2026-03-15t09:30:00+01:00"`, `"+PT5S"`, `"2026-03-15T09:30:00.123456Z"`, "null"}),
		"delay_ms":              rapid.SampledFrom([]string{"0", "250"}),
		"expires_at":            rapid.SampledFrom([]string{`"2028-01-01T00:00:00Z"`, `"+PT1H"`}),
		"ttl_ms":                rapid.SampledFrom([]string{"60000"}),
		"pending":               rapid.SampledFrom([]string{"true", "false", "null"}),
		"retry":                 rapid.SampledFrom([]string{`{"max_attempts" : 5}`, `{"initial_interval":"PT1S","jitter":false}`, "{}"}),
		"max_attempts":          rapid.SampledFrom([]string{"4"}),
		"unique":                rapid.SampledFrom([]string{`{"keys":["type","args"]}`, "null"}),
		"tags":                  rapid.SampledFrom([]string{`["x", "y"]`, "null"}),
		"state":                 rapid.SampledFrom([]string{`"completed"`}),
		"x_unknown":             jsonValue(3),
		"x \"odd\" \u00e9":      jsonValue(1),
	}
	names := make([]string, 0, len(choices))
	for n := range choices {
		names = append(names, n)
	}
	slices.Sort(names)
	members := func(t *rapid.T, label string) []string {
		var ms []string
		drawn := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 8, rapid.ID[string]).Draw(t, label)
		for _, n := range drawn {
			if other := contradicts[n]; other == "" || !slices.Contains(drawn, other) {
				ms = append(ms, quote(n)+": "+choices[n].Draw(t, n))
			}
		}
		return ms
	}
	return rapid.Custom(func(t *rapid.T) string {
		ms := append(members(t, "top"), `"type":"email.send"`, `"args": `+jsonArray(3).Draw(t, "args"))
		if rapid.Bool().Draw(t, "flat") {
			ms = append(ms, `"specversion":"1.0"`)
		}
		if rapid.Bool().Draw(t, "nested") {
			ms = append(ms, `"options":{`+strings.Join(members(t, "options"), ",")+"}")
		}
		return "{" + strings.Join(rapid.Permutation(ms).Draw(t, "order"), ", ") + "}"
	})
}

// envelope draws a valid envelope.
func envelope() *rapid.Generator[Envelope] {
	return rapid.Custom(func(t *rapid.T) Envelope {
		raw := body().Draw(t, "body")
		e, err := parseEnvelope([]byte(raw))
		if err != nil {
			t.Fatalf("parseEnvelope(%s): %v", raw, err)
		}
		return e
	})
}

func instant() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "zero") {
			return time.Time{}
		}
		return time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "ms")).UTC()
	})
}

func maybe(t *rapid.T, g *rapid.Generator[string]) json.RawMessage {
	if rapid.Bool().Draw(t, "absent") {
		return nil
	}
	return json.RawMessage(g.Draw(t, "raw"))
}

// anyJob draws jobs that no verb would make, too: the encoding must not care.
func anyJob() *rapid.Generator[*Job] {
	return rapid.Custom(func(t *rapid.T) *Job {
		j := &Job{Envelope: envelope().Draw(t, "envelope")}
		j.State = rapid.SampledFrom(States).Draw(t, "state")
		j.Attempt = rapid.IntRange(0, 50).Draw(t, "attempt")
		for _, at := range []*time.Time{&j.CreatedAt, &j.EnqueuedAt, &j.StartedAt, &j.ActivatedAt, &j.FinishedAt, &j.NextRetryAt} {
			*at = instant().Draw(t, "at")
		}
		j.RetryDelay = time.Duration(rapid.IntRange(0, 5000).Draw(t, "delay")) * time.Millisecond
		j.Lease = Lease{Token: rapid.String().Draw(t, "token"), Worker: rapid.String().Draw(t, "worker"), Until: instant().Draw(t, "until")}
		j.Result, j.Error, j.Errors = maybe(t, jsonValue(3)), maybe(t, jsonObject(3)), maybe(t, jsonArray(3))
		return j
	})
}

func TestParseJobIsTheInverseOfAppendJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		j := anyJob().Draw(t, "job")
		view := View{ToHolder: rapid.Bool().Draw(t, "holder"), HideTimeout: rapid.Bool().Draw(t, "hide")}
		want := string(j.AppendJSON(nil, view))
		p, err := ParseJob([]byte(want))
		if err != nil {
			t.Fatalf("ParseJob(%s): %v", want, err)
		}
		// An empty token is still written, so the holder's view needs its token.
		if got := string(p.AppendJSON(nil, View{ToHolder: view.ToHolder})); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
		// The values come back, too, save for those that are never sent.
		for _, got := range []struct{ got, want any }{
			{p.ID, j.ID}, {p.Type, j.Type}, {p.Queue, j.Queue}, {p.Priority, j.Priority}, {p.Timeout, j.Timeout},
			{p.MaxAttempts, j.MaxAttempts}, {p.State, j.State}, {p.Attempt, j.Attempt}, {p.CreatedAt, j.CreatedAt},
			{string(p.Args), string(j.Args)}, {string(p.Result), string(j.Result)}, {p.RetryDelay, j.RetryDelay},
			{p.NextRetryAt, j.NextRetryAt}, {p.StartedAt, j.StartedAt},
		} {
			if !reflect.DeepEqual(got.got, got.want) {
				t.Fatalf("got %v, want %v in %s", got.got, got.want, want)
			}
		}
	})
}

func TestAppendPushIsReadBackAsTheSameEnvelope(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := envelope().Draw(t, "envelope")
		raw := appendPush(e)
		got, err := parseEnvelope(raw)
		if err != nil {
			t.Fatalf("parseEnvelope(%s): %v", raw, err)
		}
		if got, want := shape(got), shape(e); got != want {
			t.Fatalf("got  %s\nwant %s\nbody %s", got, want, raw)
		}
	})
}

// shape prints all of an envelope but the zone and the part below a millisecond of its times.
func shape(e Envelope) string {
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return FormatTime(t)
	}
	return fmt.Sprintf("%q %q %q %s %s %d %s %s %s %s %t %s %s %s %d %s %s", e.ID, e.Type, e.Queue, e.Args, e.Meta, e.Priority,
		at(e.ScheduledAt), at(e.ExpiresAt), e.Delay, e.TTL, e.Hold, e.Timeout, e.Visibility, e.Retry, e.MaxAttempts, e.Unique, e.Extra)
}

func TestAppendPushOfAnEnvelopeMadeByHand(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 15, 9, 30, 0, 0, time.UTC)
	for _, tt := range []struct {
		name string
		e    Envelope
		want string
	}{
		{"the least", Envelope{Type: "a.b", Args: []byte("[]")}, `{"specversion":"1.0.0-rc.1","type":"a.b","args":[]}`},
		{"times", Envelope{Type: "a.b", Args: []byte("[]"), ScheduledAt: at, ExpiresAt: at.Add(time.Hour)},
			`{"specversion":"1.0.0-rc.1","type":"a.b","args":[],"scheduled_at":"2026-03-15T09:30:00.000Z","expires_at":"2026-03-15T10:30:00.000Z"}`},
		{"a delay beats a schedule", Envelope{Type: "a.b", Args: []byte("[]"), ScheduledAt: at, Delay: time.Second, TTL: time.Minute,
			Extra: []byte(`{"scheduled_at":"2026-03-15T10:30:00+01:00"}`)},
			`{"specversion":"1.0.0-rc.1","type":"a.b","args":[],"delay_ms":1000,"ttl_ms":60000}`},
		{"everything else", Envelope{ID: "i", Type: "a.b", Queue: "q", Args: []byte("[1]"), Meta: []byte(`{"k":1}`), Priority: -1,
			Timeout: time.Second, Visibility: 2 * time.Second, Hold: true, Retry: []byte(`{}`), Unique: []byte(`{"keys":[]}`), Extra: []byte(`{"x":1}`)},
			`{"specversion":"1.0.0-rc.1","id":"i","type":"a.b","queue":"q","args":[1],"meta":{"k":1},"priority":-1,"timeout_ms":1000,` +
				`"visibility_timeout_ms":2000,"pending":true,"retry":{},"unique":{"keys":[]},"x":1}`},
	} {
		if got := string(appendPush(tt.e)); got != tt.want {
			t.Errorf("%s: got  %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

func TestParseJobOfOtherServers(t *testing.T) {
	t.Parallel()
	j, err := ParseJob([]byte(` {"id":"i","type":"a.b","state":"active","error":null,"result":null,"meta":null,"worker_id":"w",` +
		`"visible_until":"2026-03-15T10:30:00+01:00","lease_token":"t","visibility_timeout":"PT1M","parent_results":[1],"started_at":null}`))
	if err != nil {
		t.Fatal(err)
	}
	if j.Error != nil || j.Meta != nil || string(j.Result) != "null" || !j.StartedAt.IsZero() {
		t.Errorf("nulls: error %s, meta %s, result %s, started_at %v", j.Error, j.Meta, j.Result, j.StartedAt)
	}
	if want := (Lease{Token: "t", Worker: "w", Until: time.Date(2026, 3, 15, 9, 30, 0, 0, time.UTC)}); j.Lease != want {
		t.Errorf("got lease %+v, want %+v", j.Lease, want)
	}
	if j.Visibility != time.Minute {
		t.Errorf("got visibility %v, want 1m", j.Visibility)
	}
	if string(j.ParentResults) != "[1]" {
		t.Errorf("got parent results %s", j.ParentResults)
	}
	if got, want := string(j.Extra), `{"visibility_timeout":"PT1M"}`; got != want {
		t.Errorf("got extra %s, want %s", got, want)
	}
}

func TestParseJobRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		raw  string
		kind Kind
	}{
		{``, Malformed},
		{`{"id":"i"`, Malformed},
		{`[]`, Malformed},
		{`null`, Malformed},
		{`{"id":1}`, Invalid},
		{`{"attempt":"one"}`, Invalid},
		{`{"attempt":1.5}`, Invalid},
		{`{"timeout_ms":-1}`, Invalid},
		{`{"created_at":"yesterday"}`, Invalid},
		{`{"created_at":"+PT5S"}`, Invalid},
		{`{"id":"i","id":"k"}`, Invalid},
	} {
		if _, err := ParseJob([]byte(tt.raw)); err == nil || KindOf(err) != tt.kind {
			t.Errorf("ParseJob(%s): got %v, want kind %d", tt.raw, err, tt.kind)
		}
	}
}

func TestParseJobTakesWhatIsNestedDeeperThanARequest(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)
	if _, err := ParseJob([]byte(`{"args":` + deep + `}`)); err != nil {
		t.Error(err)
	}
}

func FuzzParseJob(f *testing.F) {
	f.Add([]byte(`{"id":"i","type":"a.b","args":[],"state":"active","attempt":1,"x":{"y":null}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		j, err := ParseJob(raw)
		if err != nil {
			return
		}
		once := j.AppendJSON(nil, View{ToHolder: true})
		again, err := ParseJob(once)
		if err != nil {
			t.Fatalf("ParseJob(%s) of its own output: %v", once, err)
		}
		if twice := again.AppendJSON(nil, View{ToHolder: true}); string(twice) != string(once) {
			t.Fatalf("got  %s\nwant %s", twice, once)
		}
	})
}

// TestFirstFaultIsTold: of several broken rules the first is told, in the order of
// the table, and the version before all others.
func TestFirstFaultIsTold(t *testing.T) {
	t.Parallel()
	for raw, field := range map[string]string{
		`{"specversion":"2.0"}`:                             "specversion",
		`{"specversion":"2.0","type":"No","args":{}}`:       "specversion",
		`{"id":"x","queue":"?","type":"No","args":{}}`:      "type",
		`{"id":"x","queue":"?","type":"a","args":{}}`:       "args",
		`{"id":"x","queue":"?","type":"a","args":[]}`:       "id",
		`{"priority":101,"queue":"?","type":"a","args":[]}`: "queue",
	} {
		_, err := ParseEnvelope([]byte(raw))
		var e *Error
		if !errors.As(err, &e) || e.Details["field"] != field {
			t.Errorf("%s: got %v, %+v; want the field %s", raw, err, e, field)
		}
	}
}

// TestTableHasABitForEachRow: a row beyond the bits would never be read.
func TestTableHasABitForEachRow(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a row without a bit is taken")
		}
	}()
	var beyond member
	beyond.indexNames(0)
}
