package wire

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// keyed is a job with everything that a key may leave in it.
func keyed(s job.State) *job.Job {
	j := aJob(s)
	j.Unique, j.Deduplication, j.CustomID = json.RawMessage(`{"keys": ["args"]}`), json.RawMessage(`{"id": "k:1","ttl":30}`), "c-1"
	return j
}

// allReceipts are receipts of every verdict.
func allReceipts() []job.Receipt {
	other := job.ID("019539a4-b68c-7def-8000-1a2b3c4d5e70")
	rs := []job.Receipt{{Job: aJob(job.Available)}, {Job: keyed(job.Scheduled), Replaced: other}}
	rs = append(rs, job.Receipt{Job: keyed(job.Available), Replaced: other, AllReplaced: []job.ID{other, "019539a4-b68c-7def-8000-1a2b3c4d5e71"}})
	for _, v := range []job.Verdict{job.SameCustomID, job.Deduplicated, job.Ignored, job.Rewritten} {
		rs = append(rs, job.Receipt{Job: keyed(job.Active), Existing: true, Verdict: v})
	}
	return rs
}

func wantReceipt(t *testing.T, got, want job.Receipt, err error) {
	t.Helper()
	wantJob(t, got.Job, want.Job, err)
	if got.Existing != want.Existing || got.Verdict != want.Verdict || got.Replaced != want.Replaced || !slices.Equal(got.AllReplaced, want.AllReplaced) {
		t.Errorf("got existing %v, verdict %q, replaced %q; want %v, %q, %q", got.Existing, got.Verdict, got.Replaced, want.Existing, want.Verdict, want.Replaced)
	}
}

func TestReceiptsOfEveryVerdict(t *testing.T) {
	t.Parallel()
	for _, want := range allReceipts() {
		got, err := ReadReceipt(AppendReceipt(nil, want))
		wantReceipt(t, got, want, err)
	}
	rs := allReceipts()
	body := AppendBatch(nil, rs)
	if !json.Valid(body) || !strings.Contains(string(body), `"count":7,"enqueued":3,"failed":0`) {
		t.Errorf("got %s", body)
	}
	got, err := ReadBatch(body)
	if err != nil || len(got) != len(rs) {
		t.Fatalf("got %d receipts, %v", len(got), err)
	}
	for i := range rs {
		wantReceipt(t, got[i], rs[i], nil)
	}
}

// What a job holds inside is no word of the server about it.
func TestReceiptsAreNotReadOutOfArgs(t *testing.T) {
	t.Parallel()
	j := aJob(job.Available)
	j.Args = json.RawMessage(`[{"deduplicated":true,"replaced_job_id":"x","replaced":true}]`)
	j.Extra = json.RawMessage(`{"deduplications":[{"index":0}]}`)
	want := job.Receipt{Job: j}
	got, err := ReadReceipt(AppendReceipt(nil, want))
	wantReceipt(t, got, want, err)
	batch, err := ReadBatch(AppendBatch(nil, []job.Receipt{want}))
	if err != nil {
		t.Fatal(err)
	}
	wantReceipt(t, batch[0], want, nil)
}

// A policy is shown in a spelling that is read back to the same policy.
func TestPolicyIsReadBack(t *testing.T) {
	t.Parallel()
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "type", "é", "e\u0301x", "\"", "meta"}), 1, 4, rapid.ID[string])
	rapid.Check(t, func(t *rapid.T) {
		raw := map[string]any{}
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			raw["key"] = rapid.StringN(1, 9, 40).Draw(t, "key")
		case 1:
			raw["key"] = names.Draw(t, "key")
		case 2:
			raw["keys"] = []string{"args", "meta", "queue"}[:rapid.IntRange(0, 3).Draw(t, "keys")]
		}
		dims, _ := raw["keys"].([]string)
		if slices.Contains(dims, "args") && rapid.Bool().Draw(t, "args") {
			raw["args_keys"] = names.Draw(t, "args_keys")
		}
		if slices.Contains(dims, "meta") {
			raw["meta_keys"] = names.Draw(t, "meta_keys")
		}
		if n := rapid.Int64Range(0, 1e9).Draw(t, "period"); n > 0 {
			raw["period_ms"] = n
		}
		if n := rapid.IntRange(0, 8).Draw(t, "states"); n > 0 {
			raw["states"] = job.States[:n]
		}
		text, err := json.Marshal(raw)
		if err != nil {
			t.Fatal(err)
		}
		want, err := job.ParseUnique(text, true)
		if err != nil {
			t.Skip("not a policy") // this draw, not the test
		}
		b := rawjson.Object(nil)
		appendPolicy(&b, want)
		shown := b.Close()
		got, err := job.ParseUnique(shown, false)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s is shown as %s: got %+v, %v, want %+v", text, shown, got, err, want)
		}
	})
}

func TestExplanationIsReadBack(t *testing.T) {
	t.Parallel()
	p, err := job.ParseUnique([]byte(`{"keys":["args"],"period":"PT1H","on_conflict":"ignore"}`), false)
	if err != nil {
		t.Fatal(err)
	}
	x := job.Explanation{Policy: p, Canonical: json.RawMessage("{\"args\":[\"<é\u009b\"],\"type\":\"a.b\"}"), Fingerprint: strings.Repeat("0a", 32), Answer: "created"}
	got, err := ReadExplanation(AppendExplanation(nil, x))
	if err != nil || !reflect.DeepEqual(got, x) {
		t.Errorf("got %+v, %v, want %+v", got, err, x)
	}
	x.Existing, x.Frees, x.Answer = keyed(job.Active), time.UnixMilli(1_700_003_600_123).UTC(), "ignored"
	got, err = ReadExplanation(AppendExplanation(nil, x))
	wantJob(t, got.Existing, x.Existing, err)
	if !got.Frees.Equal(x.Frees) || got.Answer != x.Answer {
		t.Errorf("got %+v, want %+v", got, x)
	}
}

func TestFreesWhen(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_123)
	all := job.SetOf(job.States...)
	for _, tt := range []struct {
		states job.StateSet
		state  job.State
		frees  time.Time
		want   string
	}{
		{job.SetOf(job.Active), job.Active, time.Time{}, "when it is no longer active"},
		{job.SetOf(job.Active, job.Available), job.Active, time.Time{}, "when it is no longer available or active"},
		{job.SetOf(job.Active, job.Completed), job.Active, at, "at 2023-11-14T22:13:20.123Z, or before that when it is no longer active or completed"},
		{job.SetOf(job.Completed), job.Completed, at, "at 2023-11-14T22:13:20.123Z"},
		{job.SetOf(job.Completed), job.Completed, time.Time{}, "never by itself, as a job that is completed stays so; release the key"},
		{all, job.Active, time.Time{}, "never by itself, as the policy counts a job in every state; release the key"},
	} {
		x := job.Explanation{Policy: job.UniquePolicy{States: tt.states}, Existing: aJob(tt.state), Frees: tt.frees}
		if got := freesWhen(x); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestClaimsAreReadBack(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_123).UTC()
	want := job.HeldKeys{Total: 3, AtLeast: true, Next: "7.x", Keys: []job.HeldKey{
		{Key: strings.Repeat("f0", 32), JobID: testID, Type: "a.b", Queue: "q", State: job.Active, Since: at, Until: at},
		{Key: strings.Repeat("f1", 32), JobID: testID, Type: "a.b", Queue: "q", State: job.Active, Since: at},
	}}
	got, err := ReadHeldKeys(AppendHeldKeys(nil, want, Paging{Limit: 2}))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestDedupOwnerIsReadBack(t *testing.T) {
	t.Parallel()
	for _, until := range []time.Time{{}, time.UnixMilli(1_700_000_000_123).UTC()} {
		want := keyed(job.Completed)
		want.DedupUntil = until
		got, err := ReadDedupOwner(AppendDedupOwner(nil, "q", "k:1", want, true))
		wantJob(t, got, want, err)
		if !got.DedupUntil.Equal(until) {
			t.Errorf("got %s, want %s", got.DedupUntil, until)
		}
	}
}

// Both spellings of an event name the same one.
func TestEventsWithAColon(t *testing.T) {
	t.Parallel()
	f, _, err := DecodeEventFilter(map[string][]string{"types": {"job:debounced,job.deduplicated"}, "type": {"job:*"}})
	if err != nil || !slices.Equal(f.Types, []string{"job.debounced", "job.deduplicated", "job.*"}) {
		t.Errorf("got %q, %v", f.Types, err)
	}
	for kind, want := range map[string]bool{"job.debounced": true, "job.deduplicated": true, "job.duplicated": true, "job.cancelled": false} {
		body := string(AppendEvent(nil, job.Event{Type: kind}))
		alias := `"alias_type":"` + strings.Replace(kind, ".", ":", 1) + `"`
		if got := strings.Contains(body, alias); got != want {
			t.Errorf("%s: %s", kind, body)
		}
	}
}
