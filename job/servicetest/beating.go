package servicetest

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var beating = []verdict{
	{"a beat moves the end of the reservation", beatExtends},
	{"a beat keeps a job alive past its reservation", beatKeeps},
	{"a beat is told what was cancelled and what was lost", beatTells},
	{"a beat answers with what the server wants of the worker", directives},
	{"the meta of a job directs nobody", metaDirectsNobody},
	{"a beat without a worker's name is Invalid", beatNameless},
}

func (k *kit) beat(b job.Beat) job.BeatReply {
	k.t.Helper()
	if b.Worker.ID == "" {
		b.Worker.ID = "w1"
	}
	r, err := k.s.Beat(k.ctx(), b)
	if err != nil {
		k.t.Fatalf("beat: %v", err)
	}
	return r
}

func beatExtends(k *kit) {
	k.push(nil)
	j := k.one(job.FetchRequest{Worker: "w1", Visibility: time.Minute})
	for _, tt := range []struct {
		name  string
		beat  job.Beat
		moved time.Duration
	}{
		{"with its token, for an hour", job.Beat{Jobs: []job.Claim{claimOf(j)}, Visibility: time.Hour}, time.Hour},
		{"without a token, for the length of the claim", job.Beat{Jobs: []job.Claim{{ID: j.ID}}}, time.Minute},
	} {
		r := k.beat(tt.beat)
		now := k.read(j.ID)
		if !slices.Equal(r.Extended, []job.ID{j.ID}) || len(r.Lost)+len(r.Cancelled) != 0 || r.Time.IsZero() || r.Directive != "running" {
			k.t.Errorf("%s: %+v", tt.name, r)
		}
		if got := now.Lease.Until.Sub(r.Time); got != tt.moved || now.Attempt != 1 {
			k.t.Errorf("%s: reserved for %s more, want %s", tt.name, got, tt.moved)
		}
	}
	k.ack(j, "")
}

func beatKeeps(k *kit) {
	k.push(nil)
	j := k.one(job.FetchRequest{Worker: "w1", Visibility: 10 * blink})
	for time.Now().Before(j.Lease.Until.Add(10 * blink)) {
		if r := k.beat(job.Beat{Jobs: []job.Claim{claimOf(j)}}); len(r.Extended) != 1 {
			k.t.Fatalf("%+v", r)
		}
		k.pause(blink)
	}
	k.none()
	k.ack(j, `1`)
}

func beatTells(k *kit) {
	for _, name := range []string{"kept", "cancelled", "finished", "foreign", "waiting"} {
		k.named(name)
	}
	byName := map[string]*job.Job{}
	for _, j := range k.fetch(job.FetchRequest{Worker: "w1", Count: 3}) {
		byName[j.Type] = j
	}
	foreign := k.one(job.FetchRequest{Worker: "w2"})
	k.cancel(byName["cancelled"])
	k.ack(byName["finished"], "")
	page, err := k.s.Jobs(k.ctx(), job.Filter{Type: "waiting"})
	if err != nil || len(page.Jobs) != 1 {
		k.t.Fatal(page, err)
	}
	waits, ghost := page.Jobs[0], newID()
	stale := claimOf(byName["kept"])
	stale.Token = "0"
	before := []string{k.picture(foreign), k.picture(byName["finished"]), k.picture(waits), k.picture(byName["cancelled"])}
	r := k.beat(job.Beat{Jobs: []job.Claim{claimOf(byName["kept"]), claimOf(byName["cancelled"]), claimOf(byName["finished"]),
		{ID: foreign.ID}, {ID: waits.ID}, {ID: ghost}}})
	if !slices.Equal(r.Extended, []job.ID{byName["kept"].ID}) || !slices.Equal(r.Cancelled, []job.ID{byName["cancelled"].ID}) {
		k.t.Errorf("%+v", r)
	}
	for _, id := range []job.ID{byName["finished"].ID, foreign.ID, waits.ID, ghost} {
		if !slices.Contains(r.Lost, id) {
			k.t.Errorf("%s is not among the lost %v", id, r.Lost)
		}
	}
	after := []string{k.picture(foreign), k.picture(byName["finished"]), k.picture(waits), k.picture(byName["cancelled"])}
	if !slices.Equal(after, before) {
		k.t.Errorf("the beat changed jobs that are not the worker's\nbefore %s\nafter  %s", before, after)
	}
	if r := k.beat(job.Beat{Jobs: []job.Claim{stale}}); len(r.Extended) != 0 || !slices.Equal(r.Lost, []job.ID{stale.ID}) {
		k.t.Errorf("a stale token: %+v", r)
	}
}

func directives(k *kit) {
	for _, tt := range []struct{ says, want string }{
		{"", "running"}, {"running", "running"}, {"quiet", "quiet"}, {"drain", "terminate"}, {"draining", "terminate"},
		{"terminate", "terminate"}, {"shutting_down", "terminate"}, {"odd", "running"},
	} {
		k.push(nil)
		r := k.beat(job.Beat{Worker: job.WorkerInfo{ID: "w1", State: tt.says}})
		if r.Directive != tt.want {
			k.t.Errorf("a worker that is %q gets %q, want %q", tt.says, r.Directive, tt.want)
		}
		got := k.fetch(job.FetchRequest{Worker: "w1", Count: 100})
		if running := tt.want == "running"; running != (len(got) > 0) {
			k.t.Errorf("a worker that is %q gets %d jobs", tt.says, len(got))
		}
		k.fetch(job.FetchRequest{Worker: "w2", Count: 100})
	}
}

// Nobody's meta is trusted (ojs-core.md §14), but by servers for test suites.
func metaDirectsNobody(k *kit) {
	for _, wish := range []string{"quiet", "terminate"} {
		j := k.push(func(e *job.Envelope) { e.Meta = json.RawMessage(`{"test_directive":"` + wish + `"}`) })
		k.one(job.FetchRequest{Worker: "w3"})
		if r := k.beat(job.Beat{Worker: job.WorkerInfo{ID: "w3"}, Jobs: []job.Claim{{ID: j.ID}}}); r.Directive != "running" || len(r.Extended) != 1 {
			k.t.Errorf("a job whose meta says %s: %+v", wish, r)
		}
	}
}

func beatNameless(k *kit) {
	_, err := k.s.Beat(k.ctx(), job.Beat{})
	if e := k.is("beat", err, job.Invalid); e.Details["field"] != "worker_id" {
		k.t.Errorf("details %v", e.Details)
	}
}
