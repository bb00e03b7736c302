package servicetest

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var acking = []verdict{
	{"many acks are each judged alone, in their order", ackMany},
	{"many acks of one job are as many acks in turn", ackManyOfOne},
	{"acks of no job are no error, and more than a thousand are TooLarge", ackBounds},
	{"an ack and fetch in one ends a job and gives the next", nextOne},
	{"its acks are stored before it waits for a job", nextWaits},
	{"one that finds nothing says what became of its acks", nextEmpty},
	{"one without acks is a fetch", nextPlain},
	{"its acks count where its worker gets no more jobs", nextQuiet},
	{"its acks count where its fetch is refused", nextRefused},
	{"one that is sent again ends nothing twice", nextTwice},
}

func ackOf(j *job.Job, result string) job.AckRequest {
	a := job.AckRequest{Claim: claimOf(j)}
	if result != "" {
		a.Result = json.RawMessage(result)
	}
	return a
}

func (k *kit) ackAll(acks ...job.AckRequest) []job.Acked {
	k.t.Helper()
	acked, err := k.s.AckAll(k.ctx(), acks)
	if err != nil || len(acked) != len(acks) {
		k.t.Fatalf("%d acks: %d verdicts, %v", len(acks), len(acked), err)
	}
	return acked
}

// acked checks that a verdict says that a job is completed, and that it is.
func (k *kit) acked(what string, v job.Acked, id job.ID, result string) {
	k.t.Helper()
	j := k.read(id)
	if v.Err != nil || j.State != job.Completed || !v.FinishedAt.Equal(j.FinishedAt) || v.FinishedAt.IsZero() {
		k.t.Errorf("%s: %+v, and the job is %s", what, v, text(j))
	}
	k.shows(j, "result", result)
}

// fetched are n jobs that one worker holds.
func (k *kit) fetched(n int) []*job.Job {
	k.t.Helper()
	for range n {
		k.push(nil)
	}
	jobs := k.fetch(job.FetchRequest{Worker: "w1", Count: n})
	if len(jobs) != n {
		k.t.Fatalf("fetched %d jobs of %d", len(jobs), n)
	}
	return jobs
}

func ackMany(k *kit) {
	jobs := k.fetched(9)
	stale, foreign, malformed, large, done, gone := jobs[1], jobs[2], jobs[3], jobs[4], jobs[5], jobs[6]
	before := k.ack(done, `1`)
	if _, err := k.s.Cancel(k.ctx(), gone.ID, "", ""); err != nil {
		k.t.Fatal(err)
	}
	verdicts := k.ackAll(
		ackOf(jobs[0], `{"n" : 1e2}`),
		job.AckRequest{Claim: job.Claim{ID: stale.ID, Token: "0"}},
		job.AckRequest{Claim: job.Claim{ID: foreign.ID, Worker: "w2"}},
		ackOf(malformed, `{`),
		ackOf(large, `"`+strings.Repeat("x", job.MaxResultBytes)+`"`),
		ackOf(done, `2`),
		ackOf(gone, ``),
		job.AckRequest{Claim: job.Claim{ID: "01970000-0000-7000-8000-000000000000"}},
		job.AckRequest{Claim: job.Claim{ID: "no id"}},
		ackOf(jobs[7], `null`),
		job.AckRequest{Claim: job.Claim{ID: jobs[8].ID}})
	k.acked("the first", verdicts[0], jobs[0].ID, `{"n" : 1e2}`)
	k.acked("one with null", verdicts[9], jobs[7].ID, `null`)
	k.acked("the last", verdicts[10], jobs[8].ID, ``)
	for i, want := range []job.Kind{job.Conflict, job.Conflict, job.Malformed, job.TooLarge, job.Conflict, job.Conflict, job.NotFound, job.NotFound} {
		v := verdicts[i+1]
		if k.is("a bad ack among others", v.Err, want); !v.FinishedAt.IsZero() {
			k.t.Errorf("refused at %d, and completed: %+v", i+1, v)
		}
	}
	if e := k.is("a stale token", verdicts[1].Err, job.Conflict); e.Details["reason"] != "lease_lost" || e.Details["job_id"] != string(stale.ID) {
		k.t.Errorf("details %v", e.Details)
	}
	for _, j := range []*job.Job{stale, foreign, malformed, large} {
		k.stands(k.read(j.ID), job.Active)
	}
	if after := k.read(done.ID); text(after) != text(before) {
		k.t.Errorf("a job that was completed became %s", text(after))
	}
	k.stands(k.read(gone.ID), job.Cancelled)
}

func ackManyOfOne(k *kit) {
	jobs := k.fetched(2)
	verdicts := k.ackAll(job.AckRequest{Claim: job.Claim{ID: jobs[0].ID, Token: "0"}}, ackOf(jobs[0], `1`), ackOf(jobs[1], ``), ackOf(jobs[0], `2`))
	k.is("a stale ack before", verdicts[0].Err, job.Conflict)
	k.acked("the first good one", verdicts[1], jobs[0].ID, `1`)
	k.acked("its neighbour", verdicts[2], jobs[1].ID, ``)
	if e := k.is("the second good one", verdicts[3].Err, job.Conflict); e.Details["current_state"] != "completed" {
		k.t.Errorf("details %v", e.Details)
	}
	if told := k.told(jobs[0].ID); slices.Index(told, "job.completed") != len(told)-1 {
		k.t.Errorf("told %v", told)
	}
}

func ackBounds(k *kit) {
	if acked, err := k.s.AckAll(k.ctx(), nil); err != nil || len(acked) != 0 {
		k.t.Errorf("no acks: %v, %v", acked, err)
	}
	k.push(nil)
	j := k.take()
	acks := slices.Repeat([]job.AckRequest{ackOf(j, ``)}, job.MaxAcks+1)
	err := k.untouched("1,001 acks", j, func() error {
		_, err := k.s.AckAll(k.ctx(), acks)
		return err
	})
	if e := k.is("1,001 acks", err, job.TooLarge); e.Details["max_ack_batch_size"] != job.MaxAcks {
		k.t.Errorf("details %v", e.Details)
	}
	err = k.untouched("1,001 acks and a fetch", j, func() error {
		acked, _, err := k.s.Next(k.ctx(), acks, job.FetchRequest{Queues: []string{queue}})
		if acked != nil {
			k.t.Errorf("verdicts on %d acks of too many", len(acked))
		}
		return err
	})
	k.is("1,001 acks and a fetch", err, job.TooLarge)
	verdicts := k.ackAll(acks[1:]...)
	k.acked("the first of 1,000", verdicts[0], j.ID, ``)
	k.is("the last of 1,000", verdicts[job.MaxAcks-1].Err, job.Conflict)
}

// ackAndFetch is a Next of which both parts succeed.
func (k *kit) ackAndFetch(acks []job.AckRequest, f job.FetchRequest) ([]job.Acked, []*job.Job) {
	k.t.Helper()
	f.Queues, f.Worker = []string{queue}, "w1"
	acked, jobs, err := k.s.Next(k.ctx(), acks, f)
	if err != nil || len(acked) != len(acks) {
		k.t.Fatalf("%d acks and a fetch: %v, %v", len(acks), acked, err)
	}
	return acked, jobs
}

func nextOne(k *kit) {
	held := k.fetched(2)
	next := k.push(nil)
	before := time.Now().Add(-time.Second)
	acked, jobs := k.ackAndFetch([]job.AckRequest{ackOf(held[0], `1`), {Claim: job.Claim{ID: held[1].ID, Token: "0"}}}, job.FetchRequest{Count: 5, Visibility: time.Minute})
	k.acked("beside a fetch", acked[0], held[0].ID, `1`)
	k.is("a stale one beside a fetch", acked[1].Err, job.Conflict)
	k.stands(k.read(held[1].ID), job.Active)
	if len(jobs) != 1 || jobs[0].ID != next.ID {
		k.t.Fatalf("fetched %d jobs, want the one that waits", len(jobs))
	}
	j := jobs[0]
	if j.State != job.Active || j.Attempt != 1 || j.Lease.Token == "" || j.Lease.Worker != "w1" || j.StartedAt.Before(before) || j.Lease.Until.Sub(j.StartedAt) != time.Minute {
		k.t.Errorf("fetched %s with %+v", text(j), j.Lease)
	}
	k.ack(j, ``)
}

func nextWaits(k *kit) {
	held := k.fetched(1)[0]
	got := make(chan []*job.Job, 1)
	go func() {
		acked, jobs, err := k.s.Next(k.ctx(), []job.AckRequest{ackOf(held, `1`)}, job.FetchRequest{Queues: []string{queue}, Wait: patience})
		if err != nil || len(acked) != 1 || acked[0].Err != nil {
			k.t.Errorf("got %v, %v", acked, err)
		}
		got <- jobs
	}()
	k.until(held.ID, job.Completed)
	select {
	case jobs := <-got:
		k.t.Errorf("it came with %d jobs before there was one", len(jobs))
	case <-time.After(blink):
	}
	next, began := k.push(nil), time.Now()
	if jobs := <-got; len(jobs) != 1 || jobs[0].ID != next.ID || time.Since(began) > soon {
		k.t.Errorf("it came with %d jobs after %s", len(jobs), time.Since(began))
	}
}

func nextEmpty(k *kit) {
	held := k.fetched(1)[0]
	began := time.Now()
	acked, jobs := k.ackAndFetch([]job.AckRequest{ackOf(held, ``)}, job.FetchRequest{Wait: blink})
	k.acked("behind which nothing came", acked[0], held.ID, ``)
	if len(jobs) != 0 || time.Since(began) < blink {
		k.t.Errorf("%d jobs after %s", len(jobs), time.Since(began))
	}
}

func nextPlain(k *kit) {
	pushed := k.push(nil)
	if acked, jobs := k.ackAndFetch(nil, job.FetchRequest{Wait: patience}); len(acked) != 0 || len(jobs) != 1 || jobs[0].ID != pushed.ID {
		k.t.Errorf("got %v and %d jobs", acked, len(jobs))
	}
}

func nextQuiet(k *kit) {
	for _, state := range []string{job.Quiet, job.Terminate} {
		held := k.fetched(1)[0]
		waiting := k.push(nil)
		if _, err := k.s.Beat(k.ctx(), job.Beat{Worker: job.WorkerInfo{ID: "w1", State: state}}); err != nil {
			k.t.Fatal(err)
		}
		acked, jobs := k.ackAndFetch([]job.AckRequest{ackOf(held, ``)}, job.FetchRequest{Wait: patience})
		k.acked("of a worker that is "+state, acked[0], held.ID, ``)
		if len(jobs) != 0 {
			k.t.Errorf("a worker that is %s got %d jobs", state, len(jobs))
		}
		if _, err := k.s.Beat(k.ctx(), job.Beat{Worker: job.WorkerInfo{ID: "w1", State: "running"}}); err != nil {
			k.t.Fatal(err)
		}
		k.stands(k.read(waiting.ID), job.Available)
		k.ack(k.take(), ``)
	}
}

func nextRefused(k *kit) {
	held := k.fetched(1)[0]
	acked, jobs, err := k.s.Next(k.ctx(), []job.AckRequest{ackOf(held, ``)}, job.FetchRequest{})
	if e := k.is("a fetch without queues", err, job.Invalid); e.Details["field"] != "queues" || len(jobs) != 0 {
		k.t.Errorf("details %v, %d jobs", e.Details, len(jobs))
	}
	if len(acked) != 1 {
		k.t.Fatalf("%d verdicts on one ack", len(acked))
	}
	k.acked("beside a fetch that is refused", acked[0], held.ID, ``)
}

func nextTwice(k *kit) {
	held := k.fetched(1)[0]
	acks := []job.AckRequest{ackOf(held, `1`)}
	k.push(nil)
	k.push(nil)
	_, first := k.ackAndFetch(acks, job.FetchRequest{})
	acked, second := k.ackAndFetch(acks, job.FetchRequest{})
	k.is("an ack that is sent again", acked[0].Err, job.Conflict)
	k.shows(k.read(held.ID), "result", `1`)
	if len(first) != 1 || len(second) != 1 || first[0].ID == second[0].ID {
		k.t.Errorf("fetched %d and %d jobs", len(first), len(second))
	}
}
