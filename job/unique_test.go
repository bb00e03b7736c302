package job

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// badUnique breaks one rule of contract §2.5 each.
var badUnique = []string{
	`[]`, `"type"`, `null`, `1`, `true`,
	`{"keys":["argz"]}`, `{"keys":["type","Args"]}`, `{"keys":["Type"]}`, `{"keys":["TYPE"]}`, `{"keys":["Queue"]}`, `{"keys":["QUEUE"]}`, `{"keys":["ARGS"]}`, `{"keys":["Meta"],"meta_keys":["a"]}`, `{"keys":["args",""]}`, `{"keys":["args","args"]}`, `{"keys":["type","type"]}`,
	`{"keys":"type"}`, `{"keys":{}}`, `{"keys":[1]}`, `{"keys":["type",null]}`, `{"keys":[["type"]]}`, `{"keys":false}`,
	`{"keys":["meta"]}`, `{"keys":["meta"],"meta_keys":null}`, `{"keys":["meta"],"meta_keys":[]}`, `{"keys":["meta"],"args_keys":["a"]}`,
	`{"key":["type","meta"]}`,
	`{"args_keys":"user_id"}`, `{"args_keys":[1]}`, `{"args_keys":["a","a"]}`, `{"args_keys":["é","e\u0301"]}`, `{"args_keys":{"a":1}}`,
	`{"args_keys":["a"]}`, `{"keys":["type"],"args_keys":["a"]}`, `{"keys":["queue","meta"],"meta_keys":["m"],"args_keys":["a"],"on_conflict":"ignore"}`,
	`{"meta_keys":["a"]}`, `{"keys":["args"],"meta_keys":["a"]}`, `{"key":["queue"],"args_keys":["a"]}`, `{"key":["queue"],"meta_keys":["a"]}`,
	`{"key":["user_id"],"meta_keys":["a"]}`, `{"key":"order-7","args_keys":["a"]}`, `{"key":"order-7","meta_keys":["a"]}`,
	`{"meta_keys":"tenant"}`, `{"meta_keys":[null]}`, `{"meta_keys":["a","b","a"]}`,
	`{"key":1}`, `{"key":{}}`, `{"key":""}`, `{"key":[1]}`, `{"key":["a","a"]}`, `{"key":true}`,
	`{"keys":["type"],"key":["args"]}`, `{"keys":["type"],"key":"k"}`, `{"key":["user_id"],"args_keys":["a"]}`,
	`{"period":"1h"}`, `{"period":"P"}`, `{"period":"PT"}`, `{"period":"P1H"}`, `{"period":"PT0S"}`,
	`{"period":"-PT1H"}`, `{"period":"pt1h"}`, `{"period":"PT1.5H"}`, `{"period":"P101Y"}`, `{"period":""}`, `{"period":"3600"}`,
	`{"period":0}`, `{"period":-1}`, `{"period":1.5}`, `{"period":3153600001}`, `{"period":9223372036854775807}`, `{"period":18446744074}`, `{"period":1e30}`,
	`{"period":true}`, `{"period":["PT1H"]}`, `{"period":{}}`,
	`{"period_ms":0}`, `{"period_ms":-5}`, `{"period_ms":0.5}`, `{"period_ms":"1000"}`, `{"period_ms":3153600000001}`,
	`{"within":"PT1H"}`, `{"within":"1d"}`, `{"within":3600}`, `{"within":"0s"}`, `{"within":"-1h"}`, `{"within":"900000h"}`, `{"within":"99999999h"}`,
	`{"period":"PT1H","period_ms":1}`, `{"period":"PT1H","within":"1h"}`, `{"period_ms":1,"within":"1h"}`,
	`{"states":[]}`, `{"states":["done"]}`, `{"states":["Active"]}`, `{"states":[""]}`, `{"states":["active","active"]}`, `{"states":"active"}`, `{"states":[1]}`, `{"states":{}}`,
	`{"on_conflict":"skip"}`, `{"on_conflict":"Reject"}`, `{"on_conflict":""}`, `{"on_conflict":1}`, `{"on_conflict":["reject"]}`,
	`{"onConflict":"reject"}`, `{"argsKeys":["a"]}`, `{"argz_keys":null}`, `{"ttl":1}`, `{"":1}`, `{"Keys":["type"]}`, `{"xkeys":1}`,
	`{"keys":["args "]}`, `{"keys":["meta"],"meta_keys":"a"}`, `{"keys":["meta"],"meta_keys":[7]}`, `{"keys":["meta"],"meta_keys":["a","a"]}`,
	`{"keys":["args"],"args_keys":"a"}`, `{"keys":["args"],"args_keys":[1]}`, `{"keys":["args"],"args_keys":["a","a"]}`,
	`{"keys":["type"],"keys":["args"]}`, `{"x_a":1,"x_a":2}`, `{"` + strings.Repeat("n", 100) + `":1}`,
}

// badShort is refused where "3600s" is taken.
var badShort = []string{`{"period":"0s"}`, `{"period":"1.5d"}`, `{"period":"36501d"}`, `{"period":"999999999999h"}`, `{"period":"1w"}`, `{"within":"1d"}`}

var badDeduplication = []string{
	`[]`, `"a"`, `null`, `{}`, `{"id":null}`, `{"id":""}`, `{"id":1}`, `{"id":["a"]}`, `{"id":"` + strings.Repeat("é", 256) + `"}`,
	`{"id":"a","ttl":0}`, `{"id":"a","ttl":-1}`, `{"id":"a","ttl":"10"}`, `{"id":"a","ttl":"PT10S"}`, `{"id":"a","ttl":true}`, `{"id":"a","ttl":{}}`,
	`{"id":"a","ttl":1e-999}`, `{"id":"a","ttl":1e999}`, `{"id":"a","ttl":3153600000.1}`,
	`{"id":"a","ttl_ms":0}`, `{"id":"a","ttl_ms":-1}`, `{"id":"a","ttl_ms":1.5}`, `{"id":"a","ttl_ms":"1"}`, `{"id":"a","ttl_ms":3153600000001}`,
	`{"id":"a","ttl":1,"ttl_ms":1000}`,
	`{"id":"a","extend":1}`, `{"id":"a","extend":"true"}`, `{"id":"a","replace":"no"}`, `{"id":"a","replace":[]}`,
	`{"ttl":10}`, `{"ID":"k"}`, `{"id":"k","replace":0}`,
	`{"id":"a","Id":"b"}`, `{"id":"a","delay":1}`, `{"id":"a","id":"b"}`,
}

// Every way to get a policy wrong, and what the client is told.
func TestBadUniquePolicies(t *testing.T) {
	var b strings.Builder
	told := func(what, body string, err error) {
		var field any
		if e, ok := err.(*Error); ok {
			field = e.Details["field"]
		}
		if KindOf(err) != Invalid || field == nil {
			t.Errorf("%s %s: got %v of kind %d, field %v", what, body, err, KindOf(err), field)
		}
		fmt.Fprintf(&b, "%s %s\n\tinvalid %v: %v\n", what, body, field, err)
	}
	for _, body := range badUnique {
		_, err := ParseUnique(json.RawMessage(body), false)
		told("unique", body, err)
	}
	for _, body := range badShort {
		_, err := ParseUnique(json.RawMessage(body), true)
		told("short unique", body, err)
	}
	for _, body := range badDeduplication {
		_, err := parseDeduplication(json.RawMessage(body), "deduplication")
		told("deduplication", body, err)
	}
	_, err := parseDeduplication(json.RawMessage(`{"ttl":1}`), "debounce")
	told("debounce", `{"ttl":1}`, err)
	for _, tt := range []struct{ args, policy string }{
		{`[]`, `{"keys":["args"],"args_keys":["a"]}`},
		{`[ ]`, `{"keys":["args"],"args_keys":["a"]}`},
		{`[1,{"a":1}]`, `{"keys":["args"],"args_keys":["a"]}`},
		{`[[{"a":1}]]`, `{"key":["args"],"args_keys":["a"]}`},
		{`[{"b":{"a":1}}]`, `{"keys":["args"],"args_keys":["a"]}`},
		{`[{"a":1}]`, `{"keys":["args"],"args_keys":["a","b"]}`},
		{`[{"A":1}]`, `{"keys":["args"],"args_keys":["a"]}`},
		{`[{"a":{"b":1}}]`, `{"keys":["args"],"args_keys":["a.b"]}`},
		{`[{"a":{"b":1}}]`, `{"keys":["args"],"args_keys":["a/b"]}`},
		{`[{"a":{"b":1}}]`, `{"keys":["args"],"args_keys":["b"]}`},
		{`[{"b":1}]`, `{"keys":["args"],"args_keys":["a"]}`},
		{`[{"a":1}]`, `{"keys":["args"],"args_keys":["a","A"]}`},
		{`[{}]`, `{"keys":["args"],"args_keys":["a"]}`},
		{`["a"]`, `{"keys":["args"],"args_keys":["a"]}`},
		{`[["a"]]`, `{"keys":["args"],"args_keys":["a"]}`},
		{`[null]`, `{"keys":["args"],"args_keys":["a"]}`},
		{`[1]`, `{"keys":["args"],"args_keys":["0"]}`},
	} {
		_, err := canonical(t, Envelope{Type: "t", Args: json.RawMessage(tt.args)}, tt.policy)
		told("args "+tt.args+" with", tt.policy, err)
	}
	golden(t, "bad_policies.golden", b.String())
}

// with is the default policy (ojs-unique-jobs.md §2.1) with a change.
func with(change func(*UniquePolicy)) UniquePolicy {
	p := UniquePolicy{Keys: []string{"type"}, States: SetOf(Available, Active, Scheduled, Retryable, Pending), OnConflict: UniqueReject}
	change(&p)
	return p
}

// parsed compares policies with what they are read as.
func parsed(t *testing.T, policies map[string]UniquePolicy) {
	t.Helper()
	for body, want := range policies {
		for _, short := range []bool{false, true} {
			if got, err := ParseUnique(json.RawMessage(body), short); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s:\n got %+v, %v\nwant %+v", body, got, err, want)
			}
		}
	}
}

func TestParseUniqueDimensions(t *testing.T) {
	base := with(func(*UniquePolicy) {})
	keys := func(ks ...string) UniquePolicy { return with(func(p *UniquePolicy) { p.Keys = ks }) }
	parsed(t, map[string]UniquePolicy{
		`{}`: base,
		`{"keys":null,"args_keys":null,"meta_keys":null,"period":null,"period_ms":null,"within":null,"states":null,"on_conflict":null,"key":null}`: base,
		`{"x_note":{"a":[1]},"x_":null}`:      base,
		`{"keys":[]}`:                         base,
		`{"key":[]}`:                          base,
		`{"keys":["queue","args"]}`:           keys("args", "queue", "type"),
		`{"keys":["type"],"key":null}`:        keys("type"),
		`{"key":["args","type"]}`:             keys("args", "type"),
		`{"key":["queue"]}`:                   keys("queue", "type"),
		`{"args_keys":[]}`:                    base,
		`{"keys":["type"],"meta_keys":[]}`:    with(func(p *UniquePolicy) { p.MetaKeys = []string{} }),
		`{"keys":["type"],"args_keys":[]}`:    base,
		`{"keys":["meta"],"meta_keys":["a"]}`: with(func(p *UniquePolicy) { p.Keys, p.MetaKeys = []string{"meta", "type"}, []string{"a"} }),
		`{"key":["args"],"args_keys":["b","a","e\u0301"]}`: with(func(p *UniquePolicy) {
			p.Keys, p.ArgsKeys = []string{"args", "type"}, []string{"a", "b", "é"}
		}),
		`{"key":["user_id","type"],"args_keys":[]}`: with(func(p *UniquePolicy) {
			p.Keys, p.ArgsKeys, p.Lenient = []string{"args", "type"}, []string{"type", "user_id"}, true
		}),
		`{"key":"order-7","args_keys":[]}`: with(func(p *UniquePolicy) { p.Key = "order-7" }),
	})
}

func TestParseUniqueWindowStatesAndConflict(t *testing.T) {
	period := func(d time.Duration) UniquePolicy { return with(func(p *UniquePolicy) { p.Period = d }) }
	parsed(t, map[string]UniquePolicy{
		`{"period":"PT1H"}`:                         period(time.Hour),
		`{"period":"P100Y"}`:                        period(MaxDuration),
		`{"period":"PT0.001S"}`:                     period(time.Millisecond),
		`{"period":90}`:                             period(90 * time.Second),
		`{"period":3153600000}`:                     period(MaxDuration),
		`{"period_ms":1500}`:                        period(1500 * time.Millisecond),
		`{"within":"1h30m"}`:                        period(90 * time.Minute),
		`{"within":"1h","period":null}`:             period(time.Hour),
		`{"states":["completed"]}`:                  with(func(p *UniquePolicy) { p.States = SetOf(Completed) }),
		`{"on_conflict":"replace"}`:                 with(func(p *UniquePolicy) { p.OnConflict = UniqueReplace }),
		`{"on_conflict":"ignore"}`:                  with(func(p *UniquePolicy) { p.OnConflict = UniqueIgnore }),
		`{"on_conflict":"reject"}`:                  with(func(*UniquePolicy) {}),
		`{"on_conflict":"replace_except_schedule"}`: with(func(p *UniquePolicy) { p.OnConflict = UniqueReplaceExceptSchedule }),
		`{"states":["scheduled","available","pending","active","completed","retryable","cancelled","discarded"]}`: with(func(p *UniquePolicy) {
			p.States = SetOf(States...)
		}),
	})
	if _, err := ParseUnique(nil, false); KindOf(err) != Invalid {
		t.Errorf("nothing: got %v", err)
	}
}

// Contract C-05: ojs-core.md §13 writes "3600s", and only its flat envelopes may.
func TestShortPeriods(t *testing.T) {
	for s, want := range map[string]time.Duration{"3600s": time.Hour, "1h": time.Hour, "90m": 90 * time.Minute, "1500ms": 1500 * time.Millisecond,
		"1.5s": 1500 * time.Millisecond, "7d": 7 * 24 * time.Hour, "36500d": MaxDuration, "PT1H": time.Hour} {
		body := json.RawMessage(`{"period":"` + s + `"}`)
		if got, err := ParseUnique(body, true); err != nil || got.Period != want {
			t.Errorf("%s: got %s, %v, want %s", s, got.Period, err, want)
		}
		if _, err := ParseUnique(body, false); s != "PT1H" && KindOf(err) != Invalid {
			t.Errorf("%s is taken outside of flat envelopes: %v", s, err)
		}
	}
}

// ojs-unique-jobs.md §7.2: ISO 8601, in every kind of envelope.
func TestPeriodsAreISO8601(t *testing.T) {
	const day = 24 * time.Hour
	for s, want := range map[string]time.Duration{"PT1S": time.Second, "PT5M": 5 * time.Minute, "PT36H": 36 * time.Hour, "P1D": day, "P2W": 14 * day,
		"P1M": 30 * day, "P1Y": 365 * day, "P1Y1M1W1DT1H1M1.5S": 403*day + time.Hour + time.Minute + 1500*time.Millisecond,
		"P1DT12H": 36 * time.Hour, "PT0.0001S": time.Millisecond, "PT90061.001S": 25*time.Hour + time.Minute + 1001*time.Millisecond, "P36500D": MaxDuration} {
		for _, short := range []bool{false, true} {
			if got, err := ParseUnique(json.RawMessage(`{"period":"`+s+`"}`), short); err != nil || got.Period != want {
				t.Errorf("%s: got %s, %v, want %s", s, got.Period, err, want)
			}
		}
	}
	for _, s := range []string{"P", "PT", "P1DT", "pt1h", "PT1h", "P1H", "PT1D", "PT1.5H", "P0.5D", "P1D1W", "PT1S1M", "-P1D", "+PT1H", "PT-1H", "PT1,5S", " PT1H", "PT1H ", "PT0S", "P0D", "P36501D", "1H", ""} {
		for _, short := range []bool{false, true} {
			if got, err := ParseUnique(json.RawMessage(`{"period":"`+s+`"}`), short); KindOf(err) != Invalid || err == nil {
				t.Errorf("%q is taken as %s, %v", s, got.Period, err)
			}
		}
	}
}

// canonical is what a policy makes of an envelope.
func canonical(t *testing.T, e Envelope, policy string) (string, error) {
	t.Helper()
	p, err := ParseUnique(json.RawMessage(policy), false)
	if err != nil {
		t.Fatalf("%s: %v", policy, err)
	}
	text, err := p.canonical(&e)
	return string(text), err
}

// The vectors of contract §4.10, by way of jobs and policies.
func TestFingerprintVectors(t *testing.T) {
	for _, tt := range []struct{ typ, queue, args, policy, want string }{
		{"email.send", "notifications", `[{"user_id":42,"template":"welcome","locale":"en-US"}]`, `{"keys":["type","queue","args"],"args_keys":["user_id"]}`,
			"71f9344b82e66297a49775bbe27752297922842b675330641ebe3ff4fea46c1f"},
		{"report.daily", "default", `[{"date":"2026-02-12"}]`, `{}`, "be66720bd0f961a37ab755101a985ca3f8563bd89ed8d412c41fa5791f3e4d95"},
		{"unique.test", "", `[{"order_id":"ORD-001"}]`, `{"keys":["args"]}`, "ddb113f24c177c442445c650d165697d5754903befa8e543fd88eafff472f2b3"},
		{"t", "", `[{"name":"café"}]`, `{"keys":["args"],"args_keys":["name"]}`, "8f8d0164aa92b2c4dab289e483ef69b1181284ca16af82990174669f2371c9c4"},
		{"t", "", `[{"name":"cafe\u0301"}]`, `{"keys":["args"],"args_keys":["name"]}`, "8f8d0164aa92b2c4dab289e483ef69b1181284ca16af82990174669f2371c9c4"},
	} {
		text, err := canonical(t, Envelope{Type: tt.typ, Queue: tt.queue, Args: json.RawMessage(tt.args)}, tt.policy)
		if got := fingerprintOf([]byte(text)); err != nil || got != tt.want {
			t.Errorf("%s %s: got %s over %s, %v, want %s", tt.args, tt.policy, got, text, err, tt.want)
		}
	}
}

func TestCanonicalOfAPolicy(t *testing.T) {
	for _, tt := range []struct{ name, queue, args, meta, policy, want string }{
		{"type alone", "q", `[1]`, `{"a":1}`, `{}`, `{"type":"t"}`},
		{"the default queue", "", `[]`, ``, `{"keys":["queue"]}`, `{"queue":"default","type":"t"}`},
		{"a queue", "q", `[]`, ``, `{"keys":["queue"]}`, `{"queue":"q","type":"t"}`},
		{"all args", "q", `[1, {"b":2,"a":1.0}]`, ``, `{"keys":["args"]}`, `{"args":[1,{"a":1,"b":2}],"type":"t"}`},
		{"no args", "q", `[ ]`, ``, `{"keys":["args"]}`, `{"args":[],"type":"t"}`},
		{"an empty list is all args", "q", `[1]`, ``, `{"keys":["args"],"args_keys":[]}`, `{"args":[1],"type":"t"}`},
		{"chosen args", "q", `[ { "b" : [2, 3] , "a":null,"c":3},4]`, ``, `{"keys":["args"],"args_keys":["b","a"]}`, `{"args":{"a":null,"b":[2,3]},"type":"t"}`},
		{"the last of two", "q", `[{"a":1,"a":2}]`, ``, `{"keys":["args"],"args_keys":["a"]}`, `{"args":{"a":2},"type":"t"}`},
		{"a name in two forms", "q", `[{"é":1,"e\u0301":2}]`, ``, `{"keys":["args"],"args_keys":["é"]}`, `{"args":{"é":2},"type":"t"}`},
		{"a name with escapes", "q", `[{"a\"\n":1}]`, ``, `{"keys":["args"],"args_keys":["\u0061\"\n"]}`, `{"args":{"a\"\n":1},"type":"t"}`},
		{"an empty name", "q", `[{"":1}]`, ``, `{"keys":["args"],"args_keys":[""]}`, `{"args":{"":1},"type":"t"}`},
		{"meta", "q", `[]`, `{"b":2,"a":1,"c":3}`, `{"keys":["meta"],"meta_keys":["a","b"]}`, `{"meta":{"a":1,"b":2},"type":"t"}`},
		{"meta that is not there", "q", `[]`, `{"b":2}`, `{"keys":["meta"],"meta_keys":["a","b"]}`, `{"meta":{"b":2},"type":"t"}`},
		{"no meta", "q", `[]`, ``, `{"keys":["meta"],"meta_keys":["a"]}`, `{"meta":{},"type":"t"}`},
		{"an empty list of meta_keys without meta", "q", `[]`, `{"a":1}`, `{"keys":["type"],"args_keys":[],"meta_keys":[]}`, `{"type":"t"}`},
		{"everything", "q", `[{"a":1}]`, `{"m":2}`, `{"keys":["type","queue","args","meta"],"args_keys":["a"],"meta_keys":["m"]}`,
			`{"args":{"a":1},"meta":{"m":2},"queue":"q","type":"t"}`},
		{"lenient", "q", `[{"a":1,"c":2}]`, ``, `{"key":["a","b"]}`, `{"args":{"a":1},"type":"t"}`},
		{"lenient, and nothing is there", "q", `[{"c":2}]`, ``, `{"key":["a"]}`, `{"args":[{"c":2}],"type":"t"}`},
		{"ojs-core.md §13.2", "reports", `[42, "quarterly", {"include_charts": true}]`, ``, `{"key":["report_id"]}`,
			`{"args":[42,"quarterly",{"include_charts":true}],"type":"t"}`},
		{"lenient, no args", "q", `[]`, ``, `{"key":["a"]}`, `{"args":[],"type":"t"}`},
		{"a caller's own key", "q", `[1]`, `{"a":1}`, `{"key":"cafe\u0301 7"}`, `{"key":"café 7","type":"t"}`},
		{"integers beyond float64", "q", `[9007199254740993]`, ``, `{"keys":["args"]}`, `{"args":[9007199254740993],"type":"t"}`},
	} {
		e := Envelope{Type: "t", Queue: tt.queue, Args: json.RawMessage(tt.args)}
		if tt.meta != "" {
			e.Meta = json.RawMessage(tt.meta)
		}
		if got, err := canonical(t, e, tt.policy); err != nil || got != tt.want {
			t.Errorf("%s:\n got %s, %v\nwant %s", tt.name, got, err, tt.want)
		}
	}
	if got, err := (UniquePolicy{}).canonical(&Envelope{Type: "t"}); err != nil || string(got) != `{"type":"t"}` {
		t.Errorf("the zero policy: got %s, %v", got, err)
	}
}

// What two jobs differ in is a difference exactly when it is in a dimension.
func TestDimensionsDecide(t *testing.T) {
	a := Envelope{Type: "t", Queue: "q", Args: json.RawMessage(`[{"n":1}]`), Meta: json.RawMessage(`{"m":1}`)}
	change := map[string]func(*Envelope){
		"type":  func(e *Envelope) { e.Type = "t2" },
		"queue": func(e *Envelope) { e.Queue = "q2" },
		"args":  func(e *Envelope) { e.Args = json.RawMessage(`[{"n":2}]`) },
		"meta":  func(e *Envelope) { e.Meta = json.RawMessage(`{"m":2}`) },

		"more args": func(e *Envelope) { e.Args = json.RawMessage(`[{"n":1,"o":2}]`) }, // what args_keys leaves out
		"more meta": func(e *Envelope) { e.Meta = json.RawMessage(`{"m":1,"o":2}`) },   // what meta_keys leaves out
	}
	for set := range 32 {
		chosen := set>>4 == 1
		var keys []string
		for i, d := range dimensions {
			if set>>i&1 == 1 {
				keys = append(keys, `"`+d+`"`)
			}
		}
		names := ""
		if slices.Contains(keys, `"meta"`) {
			names = `,"meta_keys":["m"]`
		}
		if chosen {
			if !slices.Contains(keys, `"args"`) {
				continue
			}
			names += `,"args_keys":["n"]`
		}
		policy := `{"keys":[` + strings.Join(keys, ",") + `]` + names + `}`
		for dim, f := range change {
			b := a
			f(&b)
			one, errA := canonical(t, a, policy)
			other, errB := canonical(t, b, policy)
			want := dim == "type" || slices.Contains(keys, `"`+dim+`"`) || dim == "more args" && !chosen && slices.Contains(keys, `"args"`)
			if errA != nil || errB != nil || (one != other) != want {
				t.Errorf("%s, another %s: %s, %v and %s, %v", policy, dim, one, errA, other, errB)
			}
		}
	}
}

// 40,000 names against 40,000 members are not 1,600,000,000 comparisons.
func TestManyNamesAreQuick(t *testing.T) {
	var names, members []string
	for i := range 40_000 {
		names = append(names, fmt.Sprintf(`"n%d"`, i))
		members = append(members, fmt.Sprintf(`"n%d":%d`, 39_999-i, i))
	}
	e := Envelope{Type: "t", Args: json.RawMessage("[{" + strings.Join(members, ",") + "}]")}
	text, err := canonical(t, e, `{"keys":["args"],"args_keys":[`+strings.Join(names, ",")+`]}`)
	if err != nil || len(text) < 400_000 {
		t.Errorf("got %d bytes, %v", len(text), err)
	}
}

func BenchmarkFingerprint(b *testing.B) {
	p, err := ParseUnique(json.RawMessage(`{"keys":["type","args"],"args_keys":["user_id"]}`), false)
	if err != nil {
		b.Fatal(err)
	}
	e := Envelope{Type: "email.send", Args: json.RawMessage(`[{"user_id":42,"template":"welcome","locale":"en-US"}]`)}
	b.ReportAllocs()
	for b.Loop() {
		text, err := p.canonical(&e)
		if err != nil {
			b.Fatal(err)
		}
		fingerprintOf(text)
	}
}
