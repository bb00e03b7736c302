package servicetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var rostering = []verdict{
	{"a worker is known from its registration or its first beat until it deregisters", workersKnown},
	{"a worker that deregisters gives its jobs back, untouched and at once", deregisters},
	{"a worker's life is told", workersTold},
	{"a worker that registers begins anew", registersAnew},
	{"a worker without a name is Invalid, one that nobody knows NotFound", workersRefused},
}

func workersKnown(k *kit) {
	if ws, err := k.s.Workers(k.ctx()); err != nil || len(ws) != 0 {
		k.t.Errorf("at first: %+v, %v", ws, err)
	}
	began := time.Now().Add(-time.Minute).UTC().Truncate(time.Millisecond)
	want := job.WorkerInfo{ID: "w/1 é?", Hostname: "host", PID: 7, Queues: []string{"b", "a"}, Concurrency: 3,
		Labels: map[string]string{"zone": "b"}, Version: "1.2", StartedAt: began}
	r, err := k.s.Register(k.ctx(), want)
	if err != nil || r.Heartbeat <= 0 || r.Silence <= r.Heartbeat || r.Visibility <= 0 || time.Since(r.Time).Abs() > patience {
		k.t.Fatalf("register: %+v, %v", r, err)
	}
	k.beat(job.Beat{Worker: job.WorkerInfo{ID: "second", State: "drain"}, Jobs: []job.Claim{{ID: newID()}, {ID: newID()}}})
	ws, err := k.s.Workers(k.ctx())
	if err != nil || len(ws) != 2 || ws[0].ID != "second" || ws[0].State != "drain" || ws[0].Active != 0 || ws[1].ID != want.ID {
		k.t.Fatalf("%+v, %v", ws, err)
	}
	one, err := k.s.Worker(k.ctx(), want.ID)
	if err != nil || fmt.Sprint(one) != fmt.Sprint(ws[1]) || one.Stale || time.Since(one.BeatAt).Abs() > patience || !one.StartedAt.Equal(began) {
		k.t.Errorf("%+v, %v; in the list %+v", one, err, ws[1])
	}
	one.BeatAt, want.BeatAt = time.Time{}, time.Time{}
	if fmt.Sprint(one) != fmt.Sprint(want) {
		k.t.Errorf("got  %+v\nwant %+v", one, want)
	}
	k.named("a")
	k.named("b")
	k.fetch(job.FetchRequest{Worker: want.ID, Count: 2})
	k.beat(job.Beat{Worker: job.WorkerInfo{ID: want.ID, Active: 7}}) // what it holds counts, and not what it tells
	one, err = k.s.Worker(k.ctx(), want.ID)
	if ws, listed := k.s.Workers(k.ctx()); err != nil || listed != nil || one.Active != 2 || len(ws) != 2 || ws[1].Active != 2 || ws[0].Active != 0 {
		k.t.Errorf("it holds two jobs: %+v, %v; in the list %+v, %v", one, err, ws, listed)
	}
	if _, err := k.s.Deregister(k.ctx(), want.ID); err != nil {
		k.t.Fatal(err)
	}
	if ws, err := k.s.Workers(k.ctx()); err != nil || len(ws) != 1 || ws[0].ID != "second" {
		k.t.Errorf("afterwards: %+v, %v", ws, err)
	}
}

func deregisters(k *kit) {
	for _, name := range []string{"first", "second", "foreign", "last"} {
		k.named(name)
	}
	k.beat(job.Beat{})
	held := k.fetch(job.FetchRequest{Worker: "w1", Count: 2, Visibility: time.Hour})
	foreign := k.one(job.FetchRequest{Worker: "w2"})
	other := text(k.read(foreign.ID))
	waits := make(chan []*job.Job, 1)
	k.one(job.FetchRequest{Worker: "w2"})
	go func() {
		jobs, _ := k.s.Fetch(k.ctx(), job.FetchRequest{Queues: []string{queue}, Worker: "w3", Count: 9, Wait: patience})
		waits <- jobs
	}()
	k.pause(blink)
	began := time.Now()
	released, err := k.s.Deregister(k.ctx(), "w1")
	if err != nil || len(released) != 2 || !slices.Contains(released, held[0].ID) || !slices.Contains(released, held[1].ID) {
		k.t.Fatalf("released %v, %v", released, err)
	}
	got := <-waits
	if took := time.Since(began); took > soon {
		k.t.Errorf("who waits for a job was woken after %s", took)
	}
	k.order(got, "first", "second")
	for _, j := range got {
		if j.Attempt != 2 || j.Error != nil || len(k.history(j)) != 0 {
			k.t.Errorf("a job that was given back: attempt %d, %s", j.Attempt, text(j))
		}
	}
	_, err = k.s.Ack(k.ctx(), claimOf(held[0]), nil)
	k.is("an ack of the worker that has left", err, job.Conflict)
	if now := text(k.read(foreign.ID)); now != other {
		k.t.Errorf("another worker's job\nbefore %s\nafter  %s", other, now)
	}
}

// workerTold is the worker events of the log, as "worker.started w1".
func (k *kit) workerTold() (told []string) {
	k.t.Helper()
	es, err := k.s.Events(k.ctx(), job.EventFilter{Types: []string{"worker.*"}})
	if err != nil {
		k.t.Fatal(err)
	}
	for _, e := range es {
		told = append(told, e.Type+" "+member(k.t, e.Data, "worker_id"))
		if e.JobID != "" || e.JobType != "" || e.Queue != "" || e.Time.IsZero() {
			k.t.Errorf("%+v", e)
		}
	}
	return told
}

func workersTold(k *kit) {
	k.beat(job.Beat{})
	k.beat(job.Beat{})
	for _, state := range []string{"quiet", "quiet", "running", "quiet"} {
		k.beat(job.Beat{Worker: job.WorkerInfo{ID: "w1", State: state}})
	}
	if _, err := k.s.Register(k.ctx(), job.WorkerInfo{ID: "w2"}); err != nil {
		k.t.Fatal(err)
	}
	k.beat(job.Beat{Worker: job.WorkerInfo{ID: "w2"}})
	if _, err := k.s.Deregister(k.ctx(), "w2"); err != nil {
		k.t.Fatal(err)
	}
	_, err := k.s.Deregister(k.ctx(), "w2")
	k.is("deregistered twice", err, job.NotFound)
	k.beat(job.Beat{Worker: job.WorkerInfo{ID: "w2"}})
	want := []string{`worker.started "w1"`, `worker.quiet "w1"`, `worker.quiet "w1"`,
		`worker.started "w2"`, `worker.stopped "w2"`, `worker.started "w2"`}
	if got := k.workerTold(); !slices.Equal(got, want) {
		k.t.Errorf("told\n%q, want\n%q", got, want)
	}
}

func registersAnew(k *kit) {
	k.beat(job.Beat{Worker: job.WorkerInfo{ID: "w1", State: "quiet", Hostname: "old", Active: 4}})
	k.push(nil)
	if got := k.fetch(job.FetchRequest{Worker: "w1"}); len(got) != 0 {
		k.t.Errorf("a quiet worker got %d jobs", len(got))
	}
	if _, err := k.s.Register(k.ctx(), job.WorkerInfo{ID: "w1"}); err != nil {
		k.t.Fatal(err)
	}
	if w, err := k.s.Worker(k.ctx(), "w1"); err != nil || w.State != "" || w.Hostname != "" || w.Active != 0 || w.StartedAt.IsZero() {
		k.t.Errorf("%+v, %v", w, err)
	}
	k.take()
}

func workersRefused(k *kit) {
	_, err := k.s.Register(k.ctx(), job.WorkerInfo{Hostname: "h"})
	if e := k.is("register", err, job.Invalid); e.Details["field"] != "worker_id" {
		k.t.Errorf("details %v", e.Details)
	}
	_, err = k.s.Deregister(k.ctx(), "")
	k.is("deregister nobody", err, job.Invalid)
	k.push(nil)
	k.take() // known by its fetch only
	for _, id := range []string{"", ".", "..", "w1", "never/was"} {
		_, err := k.s.Worker(k.ctx(), id)
		if e := k.is("worker "+id, err, job.NotFound); e.Details["resource_type"] != "worker" || e.Details["resource_id"] != id {
			k.t.Errorf("details %v", e.Details)
		}
	}
	_, err = k.s.Deregister(k.ctx(), "w1")
	k.is("deregister", err, job.NotFound)
}
