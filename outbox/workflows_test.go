package outbox_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

// flowServer also runs workflows, or says that it cannot now.
type flowServer struct {
	*server
	specs map[job.ID]job.WorkflowSpec
	calls int
	busy  error
}

func (s *flowServer) StartWorkflow(ctx context.Context, spec job.WorkflowSpec) (*job.Workflow, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, said := job.BlockOf(ctx); d != 0 || !said {
		return nil, false, job.Errorf(job.Internal, "it would wait for room, and with it the rows for other queues")
	}
	if s.calls++; s.busy != nil {
		return nil, false, s.busy
	}
	_, existing := s.specs[spec.ID]
	s.specs[spec.ID] = spec
	return &job.Workflow{ID: spec.ID}, existing, nil
}

// A row is a workflow where its options say so. It has the row's id, so that it starts
// once however often it is sent; what can be none is parked, and says why.
func TestARowIsAWorkflow(t *testing.T) {
	const id = "01980000-0000-7000-8000-000000000001"
	w := newWorld(t)
	s := &flowServer{server: w.server, specs: map[job.ID]job.WorkflowSpec{}}
	w.exec(`INSERT INTO ojs_outbox (job_id, job_type, job_args, job_options) VALUES (?, 'order.fulfil', '[]',
		'{"workflow":{"type":"chain","steps":[{"type":"order.charge","args":[42]},{"type":"order.ship"}]}}')`, id)
	w.exec(`INSERT INTO ojs_outbox (job_type, job_args, job_options) VALUES ('n', '[]', '{"workflow":{"name":"own","steps":[{"id":"a","type":"a.b"}]}}')`)
	w.mail(1)
	w.exec(`INSERT INTO ojs_outbox (job_type, job_args, job_options) VALUES ('bad.one', '[]',
		'{"workflow":{"steps":[{"id":"charge","type":"a.b"},{"id":"ship","type":"c.d","depends_on":["chrage"]}]}}'), ('bad.two', '[1]', '{"workflow":{"type":"chain","steps":[{"type":"a.b"}]}}')`)
	s.busy = job.Errorf(job.Unavailable, "not now")
	r := outbox.NewRelay(w.relayDB, w.d, s, outbox.RelayOptions{Owner: "the job server", Keep: time.Hour, Log: new(journal).log()})
	if _, err := r.Step(t.Context()); job.KindOf(err) != job.Unavailable || w.count("pending") != 5 {
		t.Fatalf("a server that cannot now: %v, %d pending", err, w.count("pending"))
	}
	s.busy = nil
	if _, err := r.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, _, _ := w.server.sizes(); n != 1 || len(s.specs) != 2 || w.count("parked") != 2 || w.count("pending") != 0 {
		t.Fatalf("%d jobs, %d workflows, %d parked, %d pending", n, len(s.specs), w.count("parked"), w.count("pending"))
	}
	if got := s.specs[id]; got.Kind != job.KindChain || got.Name != "order.fulfil" || len(got.Steps) != 2 {
		t.Errorf("got %+v", got)
	}
	for other, spec := range s.specs {
		if other != id && (spec.Name != "own" || spec.Kind != job.KindGraph) {
			t.Errorf("got %+v", spec)
		}
	}
	for typ, want := range map[string]string{"bad.one": `did you mean "charge"?`, "bad.two": "job_args must be []"} {
		if got := w.text(`SELECT error FROM ojs_outbox WHERE job_type = ?`, typ); !strings.Contains(got, want) {
			t.Errorf("%s: %s", typ, got)
		}
	}
	w.exec(`UPDATE ojs_outbox SET status = 'pending' WHERE job_type IN ('order.fulfil', 'n')`)
	if _, err := r.Step(t.Context()); err != nil || len(s.specs) != 2 || w.count("pending") != 0 {
		t.Errorf("sent again: %v, %d workflows", err, len(s.specs))
	}
	// A job server without workflows takes none of them.
	w = newWorld(t)
	w.exec(`INSERT INTO ojs_outbox (job_type, job_args, job_options) VALUES ('n', '[]', '{"workflow":{"steps":[{"id":"a","type":"a.b"}]}}')`)
	r = outbox.NewRelay(w.relayDB, w.d, w.server, outbox.RelayOptions{Owner: "the job server", Keep: time.Hour, Log: new(journal).log()})
	if _, err := r.Step(t.Context()); err != nil || w.count("parked") != 1 {
		t.Errorf("%v, %d parked", err, w.count("parked"))
	}
}

// A tick of a schedule of workflows is a row that is one, and only one server writes it.
func TestATickIsAWorkflow(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		spec, err := job.ParseWorkflow([]byte(`{"type":"batch","name":"n","jobs":[{"type":"a.b","args":[1e2]},{"type":"chain","steps":[{"type":"c.d"}]}],"callbacks":{"on_failure":{"type":"e.f"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		of := func(id job.ID) job.Tick {
			own := spec
			own.ID = id
			return job.Tick{Name: "month-end", At: minute(0), Overlap: job.OverlapSkip, Flow: &own}
		}
		first, second := of("01980000-0000-7000-8000-000000000001"), of("01980000-0000-7000-8000-000000000002")
		fire(t, outbox.NewTicks(w.again(), w.d), nil, "", first)
		fire(t, outbox.NewTicks(w.again(), w.d), nil, job.SkippedElsewhere, second)
		fire(t, outbox.NewTicks(w.again(), w.d), nil, "", first) // its answer was lost
		s := &flowServer{server: w.server, specs: map[job.ID]job.WorkflowSpec{}}
		r := outbox.NewRelay(w.relayDB, w.d, s, outbox.RelayOptions{Owner: "the job server", Keep: time.Hour, Log: new(journal).log()})
		if _, err := r.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := s.specs[first.Flow.ID]
		if want := string(first.Flow.AppendBody(nil)); len(s.specs) != 1 || string(got.AppendBody(nil)) != want {
			t.Errorf("%d workflows, got %s, want %s", len(s.specs), got.AppendBody(nil), want)
		}
		later := of("01980000-0000-7000-8000-000000000003")
		later.At = later.At.Add(time.Minute)
		fire(t, outbox.NewTicks(w.again(), w.d), func(id job.ID) (bool, error) { return id == first.Flow.ID, nil }, job.SkippedOverlap, later)
	})
}
