package servicetest

import (
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var directing = []verdict{
	{"an operator's directive is what a worker is told, and it gets no jobs", operatorDirects},
	{"an operator's directive beats what a worker says of itself", operatorBeatsWorker},
	{"a state that only echoes a directive which was taken back is running", echoes},
	{"an operator directs all workers at once", operatorDirectsAll},
	{"a worker that waits gets no job once it was told, and who waits behind it does", toldWhileWaiting},
	{"a directive that is none, or to nobody, is refused", directionsRefused},
	{"that a worker was told to be quiet is told once", quietTold},
}

// direct tells a worker something.
func (k *kit) direct(id, wish string) job.WorkerInfo {
	k.t.Helper()
	w, err := k.s.Direct(k.ctx(), id, wish)
	if err != nil {
		k.t.Fatalf("%s for %s: %v", wish, id, err)
	}
	return w
}

// answered beats with a state, and compares the directive that comes back.
func (k *kit) answered(when, id, state, want string) {
	k.t.Helper()
	if r := k.beat(job.Beat{Worker: job.WorkerInfo{ID: id, State: state}}); r.Directive != want {
		k.t.Errorf("%s: a worker that is %q gets %q, want %q", when, state, r.Directive, want)
	}
}

// fetches compares whether a worker gets the one job that is there, and puts it back.
func (k *kit) fetches(when, id string, want bool) {
	k.t.Helper()
	got := k.fetch(job.FetchRequest{Worker: id})
	if (len(got) > 0) != want {
		k.t.Errorf("%s: it gets %d jobs", when, len(got))
	}
	for _, j := range got {
		k.fail(j, job.Failure{Requeue: true})
	}
}

func operatorDirects(k *kit) {
	k.push(nil)
	k.beat(job.Beat{Worker: job.WorkerInfo{ID: "w/1 é?", Hostname: "host"}})
	for _, wish := range []string{job.Quiet, job.Terminate, job.Quiet} {
		w := k.direct("w/1 é?", wish)
		if w.Directive != wish || w.Hostname != "host" {
			k.t.Errorf("told to %s: %+v", wish, w)
		}
		if one, err := k.s.Worker(k.ctx(), w.ID); err != nil || one.Directive != wish {
			k.t.Errorf("shown: %+v, %v", one, err)
		}
		if all, err := k.s.Workers(k.ctx()); err != nil || len(all) != 1 || all[0].Directive != wish {
			k.t.Errorf("listed: %+v, %v", all, err)
		}
		k.fetches("told to "+wish+", and has not heard of it", w.ID, false)
		k.answered("told to "+wish, w.ID, "running", wish)
		k.answered("told again", w.ID, "", wish)
		k.fetches("told to "+wish, w.ID, false)
		k.fetches("another worker", "w2", true)
	}
	if w := k.direct("w/1 é?", job.Resume); w.Directive != "" {
		k.t.Errorf("resumed: %+v", w)
	}
	k.fetches("resumed", "w/1 é?", true)
	k.answered("resumed", "w/1 é?", "running", "running")
}

func operatorBeatsWorker(k *kit) {
	k.beat(job.Beat{})
	k.direct("w1", job.Quiet)
	k.answered("an operator's quiet", "w1", "drain", "quiet")
	k.direct("w1", job.Terminate)
	k.answered("an operator's terminate", "w1", "quiet", "terminate")
	if _, err := k.s.Register(k.ctx(), job.WorkerInfo{ID: "w1"}); err != nil {
		k.t.Fatal(err)
	}
	k.answered("registered anew", "w1", "", "terminate")
	if _, err := k.s.Deregister(k.ctx(), "w1"); err != nil {
		k.t.Fatal(err)
	}
	k.answered("another of that name", "w1", "", "running")
}

func echoes(k *kit) {
	k.push(nil)
	for _, tt := range []struct {
		name string
		says []string // of "!wish" by the operator, and "state directive" in a beat
	}{
		{"an echo", []string{"!quiet", "running quiet", "quiet quiet", "!resume", "quiet running", "quiet running", "running running", "quiet quiet"}},
		{"its own", []string{"quiet quiet", "!quiet", "quiet quiet", "!resume", "quiet quiet", "running running"}},
		{"never told", []string{"running running", "!quiet", "!resume", "quiet quiet"}},
		{"more than it was told", []string{"!quiet", "running quiet", "!resume", "terminate terminate", "quiet quiet"}},
		{"less than it was told", []string{"!terminate", "running terminate", "!resume", "quiet running", "drain running"}},
		{"told again", []string{"!quiet", "running quiet", "!resume", "quiet running", "!quiet", "quiet quiet", "!resume", "quiet running"}},
		{"one after the other", []string{"!quiet", "running quiet", "!terminate", "quiet terminate", "!resume", "terminate running", "quiet running"}},
	} {
		k.beat(job.Beat{Worker: job.WorkerInfo{ID: tt.name}})
		for _, s := range tt.says {
			if s[0] == '!' {
				k.direct(tt.name, s[1:])
				continue
			}
			state, want, _ := strings.Cut(s, " ")
			k.answered(tt.name, tt.name, state, want)
			k.fetches(tt.name+", "+s, tt.name, want == "running")
		}
	}
}

func operatorDirectsAll(k *kit) {
	if n, err := k.s.DirectAll(k.ctx(), job.Quiet); err != nil || n != 0 {
		k.t.Errorf("nobody: %d, %v", n, err)
	}
	ids := []string{"a", "b", "c"}
	for _, id := range ids {
		k.beat(job.Beat{Worker: job.WorkerInfo{ID: id}})
	}
	for _, tt := range []struct{ wish, want string }{{job.Quiet, "quiet"}, {job.Terminate, "terminate"}, {job.Resume, "running"}} {
		if n, err := k.s.DirectAll(k.ctx(), tt.wish); err != nil || n != 3 {
			k.t.Errorf("%s: %d, %v", tt.wish, n, err)
		}
		for _, id := range ids {
			k.answered(tt.wish+" for all", id, "", tt.want)
		}
	}
	if _, err := k.s.DirectAll(k.ctx(), job.Quiet); err != nil {
		k.t.Fatal(err)
	}
	k.answered("came later", "d", "", "running")
}

func toldWhileWaiting(k *kit) {
	wait := func(id string) <-chan []*job.Job {
		got := make(chan []*job.Job, 1)
		go func() {
			jobs, _ := k.s.Fetch(k.ctx(), job.FetchRequest{Queues: []string{queue}, Worker: id, Wait: patience})
			got <- jobs
		}()
		k.pause(blink)
		return got
	}
	k.beat(job.Beat{Worker: job.WorkerInfo{ID: "first"}})
	first, second := wait("first"), wait("second")
	k.direct("first", job.Quiet)
	began := time.Now()
	j := k.push(nil)
	if got := <-second; len(got) != 1 || got[0].ID != j.ID || time.Since(began) > soon {
		k.t.Errorf("the second got %d jobs after %s", len(got), time.Since(began))
	}
	if got := <-first; len(got) != 0 {
		k.t.Errorf("the first got %s", got[0].ID)
	}
}

func directionsRefused(k *kit) {
	k.beat(job.Beat{})
	for _, wish := range []string{"", "running", "drain", "QUIET"} {
		_, err := k.s.Direct(k.ctx(), "w1", wish)
		if e := k.is("direct "+wish, err, job.Invalid); e.Details["field"] != "directive" {
			k.t.Errorf("details %v", e.Details)
		}
		_, err = k.s.DirectAll(k.ctx(), wish)
		if e := k.is("direct all "+wish, err, job.Invalid); e.Details["field"] != "directive" {
			k.t.Errorf("details %v", e.Details)
		}
	}
	for _, id := range []string{"", ".", "..", "never/was"} {
		_, err := k.s.Direct(k.ctx(), id, job.Quiet)
		if e := k.is("direct "+id, err, job.NotFound); e.Details["resource_type"] != "worker" || e.Details["resource_id"] != id {
			k.t.Errorf("details %v", e.Details)
		}
	}
	k.answered("after what was refused", "w1", "", "running")
}

func quietTold(k *kit) {
	k.beat(job.Beat{})
	k.direct("w1", job.Quiet)
	k.direct("w1", job.Quiet)
	k.answered("quiet", "w1", "running", "quiet")
	k.answered("quiet", "w1", "quiet", "quiet")
	k.direct("w1", job.Resume)
	k.answered("resumed", "w1", "quiet", "running")
	k.direct("w1", job.Terminate)
	want := []string{`worker.started "w1"`, `worker.quiet "w1"`}
	if got := k.workerTold(); len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
		k.t.Errorf("told %q, want %q", got, want)
	}
}
