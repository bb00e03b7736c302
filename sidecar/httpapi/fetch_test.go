package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// given notes what is given back to the service.
type given struct {
	claims   []job.Claim
	requeue  bool
	canceled bool // the context of the last call
}

func (g *given) note(f *fake) {
	g.requeue = true
	f.fail = func(ctx context.Context, c job.Claim, why job.Failure) (*job.Job, error) {
		g.claims = append(g.claims, c)
		g.requeue = g.requeue && why.Requeue
		g.canceled = ctx.Err() != nil
		return started(c.ID), nil
	}
}

func (g *given) check(t *testing.T) {
	t.Helper()
	want := []job.Claim{{ID: idOne, Token: "token-0001", Worker: "w1"}, {ID: idTwo, Token: "token-0002", Worker: "w1"}}
	if len(g.claims) != 2 || g.claims[0] != want[0] || g.claims[1] != want[1] || !g.requeue || g.canceled {
		t.Errorf("given back: %+v, want %+v", g, want)
	}
}

func fetchRequest(ctx context.Context) *http.Request {
	r := httptest.NewRequest("POST", fetchPath, strings.NewReader(`{"queues":["mail"],"count":2,"block_ms":20000}`))
	r.Host = "localhost"
	return r.WithContext(ctx)
}

// Jobs that were claimed for a caller who has gone go back at once.
func TestFetchGivesBackWhenCallerHasGone(t *testing.T) {
	f, g := world(), &given{}
	g.note(f)
	ctx, cancel := context.WithCancel(t.Context())
	f.fetch = func(ctx context.Context, r job.FetchRequest) ([]*job.Job, error) {
		cancel()
		<-ctx.Done()
		return []*job.Job{started(idOne), started(idTwo)}, nil
	}
	w := httptest.NewRecorder()
	New(f, quiet()).ServeHTTP(w, fetchRequest(ctx))
	g.check(t)
	if strings.Contains(w.Body.String(), "token") {
		t.Errorf("the answer still holds the jobs: %s", w.Body)
	}
}

type broken struct {
	*httptest.ResponseRecorder
	write, flush error
}

func (b broken) Write(p []byte) (int, error) {
	if b.write != nil {
		return 0, b.write
	}
	return b.ResponseRecorder.Write(p)
}

func (b broken) FlushError() error { return b.flush }

// Jobs whose answer could not be written go back too.
func TestFetchGivesBackWhenWriteFails(t *testing.T) {
	reset := errors.New("connection reset")
	for _, w := range []broken{{write: reset}, {flush: reset}} {
		f, g := world(), &given{}
		g.note(f)
		w.ResponseRecorder = httptest.NewRecorder()
		New(f, quiet()).ServeHTTP(w, fetchRequest(t.Context()))
		g.check(t)
	}
}

func TestFetchKeepsWhatWasDelivered(t *testing.T) {
	f, g := world(), &given{}
	g.note(f)
	w := broken{ResponseRecorder: httptest.NewRecorder()}
	New(f, quiet()).ServeHTTP(w, fetchRequest(t.Context()))
	if len(g.claims) != 0 || !strings.Contains(w.Body.String(), "token-0001") {
		t.Errorf("given back %v of what was delivered", g.claims)
	}
}

// A failing give-back is logged, and the next job still goes back.
func TestGiveBackGoesOn(t *testing.T) {
	o, log := logged()
	f := world()
	n := 0
	f.fail = func(context.Context, job.Claim, job.Failure) (*job.Job, error) {
		n++
		return nil, failures["e006"]
	}
	w := broken{ResponseRecorder: httptest.NewRecorder(), write: errors.New("reset")}
	New(f, o).ServeHTTP(w, fetchRequest(t.Context()))
	if n != 2 || strings.Count(log.String(), "could not be given back") != 2 {
		t.Errorf("%d calls, log %s", n, log)
	}
}

// Over a real connection, a caller that hangs up ends the wait of its FETCH.
func TestFetchNoticesHangUp(t *testing.T) {
	f := world()
	waiting, gone := make(chan struct{}), make(chan error, 1)
	f.fetch = func(ctx context.Context, r job.FetchRequest) ([]*job.Job, error) {
		close(waiting)
		select {
		case <-ctx.Done():
			gone <- nil
		case <-time.After(20 * time.Second):
			gone <- errors.New("the wait went on")
		}
		return nil, ctx.Err()
	}
	srv := listen(t, f)
	body := `{"queues":["mail"],"block_ms":20000}`
	_, c := dial(t, srv, "POST "+fetchPath+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 36\r\n\r\n"+body)
	<-waiting
	_ = c.Close() // that is the test
	if err := <-gone; err != nil {
		t.Error(err)
	}
}

// arrival is a request, and what the service is asked because of it.
type arrival struct {
	method, target, body string
	want                 any
}

func whole() []arrival {
	yes := true
	later := 90 * time.Second
	return []arrival{
		{"POST", fetchPath, `{"queues":["a","b"],"limit":1000,"worker_id":"w","visibility_timeout_ms":30000,"wait_ms":99999}`,
			job.FetchRequest{Queues: []string{"a", "b"}, Count: 100, Worker: "w", Visibility: 30 * time.Second, Wait: 20 * time.Second}},
		{"POST", fetchPath, `{"queues":["a"],"count":0,"max":7,"block_ms":-5}`, job.FetchRequest{Queues: []string{"a"}, Count: 1}},
		{"POST", ackPath, `{"id":"` + string(idOne) + `","worker_id":"w","lease_token":"t","result":1e2}`,
			[]any{job.Claim{ID: idOne, Token: "t", Worker: "w"}, json.RawMessage("1e2")}},
		{"POST", ackPath, `{"job_id":"` + string(idOne) + `","result":null}`, []any{job.Claim{ID: idOne}, json.RawMessage("null")}},
		{"POST", ackPath, `{"job_id":"` + string(idOne) + `"}`, []any{job.Claim{ID: idOne}, json.RawMessage(nil)}},
		{"POST", "/ojs/v1/jobs/" + string(idOne) + "/ack", `{"job_id":"` + string(idTwo) + `","lease_token":"t"}`,
			[]any{job.Claim{ID: idOne, Token: "t"}, json.RawMessage(nil)}},
		{"POST", nackPath, withJob(`"lease_token":"t","retry_after":90,"error":{"type":"T","message":"m","code":"c","retryable":true,"details":[1],"backtrace":"a\nb"}`),
			[]any{job.Claim{ID: idOne, Token: "t"}, job.Failure{Type: "T", Message: "m", Code: "c", Retryable: &yes,
				Details: json.RawMessage(`{"value":[1]}`), Backtrace: []string{"a", "b"}, RetryAfter: &later}}},
		{"POST", nackPath, withJob(`"requeue":true,"error":"whatever"`), []any{job.Claim{ID: idOne}, job.Failure{Requeue: true}}},
		{"DELETE", "/ojs/v1/jobs/" + string(idOne), `{"reason":"r","cancelled_by":"b"}`, []any{idOne, "b", "r"}},
		{"DELETE", "/ojs/v1/jobs/" + string(idOne), `not json`, []any{idOne, "", ""}},
		{"GET", "/ojs/v1/jobs?state=active,available&state=pending&queue=q&type=a.*&limit=500&offset=3&cursor=c&since=2026-03-15T12:00:00Z&until=2026-03-15T13:00:00+01:00", "",
			job.Filter{States: []job.State{job.Active, job.Available, job.Pending}, Queue: "q", Type: "a.*", Limit: 200, Offset: 3, Cursor: "c", Since: noon, Until: noon}},
		{"GET", "/ojs/v1/jobs?page=3&per_page=20", "", job.Filter{Limit: 20, Offset: 40}},
		{"GET", "/ojs/v1/dead-letter?error_type=E&limit=99999999999999999999", "", job.Filter{Dead: true, ErrorType: "E", Limit: 200}},
		{"GET", "/ojs/v1/events?type=job:started&types=job.*,cron.*&queue=q&queues=r&job_types=a.b&job_id=" + string(idOne) + "&after=42", "",
			job.EventFilter{Types: []string{"job.*", "cron.*", "job.started"}, Queues: []string{"r", "q"}, JobTypes: []string{"a.b"}, JobID: idOne, After: 42, Limit: 101}},
		{"GET", "/ojs/v1/events?limit=5000", "", job.EventFilter{Limit: 1000}},
	}
}

// What is decoded is what the service is asked.
func TestRequestsArriveWhole(t *testing.T) {
	var asked any
	f := world()
	f.fetch = func(_ context.Context, r job.FetchRequest) ([]*job.Job, error) { asked = r; return nil, nil }
	f.ack = func(_ context.Context, c job.Claim, result json.RawMessage) (*job.Job, error) {
		asked = []any{c, result}
		return started(c.ID), nil
	}
	f.fail = func(_ context.Context, c job.Claim, why job.Failure) (*job.Job, error) {
		asked = []any{c, why}
		return started(c.ID), nil
	}
	f.cancel = func(_ context.Context, id job.ID, by, reason string) (job.Change, error) {
		asked = []any{id, by, reason}
		return job.Change{Job: started(id)}, nil
	}
	f.jobs = func(_ context.Context, q job.Filter) (job.Page, error) { asked = q; return job.Page{}, nil }
	f.events = func(_ context.Context, q job.EventFilter) ([]job.Event, error) { asked = q; return nil, nil }
	h := New(f, quiet())
	for _, tt := range whole() {
		asked = nil
		w := serve(h, tt.method, tt.target, tt.body)
		got, want := dump(asked), dump(tt.want)
		if w.Code != 200 || got != want {
			t.Errorf("%s %s %s: %d\ngot  %s\nwant %s", tt.method, tt.target, tt.body, w.Code, got, want)
		}
	}
}

// dump writes a value out, pointers and times by what they say.
func dump(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return strings.NewReplacer("+01:00", "Z", "13:00:00", "12:00:00").Replace(string(b))
}

func TestBeatArrivesWhole(t *testing.T) {
	var got job.Beat
	f := world()
	f.beat = func(_ context.Context, b job.Beat) (job.BeatReply, error) { got = b; return job.BeatReply{}, nil }
	h := New(f, quiet())
	one, two := job.Claim{ID: idOne, Worker: "w"}, job.Claim{ID: idTwo, Token: "t", Worker: "w"}
	for _, tt := range []struct {
		body string
		want job.Beat
	}{
		{`"active_jobs":["` + string(idOne) + `"]`, job.Beat{Jobs: []job.Claim{one}, Worker: job.WorkerInfo{Active: 1}}},
		{`"active_jobs":3,"active_job_ids":["` + string(idOne) + `"]`, job.Beat{Jobs: []job.Claim{one}, Worker: job.WorkerInfo{Active: 3}}},
		{`"active_jobs":2,"state":"drain"`, job.Beat{Worker: job.WorkerInfo{Active: 2, State: "drain"}}},
		{`"state":"running","shutdown":true`, job.Beat{Worker: job.WorkerInfo{State: "terminate"}}},
		{`"shutdown":true,"state":"running"`, job.Beat{Worker: job.WorkerInfo{State: "terminate"}}},
		{`"job_id":"` + string(idOne) + `","leases":{"` + string(idTwo) + `":"t"},"active_jobs":["` + string(idTwo) + `"],"visibility_timeout_ms":5000`,
			job.Beat{Jobs: []job.Claim{one, two}, Worker: job.WorkerInfo{Active: 2}, Visibility: 5 * time.Second}},
		{`"hostname":"h","pid":7,"queues":["q"],"concurrency":4,"labels":{"a":"b","n":1},"version":"v","started_at":"2026-03-15T12:00:00Z"`,
			job.Beat{Worker: job.WorkerInfo{Hostname: "h", PID: 7, Queues: []string{"q"}, Concurrency: 4, Labels: map[string]string{"a": "b", "n": "1"}, Version: "v", StartedAt: noon}}},
		{`"labels":["gpu"],"pid":null`, job.Beat{Worker: job.WorkerInfo{LabelList: []string{"gpu"}}}},
	} {
		tt.want.Worker.ID = "w"
		w := serve(h, "POST", beatPath, `{"worker_id":"w",`+tt.body+`}`)
		if w.Code != 200 || dump(got) != dump(tt.want) {
			t.Errorf("%s: %d\ngot  %s\nwant %s", tt.body, w.Code, dump(got), dump(tt.want))
		}
	}
}

// refusing is a service that can refuse stored ids in its own transaction.
type refusing struct {
	*fake
	asked int
}

func (r *refusing) EnqueueNew(_ context.Context, es ...job.Checked) ([]job.Receipt, error) {
	r.asked = len(es)
	e := job.Errorf(job.Duplicate, "job %s exists already", idTwo)
	e.Details = map[string]any{"existing_job_id": string(idTwo), "index": 1}
	return nil, e
}

// A service with EnqueueNew is asked by that, and its word about one element of a batch is passed on.
func TestEnqueueNew(t *testing.T) {
	svc := &refusing{fake: world()}
	w := serve(New(svc, quiet()), "POST", batchPath, `{"jobs":[{"type":"a.b","args":[]},{"type":"a.b","args":[],"id":"`+string(idTwo)+`"}]}`)
	e := failureOf(t, w.Body)
	if w.Code != 409 || e.Code != "duplicate" || e.Details["index"] != 1.0 || !strings.HasPrefix(e.Message, "jobs[1]: ") {
		t.Errorf("got %d %+v", w.Code, e)
	}
	if svc.asked != 2 || svc.calls.Load() != 0 {
		t.Errorf("EnqueueNew had %d envelopes, other methods %d calls", svc.asked, svc.calls.Load())
	}
}
