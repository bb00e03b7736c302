package wire

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/job"
)

// What one end writes the other must read back as the same value.

const testID = job.ID("019539a4-b68c-7def-8000-1a2b3c4d5e6f")

func drawText(t *rapid.T, label string) string { return rapid.StringN(0, 20, 200).Draw(t, label) }

func drawMillis(t *rapid.T, label string, most int64) time.Duration {
	return time.Duration(rapid.Int64Range(0, most).Draw(t, label)) * time.Millisecond
}

func drawRaw(t *rapid.T, label string) json.RawMessage {
	return json.RawMessage(rapid.SampledFrom([]string{"null", `{ "a": "<é>" }`, "1e2", `"x"`, "[1 ,2]", "9007199254740993"}).Draw(t, label))
}

func drawClaim(t *rapid.T) job.Claim {
	return job.Claim{ID: testID, Token: drawText(t, "token"), Worker: drawText(t, "worker")}
}

func TestFetchBody(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := job.FetchRequest{
			Queues:     rapid.SliceOfN(rapid.StringN(1, 9, 99), 1, 3).Draw(t, "queues"),
			Count:      rapid.IntRange(1, MaxFetch).Draw(t, "count"),
			Worker:     drawText(t, "worker"),
			Visibility: drawMillis(t, "visibility", 1e9),
			Wait:       drawMillis(t, "wait", MaxWait.Milliseconds()),
		}
		if rapid.Bool().Draw(t, "some versions") {
			var err error
			if want.Versions, err = job.NewVersions(map[string][]any{"a.b": {rapid.Int().Draw(t, "version"), "2", nil}, "c.d": {}}); err != nil {
				t.Fatal(err)
			}
		}
		body := FetchBody(want)
		got, err := DecodeFetch(body)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: got %+v, %v, want %+v", body, got, err, want)
		}
	})
}

func TestAckBody(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want, result := drawClaim(t), drawRaw(t, "result")
		if rapid.Bool().Draw(t, "none") {
			result = nil
		}
		body := AckBody(want, result)
		got, raw, err := DecodeAck(body, "")
		if err != nil || got != want || string(raw) != string(result) || (raw == nil) != (result == nil) {
			t.Fatalf("%s: got %+v %s, %v, want %+v %s", body, got, raw, err, want, result)
		}
	})
}

func TestNackBody(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		claim := drawClaim(t)
		want := job.Failure{Type: drawText(t, "type"), Message: drawText(t, "message"), Code: drawText(t, "code")}
		if rapid.Bool().Draw(t, "retryable") {
			b := rapid.Bool().Draw(t, "is")
			want.Retryable = &b
		}
		if rapid.Bool().Draw(t, "details") {
			want.Details = json.RawMessage(`{ "d": 1e2 }`)
		}
		if rapid.Bool().Draw(t, "backtrace") {
			want.Backtrace = rapid.SliceOfN(rapid.String(), 1, 3).Draw(t, "frames")
		}
		if rapid.Bool().Draw(t, "after") {
			d := drawMillis(t, "delay", 1e6)
			want.RetryAfter = &d
		}
		if rapid.IntRange(0, 9).Draw(t, "requeue") == 0 {
			if want.Requeue = true; want.Type == "" && want.Message == "" && want.Code == "" {
				want = job.Failure{Requeue: true}
			}
		}
		if rapid.Bool().Draw(t, "extra") {
			want.Extra = json.RawMessage(rapid.SampledFrom([]string{`{"cause":{"stack":[ ]},"":null}`, `{"Type":1e2}`}).Draw(t, "further"))
			if want.Requeue {
				want.Extra = nil
			}
		}
		body := NackBody(claim, want)
		if (!want.Requeue || want.Message != "") && want.Type == "" && want.Code == "" {
			want.Type = want.ErrorType() // what it would be recorded as (contract §2.7)
		}
		c, got, err := DecodeNack(body)
		if err != nil || c != claim || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: got %+v %+v, %v, want %+v %+v", body, c, got, err, claim, want)
		}
	})
}

// A delay is rounded up on its way over the wire.
func TestNackBodyIsNeverEarly(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]time.Duration{0: 0, 1: time.Millisecond, 1500 * time.Microsecond: 2 * time.Millisecond, -time.Second: 0, math.MaxInt64: job.MaxDuration} {
		_, got, err := DecodeNack(NackBody(job.Claim{ID: testID}, job.Failure{Message: "no", RetryAfter: &d}))
		if err != nil || *got.RetryAfter != want {
			t.Errorf("%s comes over as %v, %v, want %s", d, got.RetryAfter, err, want)
		}
	}
	for raw, want := range map[string]time.Duration{"0.0011": 2 * time.Millisecond, "0.07": 70 * time.Millisecond, "1.1": 1100 * time.Millisecond, "0": 0, "1e-9": time.Millisecond} {
		_, got, err := DecodeNack([]byte(`{"job_id":"` + string(testID) + `","retry_after":` + raw + `,"error":{"message":"no","type":"E"}}`))
		if err != nil || *got.RetryAfter != want {
			t.Errorf("%s is read as %v, %v, want %s", raw, got.RetryAfter, err, want)
		}
	}
}

func TestBeatBody(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := job.WorkerInfo{ID: rapid.StringN(1, 20, 200).Draw(t, "id"), Hostname: drawText(t, "host"), PID: rapid.IntRange(0, 1<<20).Draw(t, "pid"),
			Concurrency: rapid.IntRange(0, 99).Draw(t, "concurrency"), Version: drawText(t, "version"), State: drawText(t, "state")}
		if rapid.Bool().Draw(t, "more") {
			w.Queues = rapid.SliceOfN(rapid.StringN(1, 9, 99), 1, 3).Draw(t, "queues")
			w.Labels = rapid.MapOfN(rapid.String(), rapid.StringN(0, 9, 99), 1, 3).Draw(t, "labels")
			w.StartedAt = time.UnixMilli(rapid.Int64Range(1, 4e12).Draw(t, "started")).UTC()
		}
		want := job.Beat{Worker: w, Visibility: drawMillis(t, "visibility", 1e9)}
		for i, token := range rapid.SliceOfN(rapid.StringN(0, 9, 99), 0, 3).Draw(t, "tokens") {
			id := []job.ID{testID, "019539a4-b68c-7def-8000-1a2b3c4d5e70", "019539a4-b68c-7def-8000-1a2b3c4d5e71"}[i]
			want.Jobs = append(want.Jobs, job.Claim{ID: id, Token: token, Worker: w.ID})
		}
		want.Worker.Active = len(want.Jobs)
		body := BeatBody(want)
		got, err := DecodeBeat(body)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: got %+v, %v, want %+v", body, got, err, want)
		}
	})
}

func TestCancelBody(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		by, reason := drawText(t, "by"), drawText(t, "reason")
		if b, r := DecodeCancel(CancelBody(by, reason)); b != by || r != reason {
			t.Fatalf("got %q %q, want %q %q", b, r, by, reason)
		}
	})
}

func TestPushAndBatchBody(t *testing.T) {
	t.Parallel()
	es := []job.Envelope{{ID: testID, Type: "a.b", Args: json.RawMessage("[ 1 ]"), Queue: "q", Priority: 3}, {Type: "a.c", Args: json.RawMessage("[]")}}
	cs := make([]job.Checked, len(es))
	for i := range es {
		var err error
		if cs[i], err = es[i].Check(); err != nil {
			t.Fatal(err)
		}
	}
	got, err := DecodeBatch(BatchBody(cs))
	if err != nil || len(got) != 2 {
		t.Fatalf("got %+v, %v", got, err)
	}
	one, err := DecodePush(PushBody(&cs[0]))
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]job.Envelope{{got[0].Envelope(), cs[0].Envelope()}, {got[1].Envelope(), cs[1].Envelope()}, {one.Envelope(), cs[0].Envelope()}} {
		if g, w := pair[0], pair[1]; g.ID != w.ID || g.Type != w.Type || g.Queue != w.Queue || g.Priority != w.Priority || string(g.Args) != string(w.Args) {
			t.Errorf("got %+v, want %+v", g, w)
		}
	}
}

func TestQueries(t *testing.T) {
	t.Parallel()
	since, until := time.UnixMilli(1e12).UTC(), time.UnixMilli(2e12).UTC()
	f := job.Filter{States: []job.State{job.Active, job.Pending}, Queue: "q", Type: "a.*", Since: since, Until: until, Limit: 7, Offset: 3, Cursor: "c&d"}
	if got, _, err := DecodeFilter(JobsQuery(f)); err != nil || !reflect.DeepEqual(got, f) {
		t.Errorf("got %+v, %v, want %+v", got, err, f)
	}
	d := job.Filter{Dead: true, Queue: "q", ErrorType: "x.y", Limit: 7}
	if got, _, err := DecodeDeadFilter(JobsQuery(d)); err != nil || !reflect.DeepEqual(got, d) {
		t.Errorf("got %+v, %v, want %+v", got, err, d)
	}
	e := job.EventFilter{Types: []string{"job.*", "b"}, Queues: []string{"q"}, JobTypes: []string{"a.b"}, JobID: testID, After: 42, Since: since, Until: until, Limit: EventsMax}
	if got, _, err := DecodeEventFilter(EventsQuery(e)); err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("got %+v, %v, want %+v", got, err, e)
	}
}
