package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

const nextBody = `{"queues":["mail"],"count":2,"block_ms":20000,"acks":[{"job_id":"01970000-0000-7000-8000-00000000beef"}]}`

// Jobs whose caller has gone, or whose answer could not be written, go back as those of a
// FETCH do. The ACKs before them stay what they are.
func TestNextGivesBackAndItsAcksStay(t *testing.T) {
	reset := errors.New("connection reset")
	for name, w := range map[string]*broken{"gone": {}, "not written": {write: reset}, "not flushed": {flush: reset}} {
		t.Run(name, func(t *testing.T) {
			f, g := world(), &given{}
			g.note(f)
			var acked []job.ID
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			f.next = func(_ context.Context, acks []job.AckRequest, _ job.FetchRequest) ([]job.Acked, []*job.Job, error) {
				for _, a := range acks {
					acked = append(acked, a.ID)
				}
				if name == "gone" {
					leave()
				}
				return make([]job.Acked, len(acks)), []*job.Job{started(idOne), started(idTwo)}, nil
			}
			w.ResponseRecorder = httptest.NewRecorder()
			r := httptest.NewRequest("POST", nextPath, strings.NewReader(nextBody))
			r.Host = "localhost"
			New(f, quiet()).ServeHTTP(w, r.WithContext(ctx))
			g.check(t)
			if len(acked) != 1 || len(g.claims) != 2 {
				t.Errorf("acked %v, given back %v", acked, g.claims)
			}
		})
	}
}

// What is decoded of many ACKs is what the service is asked.
func TestManyAcksArriveWhole(t *testing.T) {
	var asked []any
	f := world()
	f.next = func(_ context.Context, acks []job.AckRequest, r job.FetchRequest) ([]job.Acked, []*job.Job, error) {
		if r.Room == nil {
			t.Error("there is no bound for its jobs")
		}
		r.Room = nil
		asked = append(asked, acks, r)
		return make([]job.Acked, len(acks)), nil, nil
	}
	f.ack = func(_ context.Context, c job.Claim, result json.RawMessage) (*job.Job, error) {
		asked = append(asked, job.AckRequest{Claim: c, Result: result})
		return started(c.ID), nil
	}
	h := New(f, quiet())
	one := job.AckRequest{Claim: job.Claim{ID: idOne, Token: "t", Worker: "w"}, Result: json.RawMessage("1e2")}
	two := job.AckRequest{Claim: job.Claim{ID: idTwo}, Result: json.RawMessage("null")}
	none := job.AckRequest{Claim: job.Claim{ID: idOne}}
	acks := fmt.Sprintf(`"acks":[{"id":%[1]q,"lease_token":"t","worker_id":"w","result":1e2,"x":[]},7,{"job_id":%[2]q,"result":null,"lease_token":null},{"job_id":%[1]q}]`, idOne, idTwo)
	for _, tt := range []struct {
		path, body string
		want       []any
	}{
		{ackPath, `{` + acks + `}`, []any{one, two, none}},
		{nextPath, `{"queues":["a"],"limit":1000,"worker_id":"w","visibility_timeout_ms":30000,"wait_ms":99999,` + acks + `}`,
			[]any{[]job.AckRequest{one, two, none}, job.FetchRequest{Queues: []string{"a"}, Count: 100, Worker: "w", Visibility: 30 * time.Second, Wait: 20 * time.Second}}},
		{nextPath, `{"queues":["a"],"acks":null}`, []any{[]job.AckRequest(nil), job.FetchRequest{Queues: []string{"a"}, Count: 1}}},
		{nextPath, `{"queues":["a"],"acks":[]}`, []any{[]job.AckRequest(nil), job.FetchRequest{Queues: []string{"a"}, Count: 1}}},
	} {
		asked = nil
		w := serve(h, "POST", tt.path, tt.body)
		if got, want := dump(asked), dump(tt.want); w.Code != 200 || got != want {
			t.Errorf("%s %s: %d\ngot  %s\nwant %s", tt.path, tt.body, w.Code, got, want)
		}
	}
}

// One ACK of many may be as large as one alone, and no larger.
func TestLargestOfManyAcks(t *testing.T) {
	element := func(n int) string {
		empty := `{"job_id":"` + string(idOne) + `","result":""}`
		return empty[:len(empty)-2] + strings.Repeat("x", n-len(empty)) + `"}`
	}
	w := serve(New(world(), quiet()), "POST", ackPath, `{"acks":[`+element(wire.MaxEndBytes+1)+`,{"job_id":"`+string(idTwo)+`"}]}`)
	acked, err := wire.ReadAcked(w.Body.Bytes(), 2)
	if w.Code != 200 || err != nil || job.KindOf(acked[0].Err) != job.TooLarge || acked[1].Err != nil {
		t.Errorf("got %d, %v, %v", w.Code, acked, err)
	}
	w = serve(New(world(), quiet()), "POST", ackPath, `{"acks":[`+element(job.MaxResultBytes)+`]}`)
	if acked, err = wire.ReadAcked(w.Body.Bytes(), 1); w.Code != 200 || err != nil || acked[0].Err != nil {
		t.Errorf("got %d, %v, %v", w.Code, acked, err)
	}
}

// What the server cannot answer is in its log, with the id of the request, also where it is
// one of many.
func TestVerdictsAreLogged(t *testing.T) {
	o, log := logged()
	h := New(world(), o)
	for _, path := range []string{ackPath, nextPath} {
		log.Reset()
		body := `{"queues":["mail"],"acks":[{"job_id":"01970000-0000-7000-8000-00000000e007"},{"job_id":"01970000-0000-7000-8000-00000000e002"},{"job_id":"` + string(idOne) + `"}]}`
		if path == ackPath {
			body = strings.Replace(body, `"queues":["mail"],`, "", 1)
		}
		w := serve(h, "POST", path, body)
		if w.Code != 200 || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("POST %s: %d %s", path, w.Code, w.Body)
		}
		if text := log.String(); strings.Count(text, "request failed") != 1 || !strings.Contains(text, "/secret/path") || !strings.Contains(text, "req_test") {
			t.Errorf("POST %s: the log has %s", path, text)
		}
	}
	f := world()
	f.next = func(context.Context, []job.AckRequest, job.FetchRequest) ([]job.Acked, []*job.Job, error) {
		return make([]job.Acked, 1), nil, failures["e007"]
	}
	log.Reset()
	if w := serve(New(f, o), "POST", nextPath, nextBody); w.Code != 200 || strings.Count(log.String(), "/secret/path") == 0 {
		t.Errorf("%d, the log has %s", w.Code, log)
	}
}
