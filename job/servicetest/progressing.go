package servicetest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var progressing = []verdict{
	{"progress is taken into 0 to 1, never goes back within an attempt, and begins anew with the next", progressNeverGoesBack},
	{"what a report leaves out stays as it was", progressKeepsTheRest},
	{"a report extends the reservation, as a heartbeat does", progressExtends},
	{"a job that is not active takes no report, and that is no error", progressOfOthers},
	{"a report of a holder whose reservation was lost is a conflict", progressIsFenced},
	{"a report that says nothing, or too much, is refused and changes nothing", progressRefused},
	{"a report tells an event", progressTells},
	{"a checkpoint outlives a failure, a lost reservation and a manual retry, and comes with the job", checkpointOutlives},
	{"a checkpoint is replaced whole, counted, and counted anew after it was deleted", checkpointIsCounted},
	{"a checkpoint can be saved as long as the job has not ended", checkpointInEveryState},
	{"a checkpoint is fenced as an ACK is", checkpointIsFenced},
	{"a bad checkpoint is refused and changes nothing", checkpointRefused},
	{"whoever waits for the end of a job is told of it at once, however it ends", outcomeIsTold},
	{"who waits in vain is told how the job is, and what has ended already is answered at once", outcomeInVain},
	{"many outcomes are read at once, without what is not stored", outcomesOfMany},
}

func (k *kit) report(j *job.Job, r job.Report) job.Reported {
	k.t.Helper()
	told, err := k.s.Progress(k.ctx(), claimOf(j), r)
	if err != nil {
		k.t.Fatalf("progress %+v: %v", r, err)
	}
	return told
}

func progressNeverGoesBack(k *kit) {
	k.push(func(e *job.Envelope) {
		e.Retry = json.RawMessage(`{"initial_interval":"PT0.01S","jitter":false}`)
	})
	j := k.take()
	for _, tt := range []struct{ told, want float64 }{{0, 0}, {0.5, 0.5}, {0.25, 0.5}, {-3, 0.5}, {0.75, 0.75}, {17, 1}, {0.9, 1}} {
		got := k.report(j, job.Report{Fraction: &tt.told})
		p := k.read(j.ID).Progress
		if !got.Accepted || got.State != job.Active || got.Progress == nil || !got.Progress.Measured || got.Progress.Fraction != tt.want || !reflect.DeepEqual(p, got.Progress) {
			k.t.Errorf("told %v: %+v, read %+v, want %v", tt.told, got.Progress, p, tt.want)
		}
	}
	k.fail(j, job.Failure{Type: "E", Message: "no"})
	if p := k.read(j.ID).Progress; p == nil || p.Fraction != 1 {
		k.t.Errorf("between two attempts: %+v", p)
	}
	j = k.take()
	if p := j.Progress; p != nil {
		k.t.Errorf("the next attempt begins with %+v", p)
	}
	if got := k.report(j, job.Report{Fraction: ptr(0.1)}); got.Progress.Fraction != 0.1 {
		k.t.Errorf("the next attempt has %+v", got.Progress)
	}
	k.ack(j, "")
	if p := k.read(j.ID).Progress; p == nil || p.Fraction != 0.1 {
		k.t.Errorf("after the end: %+v", p)
	}
}

func progressKeepsTheRest(k *kit) {
	k.push(nil)
	j := k.take()
	data := json.RawMessage(`{"n": 9007199254740993, "x": [1e2, null]}`)
	steps := []struct {
		r    job.Report
		want string
	}{
		{job.Report{Data: data}, `0 false "" ` + string(data)},
		{job.Report{Fraction: ptr(0.5), Message: ptr("half")}, `0.5 true "half" ` + string(data)},
		{job.Report{Fraction: ptr(0.6)}, `0.6 true "half" ` + string(data)},
		{job.Report{Data: json.RawMessage("null"), Message: ptr("")}, `0.6 true "" null`},
	}
	for i, s := range steps {
		k.report(j, s.r)
		p := k.read(j.ID).Progress
		if got := fmt.Sprintf("%v %v %q %s", p.Fraction, p.Measured, p.Message, p.Data); got != s.want {
			k.t.Errorf("step %d: got %s, want %s", i, got, s.want)
		}
	}
	k.report(j, job.Report{Checkpoint: json.RawMessage(`{"row":7}`)})
	if c := k.read(j.ID).Checkpoint; c == nil || string(c.State) != `{"row":7}` || c.Sequence != 1 {
		k.t.Errorf("checkpoint %+v", c)
	}
}

func progressExtends(k *kit) {
	k.push(nil)
	j := k.one(job.FetchRequest{Worker: "w1", Visibility: time.Minute})
	k.pause(blink)
	k.report(j, job.Report{Fraction: ptr(0.1)})
	if now := k.read(j.ID); !now.Lease.Until.After(j.Lease.Until) || now.Lease.Until.Sub(j.Lease.Until) > time.Minute {
		k.t.Errorf("reserved until %v, before %v", now.Lease.Until, j.Lease.Until)
	}
}

func progressOfOthers(k *kit) {
	for _, p := range uniquePlaces() {
		if p.state == job.Active {
			continue
		}
		j := p.reach(k, func(*job.Envelope) {})
		if err := k.untouched(p.name, j, func() error {
			got, err := k.s.Progress(k.ctx(), job.Claim{ID: j.ID}, job.Report{Fraction: ptr(0.5), Checkpoint: json.RawMessage("{}")})
			if err != nil || got.Accepted || got.State != p.state {
				return fmt.Errorf("%+v, %w", got, err)
			}
			return nil
		}); err != nil {
			k.t.Error(p.name, err)
		}
		k.clear(k.read(j.ID))
	}
	_, err := k.s.Progress(k.ctx(), job.Claim{ID: newID()}, job.Report{Fraction: ptr(0.5)})
	k.is("a job that never was", err, job.NotFound)
}

func progressIsFenced(k *kit) {
	k.push(nil)
	lost := k.one(job.FetchRequest{Worker: "w1", Visibility: blink})
	held := k.one(job.FetchRequest{Worker: "w2"})
	if held.ID != lost.ID {
		k.t.Fatal("another job")
	}
	for _, c := range []job.Claim{claimOf(lost), {ID: lost.ID, Worker: "w1"}} {
		if err := k.untouched("a report of who lost it", held, func() error {
			_, err := k.s.Progress(k.ctx(), c, job.Report{Fraction: ptr(0.5)})
			if e := k.is("progress", err, job.Conflict); e.Details["reason"] != "lease_lost" {
				return fmt.Errorf("details %v", e.Details)
			}
			return nil
		}); err != nil {
			k.t.Error(err)
		}
	}
	k.report(held, job.Report{Fraction: ptr(0.5)})
}

func progressRefused(k *kit) {
	k.push(nil)
	j := k.take()
	long := strings.Repeat("x", job.MaxMetaBytes)
	for name, tt := range map[string]struct {
		r    job.Report
		kind job.Kind
	}{
		"nothing":             {job.Report{}, job.Invalid},
		"no JSON":             {job.Report{Data: json.RawMessage("{")}, job.Malformed},
		"a checkpoint, none":  {job.Report{Checkpoint: json.RawMessage("]")}, job.Malformed},
		"data too long":       {job.Report{Data: json.RawMessage(`"` + long + `"`)}, job.TooLarge},
		"a message too long":  {job.Report{Message: ptr(long + "x"), Fraction: ptr(1.0)}, job.TooLarge},
		"a checkpoint longer": {job.Report{Checkpoint: json.RawMessage(`"` + strings.Repeat("x", job.MaxCheckpointBytes) + `"`)}, job.TooLarge},
	} {
		if err := k.untouched(name, k.read(j.ID), func() error {
			_, err := k.s.Progress(k.ctx(), claimOf(j), tt.r)
			k.is(name, err, tt.kind)
			return nil
		}); err != nil {
			k.t.Error(err)
		}
	}
}

func progressTells(k *kit) {
	k.push(nil)
	j := k.take()
	k.report(j, job.Report{Fraction: ptr(0.5), Message: ptr("half")})
	es, err := k.s.History(k.ctx(), j.ID)
	if err != nil || len(es) == 0 {
		k.t.Fatal(es, err)
	}
	if e := es[len(es)-1]; e.Type != "job.progress" || string(e.Data) != `{"progress":0.5,"message":"half"}` {
		k.t.Errorf("told %s %s", e.Type, e.Data)
	}
}

func (k *kit) save(c job.Claim, state string) job.Checkpoint {
	k.t.Helper()
	saved, err := k.s.SaveCheckpoint(k.ctx(), c, json.RawMessage(state), nil)
	if err != nil {
		k.t.Fatalf("checkpoint %s: %v", state, err)
	}
	return saved
}

func checkpointOutlives(k *kit) {
	k.push(func(e *job.Envelope) {
		e.Retry = json.RawMessage(`{"max_attempts":3,"initial_interval":"PT0.01S","jitter":false}`)
	})
	const state = `{"row": 1e2, "big":9007199254740993}`
	j := k.one(job.FetchRequest{Visibility: time.Minute})
	saved := k.save(claimOf(j), state)
	k.fail(j, job.Failure{Type: "E", Message: "no"})
	j = k.one(job.FetchRequest{Visibility: blink})
	comes := func(how string) {
		k.t.Helper()
		if c := j.Checkpoint; c == nil || !reflect.DeepEqual(*c, saved) || string(c.State) != state {
			k.t.Errorf("after %s it comes with %+v, saved %+v", how, c, saved)
		}
	}
	comes("a failure")
	j = k.take() // the reservation ran out
	comes("a lost reservation")
	k.stands(k.fail(j, job.Failure{Code: "DISCARD", Message: "no"}), job.Discarded)
	if _, err := k.s.Retry(k.ctx(), j.ID); err != nil {
		k.t.Fatal(err)
	}
	j = k.take()
	comes("a manual retry")
	k.ack(j, "")
	if c := k.read(j.ID).Checkpoint; c == nil || string(c.State) != state {
		k.t.Errorf("after the end %+v", c)
	}
}

func checkpointIsCounted(k *kit) {
	j := k.push(nil)
	had, err := k.s.DeleteCheckpoint(k.ctx(), j.ID)
	if err != nil || had {
		k.t.Errorf("none was deleted: %v, %v", had, err)
	}
	var first job.Checkpoint
	for i := range 3 {
		c := k.save(job.Claim{ID: j.ID}, fmt.Sprintf(`{"n":%d}`, i))
		if i == 0 {
			first = c
		}
		if c.Sequence != i+1 || !c.CreatedAt.Equal(first.CreatedAt) || c.UpdatedAt.Before(first.UpdatedAt) || string(c.State) != fmt.Sprintf(`{"n":%d}`, i) {
			k.t.Errorf("save %d: %+v, first %+v", i, c, first)
		}
		if now := k.read(j.ID).Checkpoint; now == nil || !reflect.DeepEqual(*now, c) {
			k.t.Errorf("save %d: answered %+v, read %+v", i, c, now)
		}
	}
	if had, err := k.s.DeleteCheckpoint(k.ctx(), j.ID); err != nil || !had || k.read(j.ID).Checkpoint != nil {
		k.t.Errorf("deleted: %v, %v", had, err)
	}
	if c := k.save(job.Claim{ID: j.ID}, "{}"); c.Sequence != 1 {
		k.t.Errorf("after a delete: %+v", c)
	}
	with, err := k.s.SaveCheckpoint(k.ctx(), job.Claim{ID: j.ID}, json.RawMessage("{}"), json.RawMessage(`{"step_index":2}`))
	if err != nil || string(with.Metadata) != `{"step_index":2}` {
		k.t.Errorf("metadata %s, %v", with.Metadata, err)
	}
	if c := k.save(job.Claim{ID: j.ID}, "{}"); c.Metadata != nil {
		k.t.Errorf("the whole of it is replaced: %+v", c)
	}
	_, err = k.s.DeleteCheckpoint(k.ctx(), newID())
	k.is("a job that never was", err, job.NotFound)
}

func checkpointInEveryState(k *kit) {
	for _, p := range uniquePlaces() {
		j := p.reach(k, func(*job.Envelope) {})
		c, err := k.s.SaveCheckpoint(k.ctx(), job.Claim{ID: j.ID}, json.RawMessage(`{"a":1}`), nil)
		if p.state.Terminal() {
			if e := k.is(p.name, err, job.Conflict); e.Details["current_state"] != string(p.state) || k.read(j.ID).Checkpoint != nil {
				k.t.Errorf("%s: details %v", p.name, e.Details)
			}
		} else if err != nil || c.Sequence != 1 || k.read(j.ID).State != p.state {
			k.t.Errorf("%s: %+v, %v", p.name, c, err)
		}
		k.clear(k.read(j.ID))
	}
	_, err := k.s.SaveCheckpoint(k.ctx(), job.Claim{ID: newID()}, json.RawMessage("{}"), nil)
	k.is("a job that never was", err, job.NotFound)
}

func checkpointIsFenced(k *kit) {
	k.push(nil)
	lost := k.one(job.FetchRequest{Worker: "w1", Visibility: blink})
	k.until(lost.ID, job.Available)
	_, err := k.s.SaveCheckpoint(k.ctx(), claimOf(lost), json.RawMessage("{}"), nil)
	k.is("nobody holds it", err, job.Conflict)
	held := k.one(job.FetchRequest{Worker: "w2"})
	for _, c := range []job.Claim{claimOf(lost), {ID: lost.ID, Worker: "w1"}} {
		_, err := k.s.SaveCheckpoint(k.ctx(), c, json.RawMessage("{}"), nil)
		k.is("another holds it", err, job.Conflict)
	}
	if k.read(held.ID).Checkpoint != nil {
		k.t.Error("it was saved")
	}
	k.save(job.Claim{ID: held.ID, Worker: "w2"}, "{}")
}

func checkpointRefused(k *kit) {
	j := k.push(nil)
	k.save(job.Claim{ID: j.ID}, `{"a":1}`)
	before := text(k.read(j.ID))
	for _, tt := range []struct {
		state, metadata string
		kind            job.Kind
	}{
		{"", "", job.Invalid}, {"[1]", "", job.Invalid}, {"{", "", job.Malformed}, {"{}", "nul", job.Malformed},
		{`{"a":"` + strings.Repeat("x", job.MaxCheckpointBytes) + `"}`, "", job.TooLarge},
		{"{}", `"` + strings.Repeat("x", job.MaxCheckpointBytes) + `"`, job.TooLarge},
	} {
		var metadata json.RawMessage
		if tt.metadata != "" {
			metadata = json.RawMessage(tt.metadata)
		}
		_, err := k.s.SaveCheckpoint(k.ctx(), job.Claim{ID: j.ID}, json.RawMessage(tt.state), metadata)
		k.is(fmt.Sprintf("%.20q, %.20q", tt.state, tt.metadata), err, tt.kind)
	}
	if now := text(k.read(j.ID)); now != before {
		k.t.Errorf("now\n%s\nbefore\n%s", now, before)
	}
}

func outcomeIsTold(k *kit) {
	final := func(e *job.Envelope) { e.Retry = json.RawMessage(`{"max_attempts":1}`) }
	for name, end := range map[string]struct {
		do   func(*job.Job)
		want string
	}{
		"ACK":    {func(j *job.Job) { k.ack(j, `{"ok": 1e2}`) }, `completed {"ok": 1e2} `},
		"FAIL":   {func(j *job.Job) { k.fail(j, job.Failure{Type: "E", Message: "no"}) }, `discarded  "E"`},
		"CANCEL": {func(j *job.Job) { _, _ = k.s.Cancel(k.ctx(), j.ID, "", "") }, `cancelled  `},
		"a cut reservation": {func(j *job.Job) {
			if _, err := k.s.Beat(k.ctx(), job.Beat{Worker: job.WorkerInfo{ID: "w1"}, Jobs: []job.Claim{claimOf(j)}, Visibility: time.Millisecond}); err != nil {
				k.t.Error(err)
			}
		}, `discarded  "visibility_timeout"`},
	} {
		k.push(final)
		j := k.take()
		var waiters sync.WaitGroup
		for range 3 {
			waiters.Go(func() {
				o, err := k.s.Outcome(k.ctx(), j.ID, patience)
				got := fmt.Sprintf("%s %s %s", o.State, o.Result, member(k.t, o.Error, "type"))
				if err != nil || got != end.want || o.ID != j.ID || o.FinishedAt.IsZero() {
					k.t.Errorf("%s: %s, %+v, %v; want %s", name, got, o, err, end.want)
				}
			})
		}
		k.pause(blink)
		end.do(j)
		began := time.Now()
		waiters.Wait()
		if took := time.Since(began); took > soon {
			k.t.Errorf("%s: told after %v", name, took)
		}
	}
}

func outcomeInVain(k *kit) {
	k.push(nil)
	j := k.take()
	for _, wait := range []time.Duration{0, blink} {
		if o, err := k.s.Outcome(k.ctx(), j.ID, wait); err != nil || o.State != job.Active || o.ID != j.ID || !o.FinishedAt.IsZero() {
			k.t.Errorf("after %v: %+v, %v", wait, o, err)
		}
	}
	k.ack(j, "null")
	began := time.Now()
	for _, wait := range []time.Duration{0, time.Minute} {
		if o, err := k.s.Outcome(k.ctx(), j.ID, wait); err != nil || o.State != job.Completed || string(o.Result) != "null" || time.Since(began) > soon {
			k.t.Errorf("ended, asked with %v: %+v, %v", wait, o, err)
		}
	}
	for _, wait := range []time.Duration{0, time.Minute} {
		_, err := k.s.Outcome(k.ctx(), newID(), wait)
		k.is("a job that never was", err, job.NotFound)
	}
}

func outcomesOfMany(k *kit) {
	done := k.push(nil)
	k.ack(k.take(), `[1]`)
	waits := k.push(nil)
	never := newID()
	got, err := k.s.Outcomes(k.ctx(), []job.ID{done.ID, never, waits.ID, done.ID})
	if err != nil || len(got) != 2 || string(got[done.ID].Result) != "[1]" || got[done.ID].State != job.Completed || got[waits.ID].State != job.Available || got[waits.ID].Result != nil {
		k.t.Errorf("got %+v, %v", got, err)
	}
	_, err = k.s.Outcomes(k.ctx(), nil)
	k.is("none", err, job.Invalid)
	_, err = k.s.Outcomes(k.ctx(), slices.Repeat([]job.ID{never}, job.MaxOutcomes+1))
	k.is("too many", err, job.TooLarge)
	var large []job.ID
	for range job.MaxOutcomesBytes/job.MaxResultBytes + 1 {
		large = append(large, k.push(nil).ID)
	}
	k.clear(waits)
	for range large {
		k.ack(k.take(), `"`+strings.Repeat("x", job.MaxResultBytes-2)+`"`)
	}
	if got, err := k.s.Outcomes(k.ctx(), large[:2]); err != nil || len(got[large[1]].Result) != job.MaxResultBytes {
		k.t.Errorf("got %d, %v", len(got), err)
	}
	_, err = k.s.Outcomes(k.ctx(), large)
	k.is("too large", err, job.TooLarge)
}
