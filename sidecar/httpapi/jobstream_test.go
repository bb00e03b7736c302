package httpapi

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// living is a server with one job, which a test leads through its life.
func living(t *testing.T) (s *streaming, do func(func(*job.Job) error)) {
	var mu sync.Mutex
	j := started(idOne)
	s = newStreaming(t, func(a *api) {
		f := a.svc.(*fake)
		f.job = func(_ context.Context, id job.ID) (*job.Job, error) {
			mu.Lock()
			defer mu.Unlock()
			if id != idOne {
				return nil, job.Errorf(job.NotFound, "there is no job %q", id)
			}
			return j.Clone(), nil
		}
	})
	do = func(what func(*job.Job) error) {
		t.Helper()
		mu.Lock()
		if err := what(j); err != nil {
			t.Error(err)
		}
		es := j.TakeEvents()
		mu.Unlock()
		s.add(es...)
	}
	do(func(*job.Job) error { return nil })
	return s, do
}

func report(share float64, message string) func(*job.Job) error {
	return func(j *job.Job) error {
		_, err := j.Report(noon.Add(time.Duration(share*1000)*time.Millisecond), job.Claim{ID: idOne}, job.Report{Fraction: &share, Message: &message, Data: []byte("{\"rows\":\n1e2}")})
		return err
	}
}

func completed(j *job.Job) error { return j.Complete(noon, job.Claim{ID: idOne}, nil) }

// The stream of a job tells its events and changes of state, and ends with it. Who comes
// behind the end is told of it once, and not again.
func TestTheStreamOfAJob(t *testing.T) {
	s, do := living(t)
	path := "/jobs/" + string(idOne) + "/events"
	r, only := s.open(path, ""), s.open(path+"?event_types=job.failed", "")
	s.add(job.Event{Type: "job.enqueued", JobID: idTwo, Queue: "mail", Data: []byte(`{"state":"available"}`)}) // of another
	do(report(0.5, "half"))
	do(completed)
	s.add(some(1, "mail")...)
	kinds := ""
	for text := r.next(); text != ""; text = r.next() {
		for line := range strings.Lines(text) {
			if kind, ok := strings.CutPrefix(line, "event: "); ok {
				kinds += kind
			}
		}
		if !strings.Contains(text, `"type":"mail.send"`) {
			t.Errorf("no type of the job in %s", text)
		}
	}
	if kinds != "job.progress\njob.state_changed\njob.completed\n" {
		t.Errorf("told %q", kinds)
	}
	if rest, _ := io.ReadAll(only.lines); len(rest) != 0 {
		t.Errorf("with a filter: %q", rest)
	}
	late, _ := io.ReadAll(s.open(path, "").lines)
	if text := string(late); strings.Count(text, "data: ") != 1 || !strings.Contains(text, "event: job.completed\n") {
		t.Errorf("behind its end: %q", text)
	}
	end := s.behind(job.EventFilter{Types: []string{"job.completed"}, Limit: 1})[0]
	before, _ := io.ReadAll(s.open(path, wire.EventID(job.Event{Seq: end.Seq - 1, Time: noon})).lines)
	if text := string(before); strings.Count(text, "id: ") != 1 || !strings.Contains(text, "event: job.completed\n") {
		t.Errorf("in front of its end: %q", text)
	}
	if again := s.open(path, wire.EventID(end)); again.StatusCode != http.StatusNoContent {
		t.Errorf("again behind its end: %d", again.StatusCode)
	}
	s.first = end.Seq + 1 // the end is not kept any more
	pruned, _ := io.ReadAll(s.open(path, "").lines)
	if text := string(pruned); strings.Count(text, "data: ") != 1 || !strings.Contains(text, `"event":"job.completed","type":"mail.send","job_id":"`+string(idOne)) {
		t.Errorf("without its events: %q", text)
	}
	if again := s.open(path, "1"); again.StatusCode != http.StatusNoContent {
		t.Errorf("without its events, and asked again: %d", again.StatusCode)
	}
	if unknown := s.open("/jobs/"+string(idTwo)+"/events", ""); unknown.StatusCode != 404 {
		t.Errorf("of a job that is not there: %d", unknown.StatusCode)
	}
}

// Progress comes twice, under its name and without one, and ends with the job.
func TestTheStreamOfProgress(t *testing.T) {
	s, do := living(t)
	do(report(0.25, "a quarter"))
	path := "/jobs/" + string(idOne) + "/progress/stream"
	r := s.open(path, "")
	twice := func(want string) {
		t.Helper()
		named, plain := r.next(), r.next()
		_, data, _ := strings.Cut(named, "data: ")
		if !strings.Contains(named, "event: progress\n") || plain != "data: "+data || !strings.Contains(data, want) || !strings.Contains(data, `"data":{"rows": 1e2}`) {
			t.Errorf("got %q and %q, want %s", named, plain, want)
		}
	}
	twice(`"state":"active","progress":0.25,"message":"a quarter"`)
	do(report(0.5, "half"))
	twice(`"state":"active","progress":0.5,"message":"half"`)
	do(report(0.75, "more"))
	twice(`"progress":0.75`)
	do(completed)
	if end := r.next(); !strings.Contains(end, "event: completed\n") || !strings.Contains(end, `"state":"completed","progress":0.75`) {
		t.Errorf("at the end: %q", end)
	}
	if rest, _ := io.ReadAll(r.lines); len(rest) != 0 {
		t.Errorf("behind the end: %q", rest)
	}
	late := s.open(path, "")
	r = late
	twice(`"progress":0.75`)
	if end := late.next(); !strings.Contains(end, "event: completed\n") {
		t.Errorf("of a job that has ended: %q", end)
	}
	last := s.span().Last
	if again := s.open(path, wire.EventID(job.Event{Seq: last, Time: noon})); again.StatusCode != http.StatusNoContent {
		t.Errorf("again: %d", again.StatusCode)
	}
}

// A job that was discarded has failed, and one that was cancelled is told so.
func TestProgressEndsAsTheJobDoes(t *testing.T) {
	for word, end := range map[string]func(*job.Job) error{
		"failed": func(j *job.Job) error {
			no := false
			return j.Fail(noon, job.Claim{ID: idOne}, job.Failure{Type: "E", Message: "m", Retryable: &no}, 0)
		},
		"cancelled": func(j *job.Job) error { return j.Cancel(noon, "ada", "") },
	} {
		s, do := living(t)
		r := s.open("/jobs/"+string(idOne)+"/progress/stream", "")
		do(end)
		text, _ := io.ReadAll(r.lines)
		if !strings.Contains(string(text), "event: "+word+"\n") {
			t.Errorf("%s: %q", word, text)
		}
	}
}
