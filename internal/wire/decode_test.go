package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

func TestDecodeBatchKeepsOrderAndBytes(t *testing.T) {
	cs, err := DecodeBatch([]byte(` {"ignored":1,"jobs":[ {"type":"a.b","args":[ 1e2 ]} ,{"type":"c.d","args":[9007199254740993],"queue":"q"}]} `))
	if err != nil || len(cs) != 2 {
		t.Fatalf("got %v, %v", cs, err)
	}
	if a, b := cs[0].Envelope(), cs[1].Envelope(); a.Type != "a.b" || string(a.Args) != "[ 1e2 ]" || b.Queue != "q" || string(b.Args) != "[9007199254740993]" {
		t.Errorf("got %+v", cs)
	}
}

func TestDecodeBatchAtTheLimit(t *testing.T) {
	body := func(n int) []byte {
		return []byte(`{"jobs":[` + strings.TrimSuffix(strings.Repeat(`{"type":"a.b","args":[]},`, n), ",") + `]}`)
	}
	if es, err := DecodeBatch(body(job.MaxBatch)); err != nil || len(es) != job.MaxBatch {
		t.Errorf("%d jobs: got %d, %v", job.MaxBatch, len(es), err)
	}
	if _, err := DecodeBatch(body(job.MaxBatch + 1)); job.KindOf(err) != job.TooLarge {
		t.Errorf("%d jobs: got %v", job.MaxBatch+1, err)
	}
}

func TestProfiles(t *testing.T) {
	for _, tt := range []struct {
		header  string
		want    Profile
		version string
		ok      bool
	}{
		{"", Bare, "1.0.0-rc.1", true}, {"1.0.0-rc.1", RC1, "1.0.0-rc.1", true}, {"1.0", V1, "1.0", true},
		{"1.0.0", V1, "1.0", true}, {"1", V1, "1.0", true}, {"2.0", Bare, "1.0.0-rc.1", false}, {"1.0.0-RC.1", Bare, "1.0.0-rc.1", false},
	} {
		p, err := ProfileOf(tt.header)
		if p != tt.want || p.Version() != tt.version || (err == nil) != tt.ok {
			t.Errorf("%q: got %d %s %v", tt.header, p, p.Version(), err)
		}
		if err != nil && job.KindOf(err) != job.Unsupported {
			t.Errorf("%q: got %v", tt.header, err)
		}
	}
}

// FuzzDecodePush: no body makes the decoder panic, and whatever it takes is
// shown again as valid JSON with the very bytes of args.
func FuzzDecodePush(f *testing.F) {
	for _, s := range []string{
		`{"type":"a.b","args":[1e2,9007199254740993,1.0,"\u00e9\ud83d\ude00"]}`,
		`{"type":"a.b","args":[],"options":{"queue":"q","priority":-5,"tags":["x"],"unknown":{"a":[]}},"meta":{"k":null},"extra":1}`,
		`{"specversion":"1.0.0-rc.1","type":"a.b","args":[{}],"scheduled_at":"2026-03-15T14:00:00+01:00","retry":{"max_attempts":0}}`,
		`{"type":"a.b","args":[ ],"delay":"PT5S","ttl_ms":5,"timeout":3,"options":{"metadata":{"a":1}}}`,
		`{"type":"a.b"`, `[]`, `null`, ``, `{"\u0074ype":"a.b","args":[]}`, `{"type":"a.b","args":[],"\ud800":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		given := bytes.Clone(raw)
		c, err := DecodePush(raw)
		if !bytes.Equal(raw, given) {
			t.Fatalf("the body was changed: %q", given)
		}
		if err != nil {
			if k := job.KindOf(err); k == job.Internal {
				t.Fatalf("%q: internal error %v", raw, err)
			}
			return
		}
		j, err := c.Push(time.UnixMilli(1e12))
		if err != nil {
			t.Fatalf("%q: decoded, but not pushed: %v", raw, err)
		}
		b := AppendJob(nil, j, Extras{Error: true, Previous: job.Pending, Revived: true})
		if !json.Valid(b) {
			t.Fatalf("%q: answer is not JSON: %s", raw, b)
		}
		shown := membersOf(t, membersOf(t, b)["job"])
		if string(shown["args"]) != string(j.Args) || !bytes.Contains(given, j.Args) {
			t.Fatalf("%q: args came as %q, are shown as %q", raw, j.Args, shown["args"])
		}
	})
}

// membersOf cuts an object; a name that comes twice is an error.
func membersOf(t *testing.T, object []byte) map[string]json.RawMessage {
	t.Helper()
	m := map[string]json.RawMessage{}
	err := job.Members(object, func(name string, v json.RawMessage) error {
		m[name] = v
		return nil
	})
	if err != nil {
		t.Fatalf("%v in %s", err, object)
	}
	return m
}

// FuzzDecodeWork: no body of a worker makes a decoder panic.
func FuzzDecodeWork(f *testing.F) {
	for _, s := range []string{
		`{"queues":["a"],"count":2,"worker_id":"w","visibility_timeout_ms":5}`,
		`{"job_id":"01970000-0000-7000-8000-000000000001","result":null,"error":{"message":"m","backtrace":"a\nb","details":1},"retry_after":"PT1S"}`,
		`{"worker_id":"w","active_jobs":["a"],"active_job_ids":["b"],"leases":{"a":"t"},"labels":{"a":1},"shutdown":true}`,
		`{"jobs":[{"type":"a.b","args":[]}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, e1 := DecodeFetch(raw)
		_, _, e2 := DecodeAck(raw, "")
		_, failure, e3 := DecodeNack(raw)
		_, e4 := DecodeBeat(raw)
		_, e5 := DecodeBatch(raw)
		e6 := DecodeRevive(raw)
		DecodeCancel(raw)
		for i, err := range []error{e1, e2, e3, e4, e5, e6} {
			if err != nil && job.KindOf(err) == job.Internal {
				t.Errorf("decoder %d on %q: internal error %v", i, raw, err)
			}
		}
		if e3 == nil && failure.Details != nil && failure.Details[0] != '{' {
			t.Errorf("details are no object: %s", failure.Details)
		}
	})
}
