package job

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

var noon = time.UnixMilli(1_800_000_000_000).UTC()

// pushed is a job that was pushed at noon.
func pushed(t *testing.T, change func(*Envelope)) *Job {
	t.Helper()
	e := Envelope{ID: "0197f6a0-0000-7000-8000-000000000001", Type: "a.b", Args: json.RawMessage(`[1]`)}
	change(&e)
	c, err := e.Check()
	must(t, err)
	j, err := c.Push(noon)
	must(t, err)
	return j
}

// ended brings a job to a good end, a minute after noon.
func ended(t *testing.T, j *Job) *Job {
	t.Helper()
	must(t, j.Start(noon, Lease{Token: "t", Length: time.Hour}))
	must(t, j.Complete(noon.Add(time.Minute), Claim{ID: j.ID, Token: "t"}, nil))
	return j
}

// A job is kept for the windows that are left, and for no other.
func TestKeepFollowsTheKeys(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	both := func(j *Job) { j.ReleaseKey(); j.ReleaseDedup() }
	for _, tt := range []struct {
		unique, dedup string
		release       func(*Job)
		want          time.Duration // behind noon; 0: not kept, -1: for ever
	}{
		{`{}`, `{"id":"d"}`, func(*Job) {}, 0},
		{`{}`, `{"id":"d","ttl":7776000}`, func(*Job) {}, 90 * day},
		{`{}`, `{"id":"d","ttl":7776000}`, (*Job).ReleaseKey, 90 * day},
		{`{}`, `{"id":"d","ttl":7776000}`, (*Job).ReleaseDedup, 0},
		{``, `{"id":"d","ttl":7776000}`, (*Job).ReleaseDedup, 0},
		{`{"states":["completed"],"period":"P40D"}`, `{"id":"d","ttl":7776000}`, func(*Job) {}, 90 * day},
		{`{"states":["completed"],"period":"P40D"}`, `{"id":"d","ttl":7776000}`, (*Job).ReleaseDedup, 40 * day},
		{`{"states":["completed"],"period":"P40D"}`, `{"id":"d","ttl":60}`, (*Job).ReleaseDedup, 40 * day},
		{`{"states":["completed"],"period":"P40D"}`, `{"id":"d","ttl":60}`, (*Job).ReleaseKey, time.Minute},
		{`{"states":["completed"],"period":"PT1S"}`, ``, func(*Job) {}, 30 * day},
		{`{"states":["completed"]}`, `{"id":"d","ttl":60}`, (*Job).ReleaseDedup, -1},
		{`{"states":["completed"]}`, `{"id":"d","ttl":60}`, both, 0},
	} {
		j := ended(t, pushed(t, func(e *Envelope) {
			if tt.unique != "" {
				e.Unique = json.RawMessage(tt.unique)
			}
			if tt.dedup != "" {
				e.Deduplication = json.RawMessage(tt.dedup)
			}
		}))
		j.keys = nil // as it comes out of a store
		released := j.Status
		j.Stay(noon, time.Hour)
		tt.release(j)
		want := noon.Add(tt.want)
		switch tt.want {
		case 0:
			want = time.Time{}
		case -1:
			want = Forever
		}
		if !j.Keep.Equal(want) {
			t.Errorf("%s %s: kept until %s, want %s", tt.unique, tt.dedup, j.Keep, want)
		}
		if changed := j.DedupFreed != released.DedupFreed || j.Fingerprint != released.Fingerprint; changed && !j.DueAt.Equal(j.FinishedAt) {
			t.Errorf("%s %s: looked at from %s on, want %s", tt.unique, tt.dedup, j.DueAt, j.FinishedAt)
		}
	}
}

// Who takes over a window is kept no longer than that.
func TestKeepOfAWindowThatIsTakenOver(t *testing.T) {
	t.Parallel()
	owner := pushed(t, func(e *Envelope) { e.Deduplication, e.Delay = json.RawMessage(`{"id":"d","ttl":10}`), time.Hour })
	until := owner.DedupUntil
	j := pushed(t, func(e *Envelope) { e.Deduplication = json.RawMessage(`{"id":"d","ttl":3600,"replace":true}`) })
	a, err := j.Admit(noon, KeyHolders{Owner: owner})
	if err != nil || a.Replaced != owner.ID || !j.DedupUntil.Equal(until) || !j.Keep.Equal(until) {
		t.Errorf("%+v, %v: its window ends at %s, kept until %s; want both %s", a, err, j.DedupUntil, j.Keep, until)
	}
	if !owner.Keep.IsZero() {
		t.Errorf("the owner before is kept until %s", owner.Keep)
	}
}

// The same type and the same state, and a newer one that stays as long: the older decides nothing any more.
func TestOutlived(t *testing.T) {
	t.Parallel()
	made := func(id byte, policy string, after time.Duration) *Job {
		j := ended(t, pushed(t, func(e *Envelope) { e.Unique = json.RawMessage(policy) }))
		j.ID = j.ID[:len(j.ID)-1] + ID(id)
		j.CreatedAt = j.CreatedAt.Add(after)
		return j
	}
	const forever, days = `{"states":["completed"]}`, `{"states":["completed"],"period":"P40D"}`
	for name, tt := range map[string]struct {
		j, twin *Job
		want    bool
	}{
		"nobody":                      {made('1', forever, 0), nil, false},
		"a newer one":                 {made('1', forever, 0), made('2', forever, time.Second), true},
		"an older one":                {made('2', forever, time.Second), made('1', forever, 0), false},
		"one of the same instant":     {made('1', forever, 0), made('2', forever, 0), true},
		"the other way round":         {made('2', forever, 0), made('1', forever, 0), false},
		"a newer one that goes first": {made('1', forever, 0), made('2', days, time.Second), false},
		"a newer one that counts not": {made('1', days, 0), made('2', `{}`, time.Second), false},
	} {
		var twins []*Job
		if tt.twin != nil {
			twins = []*Job{tt.twin}
		}
		if got := tt.j.Outlived(noon, twins); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	spoiled := func(change func(j, twin *Job)) bool {
		j, twin := made('1', forever, 0), made('2', forever, time.Second)
		change(j, twin)
		return j.Outlived(noon, []*Job{twin})
	}
	for name, change := range map[string]func(j, twin *Job){
		"in another state":        func(j, twin *Job) { twin.State = Cancelled },
		"that may yet be revived": func(j, twin *Job) { j.State, twin.State, twin.Dead = Discarded, Discarded, true },
		"and a window of its own": func(j, _ *Job) {
			j.Deduplication, j.DedupUntil = json.RawMessage(`{"id":"d","ttl":9}`), noon.Add(9*time.Second)
		},
		"whose key was taken off":  func(_, twin *Job) { twin.ReleaseKey() },
		"and it is not itself one": func(j, _ *Job) { j.ReleaseKey() },
	} {
		if spoiled(change) {
			t.Errorf("a newer one %s: it is outlived", name)
		}
	}
}

// A job must not grow beyond what a PUSH may bring.
func TestARewriteKeepsTheLimit(t *testing.T) {
	t.Parallel()
	policy := json.RawMessage(`{"on_conflict":"replace_except_schedule"}`)
	half := `"` + strings.Repeat("x", MaxJobBytes/2) + `"`
	twin := pushed(t, func(e *Envelope) {
		e.Unique, e.Delay, e.Extra = policy, time.Hour, json.RawMessage(`{"x":`+half+`}`)
	})
	before := string(twin.AppendJSON(nil, View{}))
	j := pushed(t, func(e *Envelope) { e.Unique, e.Args = policy, json.RawMessage(`[`+half+`]`) })
	_, err := j.Admit(noon, KeyHolders{Twins: []*Job{twin}})
	if KindOf(err) != TooLarge || err == nil {
		t.Errorf("got %v", err)
	}
	if after := string(twin.AppendJSON(nil, View{})); after != before || len(twin.TakeEvents()) != 1 {
		t.Error("the job was changed")
	}
}

// Of two jobs that make room, the twin is named: the other gave way to its key's owner.
func TestReplacedNamesTheTwin(t *testing.T) {
	t.Parallel()
	with := func(id string, unique, dedup string) *Job {
		return pushed(t, func(e *Envelope) {
			e.ID, e.Delay = ID("0197f6a0-0000-7000-8000-00000000000"+id), time.Hour
			if unique != "" {
				e.Unique = json.RawMessage(unique)
			}
			if dedup != "" {
				e.Deduplication = json.RawMessage(dedup)
			}
		})
	}
	twin, owner := with("1", `{}`, ``), with("2", ``, `{"id":"d"}`)
	j := with("3", `{"on_conflict":"replace"}`, `{"id":"d","replace":true}`)
	a, err := j.Admit(noon, KeyHolders{Owner: owner, Twins: []*Job{twin}})
	if err != nil || a.Replaced != twin.ID || len(a.Changed) != 2 || twin.State != Cancelled || owner.State != Cancelled {
		t.Errorf("replaced %s, %d changed, %v; want %s", a.Replaced, len(a.Changed), err, twin.ID)
	}
}

// What a Go program changes in a valid envelope is checked as what it began with.
func TestCheckReadsWhatWasChanged(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`{"type":"a.b","args":[{"a":1}]}`,
		`{"type":"a.b","args":[{"a":1}],"meta":{},"unique":{"keys":["args"],"args_keys":["a"]},"deduplication":{"id":"d"},"retry":{}}`} {
		for field, change := range map[string]func(*Envelope, json.RawMessage){
			"args":          func(e *Envelope, v json.RawMessage) { e.Args = v },
			"meta":          func(e *Envelope, v json.RawMessage) { e.Meta = v },
			"retry":         func(e *Envelope, v json.RawMessage) { e.Retry = v },
			"unique":        func(e *Envelope, v json.RawMessage) { e.Unique = v },
			"deduplication": func(e *Envelope, v json.RawMessage) { e.Deduplication = v },
			"extra":         func(e *Envelope, v json.RawMessage) { e.Extra = v },
		} {
			for _, bad := range []string{`[{"a"`, `{"keys":["args"`, `{`, `"`} {
				e, err := parseEnvelope([]byte(raw))
				must(t, err)
				change(&e, json.RawMessage(bad))
				if _, err := e.Check(); KindOf(err) != Invalid || !strings.HasPrefix(err.Error(), field) {
					t.Errorf("%s, %s = %s: got %v", raw, field, bad, err)
				}
			}
		}
	}
	e := Envelope{Type: "a.b", Args: json.RawMessage(`[{"a":1}]`), Unique: json.RawMessage(`{"keys":["args"]}`)}
	_, err := e.Check()
	must(t, err)
	e.Args = e.Args[:3]
	if _, err := e.Check(); KindOf(err) != Invalid {
		t.Errorf("cut short: got %v", err)
	}
	e = Envelope{Type: "a.b"}
	if _, err := e.Check(); KindOf(err) != Invalid {
		t.Errorf("no args: got %v", err)
	}
}

// Half a surrogate pair would become U+FFFD, and two keys one.
func TestKeysAreWholeText(t *testing.T) {
	t.Parallel()
	for _, half := range []string{`\ud800`, `\uDC00`, `a\udfff.`, `\ud800x`, `\udc00\ud800`, `\ud800\ud800\udc00`, `\ud83d\ude00\ud83d`, `\\\ud800`} {
		for field, body := range map[string]string{
			"deduplication.id": `{"deduplication":{"id":"%"}}`, "debounce.id": `{"debounce":{"id":"%"}}`,
			"options.job_id": `{"job_id":"%"}`, "unique.key": `{"unique":{"key":"%"}}`,
			"unique.args_keys": `{"unique":{"keys":["args"],"args_keys":["a","%"]}}`, "unique.meta_keys": `{"unique":{"keys":["meta"],"meta_keys":["%"]}}`,
		} {
			body := `{"type":"a.b","args":[],"options":` + strings.Replace(body, "%", half, 1) + `}`
			var e *Error
			if _, err := parseEnvelope([]byte(body)); KindOf(err) != Invalid || !errors.As(err, &e) || e.Details["field"] != field {
				t.Errorf("%s: got %v", body, err)
			}
		}
	}
	for _, whole := range []string{`\ud83d\ude00`, `😀`, `\\ud800`, `\ufffd`, `�`, `\\\\ud800\n`} {
		if _, err := parseEnvelope([]byte(`{"type":"a.b","args":[],"options":{"job_id":"` + whole + `","unique":{"key":"` + whole + `"},"deduplication":{"id":"` + whole + `"}}}`)); err != nil {
			t.Errorf("%s: got %v", whole, err)
		}
	}
}

// Two jobs whose args are not the same are no twins, however alike a careless
// reader finds them (ojs-unique-jobs.md §3.3).
func TestAlmostTheSameArgsAreNoTwins(t *testing.T) {
	t.Parallel()
	key := func(args, more string) string {
		c, err := ParseEnvelope([]byte(`{"type":"a.b","args":` + args + `,` + more + `}`))
		if err != nil {
			t.Fatal(err)
		}
		return c.UniqueKey()
	}
	for _, pair := range [][2]string{
		{`"\ud800"`, `"\udfff"`}, {`"\ud800"`, `"\ufffd"`}, {`"a\ud800b"`, `"a\ud801b"`}, {`"\ud83d\ude00"`, `"\ude00\ud83d"`}, {`"\ud800"`, `"\\ud800"`},
		{`9007199254740993.0`, `9007199254740992.0`}, {`9007199254740993`, `9007199254740992`}, {`9.007199254740993e15`, `9.007199254740992e15`},
		{`9007199254740992.5`, `9007199254740992`}, {`-9007199254740993.0`, `-9007199254740992.0`}, {`123456789012345678.0`, `123456789012345679.0`},
		{`1e400`, `1e401`},
	} {
		for _, tt := range [][2]string{
			{`[%]`, `"unique":{"keys":["args"],"on_conflict":"ignore"}`}, {`[{"a":%}]`, `"unique":{"keys":["args"],"args_keys":["a"]}`},
			{`[{"a":{"b":[%]}}]`, `"unique":{"key":["a"]}`}, {`[]`, `"meta":{"m":%},"unique":{"keys":["meta"],"meta_keys":["m"]}`},
		} {
			put := func(v string) string {
				return key(strings.Replace(tt[0], "%", v, 1), strings.Replace(tt[1], "%", v, 1))
			}
			if put(pair[0]) == put(pair[1]) {
				t.Errorf("%s and %s are twins in %s, %s", pair[0], pair[1], tt[0], tt[1])
			}
		}
	}
	names := func(n string) string { return key(`[{"`+n+`":1}]`, `"unique":{"keys":["args"]}`) }
	if names(`\ud800`) == names(`\udfff`) || names(`\ud800`) == names(`\ufffd`) {
		t.Error("members with other names are twins")
	}
	listed := func(meta string) string {
		return key(`[]`, `"meta":`+meta+`,"unique":{"keys":["meta"],"meta_keys":["\ufffd"]}`)
	}
	if listed(`{"\ufffd":1,"\ud800":2}`) != listed(`{"\ufffd":1}`) {
		t.Error("half of a pair is taken for the character that is listed")
	}
	for _, same := range [][2]string{{`1.0`, `1`}, {`1e2`, `100`}, {`-0`, `0`}, {`9007199254740993.0`, `9007199254740993`}, {`9007199254740993e0`, `9007199254740993.00`},
		{`"\uD800"`, `"\ud800"`}, {`1e21`, `10E20`}, {`0.1`, `0.10`}, {`1e23`, `9.9999999999999992e+22`}} {
		if a, b := key(`[`+same[0]+`]`, `"unique":{"keys":["args"]}`), key(`[`+same[1]+`]`, `"unique":{"keys":["args"]}`); a != b {
			t.Errorf("%s and %s are not the same", same[0], same[1])
		}
	}
}

// The numbers of the states are in stored files: they must never change.
func TestStatesKeepTheirBits(t *testing.T) {
	t.Parallel()
	for st, want := range map[State]StateSet{Scheduled: 1, Available: 2, Pending: 4, Active: 8, Retryable: 16, Completed: 32, Cancelled: 64, Discarded: 128} {
		if got := SetOf(st); got != want {
			t.Errorf("%s has the bit %d, want %d", st, got, want)
		}
	}
}

func TestValidKey(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{strings.Repeat("0a", 32): true, strings.Repeat("0A", 32): false, strings.Repeat("0a", 31): false,
		strings.Repeat("0a", 33): false, strings.Repeat("g0", 32): false, "": false} {
		if got := ValidKey(s); got != want {
			t.Errorf("%q: got %v", s, got)
		}
	}
}
