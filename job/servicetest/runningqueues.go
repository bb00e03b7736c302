package servicetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var runningQueues = []verdict{
	{"of a paused queue nothing is claimed, and it takes jobs", pausing},
	{"a queue that is resumed wakes those who wait for it", resuming},
	{"a queue that drains refuses jobs, and gives those that it has", draining},
	{"a queue is made once, with its configuration", creating},
	{"a configuration is set, read back and changed", configuring},
	{"a bad configuration is refused by name, and changes nothing", badConfigurations},
	{"the template holds for queues that leave a member open", templating},
	{"a queue is deleted as it was asked", deleting},
	{"finished jobs of a queue are purged", purging},
	{"a default policy stands under that of a job", defaultRetry},
	{"a queue with a bound refuses what it has no room for", rejecting},
	{"a queue with a bound lets a push wait for room", blocking},
	{"the first jobs of a workflow are let into a queue as those of a push are", beginning},
	{"a queue with a bound drops its oldest jobs", dropping},
	{"a push to a queue that is nearly full is warned", warned},
	{"what stands in a full queue already answers for itself", fullAgain},
	{"a changed priority changes the order of claims", reprioritizing},
	{"what happened in a queue is counted", counting},
}

func (k *kit) turn(name, status string) job.Queue {
	k.t.Helper()
	q, err := k.s.SetQueueStatus(k.ctx(), name, status, "ada")
	if err != nil || q.Name != name || q.Paused != (status == job.QueuePaused) || q.Draining != (status == job.QueueDraining) {
		k.t.Fatalf("%s %s: %+v, %v", status, name, q, err)
	}
	return q
}

func (k *kit) configure(name, config string) {
	k.t.Helper()
	if _, err := k.s.SetQueueConfig(k.ctx(), name, json.RawMessage(config), false); err != nil {
		k.t.Fatalf("configure %s: %v", name, err)
	}
}

func (k *kit) ofKind(kind string) (es []job.Event) {
	k.t.Helper()
	es, err := k.s.Events(k.ctx(), job.EventFilter{Types: []string{kind}, Limit: 1000})
	if err != nil {
		k.t.Fatal(err)
	}
	return es
}

func (k *kit) toldOf(kind string, n int) {
	k.t.Helper()
	if es := k.ofKind(kind); len(es) != n {
		k.t.Errorf("%d events %s, want %d: %+v", len(es), kind, n, es)
	}
}

func pausing(k *kit) {
	running := k.named("running")
	k.take()
	q := k.turn(queue, job.QueuePaused)
	if q.Since.IsZero() || q.By != "ada" {
		k.t.Errorf("it does not say since when, and by whom: %+v", q)
	}
	k.named("waiting")
	k.none()
	if j := k.read(running.ID); j.State != job.Active {
		k.t.Errorf("what ran is %s", j.State)
	}
	if again := k.turn(queue, job.QueuePaused); !again.Since.Equal(q.Since) {
		k.t.Errorf("paused twice: since %v, was %v", again.Since, q.Since)
	}
	k.toldOf("queue.paused", 1)
	if got, err := k.s.Queue(k.ctx(), queue); err != nil || !got.Paused || got.Counts[job.Available] != 1 {
		k.t.Errorf("%+v, %v", got, err)
	}
	k.push(func(e *job.Envelope) { e.Queue, e.Type = "other", "other" })
	k.order(k.fetch(job.FetchRequest{Queues: []string{queue, "other"}, Count: 9}), "other")
	k.turn(queue, job.QueueActive)
	k.toldOf("queue.resumed", 1)
	k.order(k.fetch(job.FetchRequest{Count: 9}), "waiting")
	k.turn("never.used", job.QueuePaused)
	k.toldOf("queue.created", 1)
	if h, err := k.s.Health(k.ctx()); err != nil || h.Paused != 1 {
		k.t.Errorf("%+v, %v", h, err)
	}
	for _, bad := range []func() error{
		func() error { _, err := k.s.SetQueueStatus(k.ctx(), "No Queue", job.QueuePaused, ""); return err },
		func() error { _, err := k.s.SetQueueStatus(k.ctx(), queue, "asleep", ""); return err },
	} {
		if err := bad(); job.KindOf(err) != job.Invalid || err == nil {
			k.t.Errorf("got %v", err)
		}
	}
}

func resuming(k *kit) {
	k.turn(queue, job.QueuePaused)
	k.named("a")
	k.named("b")
	var waiting sync.WaitGroup
	got := make(chan string, 2)
	for range 2 {
		waiting.Go(func() {
			jobs, err := k.s.Fetch(k.ctx(), job.FetchRequest{Queues: []string{queue}, Wait: patience})
			if err != nil || len(jobs) != 1 {
				k.t.Errorf("fetched %d jobs, %v", len(jobs), err)
				return
			}
			got <- jobs[0].Type
		})
	}
	time.Sleep(blink) // for both to wait, mostly; those that come later find the jobs
	began := time.Now()
	k.turn(queue, job.QueueActive)
	waiting.Wait()
	if took := time.Since(began); took > soon {
		k.t.Errorf("they were woken after %v", took)
	}
	close(got)
	var types []string
	for kind := range got {
		types = append(types, kind)
	}
	if slices.Sort(types); !slices.Equal(types, []string{"a", "b"}) {
		k.t.Errorf("got %v", types)
	}
}

func draining(k *kit) {
	k.named("a")
	k.turn(queue, job.QueueDraining)
	_, err := k.s.Enqueue(k.ctx(), envelope(nil))
	if job.KindOf(err) != job.QueueClosed || err == nil || !strings.Contains(err.Error(), queue) {
		k.t.Errorf("a push: %v", err)
	}
	_, err = k.s.Enqueue(k.ctx(), envelope(func(e *job.Envelope) { e.Queue = "other" }), envelope(nil))
	if job.KindOf(err) != job.QueueClosed || err == nil || fmt.Sprint(job.DetailsOf(err)["index"]) != "1" {
		k.t.Errorf("a batch: %v, %v", err, job.DetailsOf(err))
	}
	if _, err := k.s.Queue(k.ctx(), "other"); job.KindOf(err) != job.NotFound {
		k.t.Errorf("a job of the batch was stored: %v", err)
	}
	k.order(k.fetch(job.FetchRequest{Count: 9}), "a")
	k.turn(queue, job.QueueActive)
	k.named("b")
}

func creating(k *kit) {
	q, err := k.s.CreateQueue(k.ctx(), "new.one", json.RawMessage(`{"default_timeout":"PT1M","x_own":[1,2.50]}`), "ada")
	if err != nil || q.Name != "new.one" || q.Depth() != 0 || q.CreatedAt.IsZero() {
		k.t.Fatalf("%+v, %v", q, err)
	}
	k.toldOf("queue.created", 1)
	c, err := k.s.QueueConfig(k.ctx(), "new.one")
	if err != nil || c.DefaultTimeout != time.Minute || !strings.Contains(string(c.Raw), `"x_own":[1,2.50]`) {
		k.t.Errorf("%+v, %v", c, err)
	}
	for _, name := range []string{"new.one", queue} {
		k.push(nil)
		if _, err := k.s.CreateQueue(k.ctx(), name, nil, ""); job.KindOf(err) != job.Conflict {
			k.t.Errorf("%s again: %v", name, err)
		}
	}
	for _, name := range []string{"", "_default", "Upper"} {
		if _, err := k.s.CreateQueue(k.ctx(), name, nil, ""); job.KindOf(err) != job.Invalid {
			k.t.Errorf("%q: %v", name, err)
		}
	}
}

func configuring(k *kit) {
	if c, err := k.s.QueueConfig(k.ctx(), "nobody.knows"); err != nil || c.Raw != nil {
		k.t.Errorf("a queue that is not there: %+v, %v", c, err)
	}
	const raw = `{"concurrency":4,"rate_limit":{"limit":10,"period":"minute"},"retention":{"completed":"24h","discarded":"P7D"},"x_later":{"b":1e2,"a":null}}`
	k.configure(queue, raw)
	c, err := k.s.QueueConfig(k.ctx(), queue)
	if err != nil || c.Concurrency != 4 || c.RateLimit != (job.Quota{Limit: 10, Period: time.Minute}) || *c.Retention.Completed != 24*time.Hour || *c.Retention.Discarded != 7*24*time.Hour || c.Retention.Cancelled != nil {
		k.t.Errorf("%+v, %v", c, err)
	}
	if string(c.Raw) != raw {
		k.t.Errorf("got %s\nset %s", c.Raw, raw)
	}
	c, err = k.s.SetQueueConfig(k.ctx(), queue, json.RawMessage(`{"concurrency":null,"visibility_timeout":90}`), true)
	if err != nil || c.Concurrency != 0 || c.Visibility != 90*time.Second || c.RateLimit.Limit != 10 || !strings.Contains(string(c.Raw), `"x_later":{"b":1e2,"a":null}`) {
		k.t.Errorf("patched: %+v %s, %v", c, c.Raw, err)
	}
	if again, err := k.s.QueueConfig(k.ctx(), queue); err != nil || !reflect.DeepEqual(again, c) {
		k.t.Errorf("read back: %+v, %v\nwant %+v", again, err, c)
	}
	k.configure(queue, `{"concurrency":2}`)
	if c, err := k.s.QueueConfig(k.ctx(), queue); err != nil || c.RateLimit.Limit != 0 || string(c.Raw) != `{"concurrency":2}` {
		k.t.Errorf("set anew: %s, %v", c.Raw, err)
	}
}

func badConfigurations(k *kit) {
	const good = `{"concurrency":2,"default_retry":{"max_attempts":5}}`
	k.configure(queue, good)
	for _, bad := range []struct {
		config, field string
		kind          job.Kind
	}{
		{`{"concurrency":0}`, "concurrency", job.Invalid},
		{`{"concurrency":"4"}`, "concurrency", job.Invalid},
		{`{"rate_limit":5}`, "rate_limit", job.Invalid},
		{`{"rate_limit":{"period":1}}`, "rate_limit.limit", job.Invalid},
		{`{"rate_limit":{"limit":1,"period":"fortnight"}}`, "rate_limit.period", job.Invalid},
		{`{"rate_limit":{"limit":1,"period":0}}`, "rate_limit.period", job.Invalid},
		{`{"retention":{"completed":"soon"}}`, "retention.completed", job.Invalid},
		{`{"retention":-1}`, "retention", job.Invalid},
		{`{"default_retry":{"max_attempts":-1}}`, "default_retry.max_attempts", job.BadRetry},
		{`{"default_retry":{"initial_interval":"PT10M"}}`, "default_retry.max_interval", job.BadRetry},
		{`{"default_timeout":"1 minute"}`, "default_timeout", job.Invalid},
		{`{"visibility_timeout":{}}`, "visibility_timeout", job.Invalid},
		{`{"backpressure":{"max_depth":0}}`, "backpressure.max_depth", job.Invalid},
		{`{"backpressure":{"max_depth":1.5}}`, "backpressure.max_depth", job.Invalid},
		{`{"backpressure":{"max_depth":9,"strategy":"panic"}}`, "backpressure.strategy", job.Invalid},
		{`{"backpressure":{"max_depth":9,"warning_threshold":2}}`, "backpressure.warning_threshold", job.Invalid},
		{`{"backpressure":{"max_size_bytes":1000}}`, "backpressure.max_size_bytes", job.Unsupported},
		{`{"max_size":2,"backpressure":{"max_depth":3}}`, "max_size", job.Invalid},
		{`{"max_size":2,"overflow_policy":"wait"}`, "overflow_policy", job.Invalid},
	} {
		for _, patch := range []bool{false, true} {
			_, err := k.s.SetQueueConfig(k.ctx(), queue, json.RawMessage(bad.config), patch)
			if err == nil || job.KindOf(err) != bad.kind || job.DetailsOf(err)["field"] != bad.field || !strings.Contains(err.Error(), bad.field) {
				k.t.Errorf("%s: %v, %v", bad.config, err, job.DetailsOf(err))
			}
		}
		if _, err := k.s.CreateQueue(k.ctx(), "x"+fmt.Sprint(len(bad.config)), json.RawMessage(bad.config), ""); job.KindOf(err) != bad.kind || err == nil {
			k.t.Errorf("made with %s: %v", bad.config, err)
		}
	}
	if c, err := k.s.QueueConfig(k.ctx(), queue); err != nil || string(c.Raw) != good {
		k.t.Errorf("it is now %s, %v", c.Raw, err)
	}
	if qs, err := k.s.Queues(k.ctx()); err != nil || len(qs) != 2 { // default, and the one that was configured
		k.t.Errorf("%+v, %v", qs, err)
	}
}

func templating(k *kit) {
	k.configure(job.TemplateQueue, `{"backpressure":{"max_depth":1},"default_retry":{"max_attempts":7}}`)
	k.configure("own", `{"backpressure":{"max_depth":2}}`)
	if j := k.push(nil); j.MaxAttempts != 7 {
		k.t.Errorf("max_attempts is %d", j.MaxAttempts)
	}
	if _, err := k.s.Enqueue(k.ctx(), envelope(nil)); job.KindOf(err) != job.QueueFull {
		k.t.Errorf("the bound of the template: %v", err)
	}
	own := envelope(func(e *job.Envelope) { e.Queue = "own" })
	for range 2 {
		if _, err := k.s.Enqueue(k.ctx(), own); err != nil {
			k.t.Error(err)
		}
	}
	if _, err := k.s.Enqueue(k.ctx(), own); job.KindOf(err) != job.QueueFull {
		k.t.Errorf("its own bound: %v", err)
	}
	k.configure(job.TemplateQueue, `{}`)
	k.push(nil)
}

func deleting(k *kit) {
	j := k.push(nil)
	if _, err := k.s.DeleteQueue(k.ctx(), queue, job.QueueDeletion{}); job.KindOf(err) != job.Conflict {
		k.t.Errorf("with a job in it: %v", err)
	}
	k.push(nil) // it was not left draining
	n, err := k.s.DeleteQueue(k.ctx(), queue, job.QueueDeletion{Strategy: job.DeleteMove, Target: "kept"})
	if err != nil || n != 2 {
		k.t.Fatalf("moved %d, %v", n, err)
	}
	if j := k.read(j.ID); j.Queue != "kept" || j.State != job.Available {
		k.t.Errorf("it is %s in %s", j.State, j.Queue)
	}
	if _, err := k.s.Queue(k.ctx(), queue); job.KindOf(err) != job.NotFound {
		k.t.Errorf("the queue: %v", err)
	}
	k.toldOf("queue.deleted", 1)
	k.push(nil) // and it may be used again
	if q, err := k.s.Queue(k.ctx(), queue); err != nil || q.Draining || q.Counts[job.Available] != 1 {
		k.t.Errorf("%+v, %v", q, err)
	}
	active := k.fetch(job.FetchRequest{Queues: []string{"kept"}})[0]
	k.ack(k.fetch(job.FetchRequest{Queues: []string{"kept"}})[0], "")
	k.push(func(e *job.Envelope) { e.Queue, e.ScheduledAt = "kept", time.Now().Add(time.Hour) })
	if n, err = k.s.DeleteQueue(k.ctx(), "kept", job.QueueDeletion{Strategy: "discard"}); err != nil || n != 2 {
		k.t.Fatalf("discarded %d, %v", n, err)
	}
	if _, err := k.s.Job(k.ctx(), active.ID); job.KindOf(err) != job.NotFound {
		k.t.Errorf("a job of it: %v", err)
	}
	for _, bad := range []job.QueueDeletion{{Strategy: "burn"}, {Strategy: job.DeleteMove}, {Strategy: job.DeleteMove, Target: queue}, {Target: "kept"}} {
		if _, err := k.s.DeleteQueue(k.ctx(), queue, bad); job.KindOf(err) != job.Invalid {
			k.t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := k.s.DeleteQueue(k.ctx(), "kept", job.QueueDeletion{}); job.KindOf(err) != job.NotFound {
		k.t.Errorf("again: %v", err)
	}
}

func purging(k *kit) {
	for range 3 {
		k.push(nil)
	}
	k.ack(k.take(), "")
	cancelled := k.push(nil)
	if _, err := k.s.Cancel(k.ctx(), cancelled.ID, "", ""); err != nil {
		k.t.Fatal(err)
	}
	both := job.Purge{States: []job.State{job.Completed, job.Cancelled}}
	dry := both
	dry.DryRun = true
	for range 2 {
		if n, err := k.s.PurgeQueue(k.ctx(), queue, dry); err != nil || n != 2 {
			k.t.Errorf("counted %d, %v", n, err)
		}
	}
	old := both
	old.Before = time.Now().Add(-time.Hour)
	if n, err := k.s.PurgeQueue(k.ctx(), queue, old); err != nil || n != 0 {
		k.t.Errorf("of old ones %d, %v", n, err)
	}
	if n, err := k.s.PurgeQueue(k.ctx(), queue, job.Purge{States: []job.State{job.Cancelled}}); err != nil || n != 1 {
		k.t.Errorf("of cancelled ones %d, %v", n, err)
	}
	if n, err := k.s.PurgeQueue(k.ctx(), queue, both); err != nil || n != 1 {
		k.t.Errorf("of the rest %d, %v", n, err)
	}
	if _, err := k.s.Job(k.ctx(), cancelled.ID); job.KindOf(err) != job.NotFound {
		k.t.Errorf("it is still there: %v", err)
	}
	if q, err := k.s.Queue(k.ctx(), queue); err != nil || q.Counts[job.Completed] != 0 || q.Counts[job.Available] != 2 {
		k.t.Errorf("%+v, %v", q, err)
	}
	for _, bad := range []job.Purge{{}, {States: []job.State{job.Completed, job.Available}}} {
		if _, err := k.s.PurgeQueue(k.ctx(), queue, bad); job.KindOf(err) != job.Invalid {
			k.t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := k.s.PurgeQueue(k.ctx(), "nobody.knows", both); job.KindOf(err) != job.NotFound {
		k.t.Errorf("a queue that is not there: %v", err)
	}
}

func defaultRetry(k *kit) {
	k.configure(queue, `{"default_retry":{"max_attempts":1,"on_exhaustion":"dead_letter"}}`)
	j := k.push(nil)
	if j.MaxAttempts != 1 {
		k.t.Errorf("max_attempts is %d", j.MaxAttempts)
	}
	if j = k.fail(k.take(), job.Failure{Type: "x"}); j.State != job.Discarded || !j.Dead {
		k.t.Errorf("without a policy of its own it is %s, dead letter: %v", j.State, j.Dead)
	}
	k.push(func(e *job.Envelope) { e.Retry = json.RawMessage(`{"max_attempts":2,"initial_interval":"PT0.01S"}`) })
	if j = k.fail(k.take(), job.Failure{Type: "x"}); j.State != job.Retryable {
		k.t.Errorf("with another max_attempts it is %s", j.State)
	}
	if j = k.fail(k.take(), job.Failure{Type: "x"}); j.State != job.Discarded || !j.Dead {
		k.t.Errorf("in the end it is %s, dead letter: %v", j.State, j.Dead)
	}
	k.push(func(e *job.Envelope) { e.Retry = json.RawMessage(`{"on_exhaustion":"discard"}`) })
	if j = k.fail(k.take(), job.Failure{Type: "x"}); j.State != job.Discarded || j.Dead {
		k.t.Errorf("with another on_exhaustion it is %s, dead letter: %v", j.State, j.Dead)
	}
}

func rejecting(k *kit) {
	k.configure(queue, `{"backpressure":{"max_depth":3}}`)
	k.push(nil)
	scheduled := k.push(func(e *job.Envelope) { e.ScheduledAt = time.Now().Add(time.Hour) })
	_, err := k.s.Enqueue(k.ctx(), envelope(nil), envelope(nil))
	if job.KindOf(err) != job.QueueFull || err == nil {
		k.t.Errorf("a batch: %v", err)
	}
	k.push(nil)
	for _, e := range []job.Envelope{envelope(nil), envelope(func(e *job.Envelope) { e.Hold = true }), envelope(func(e *job.Envelope) { e.Unique = json.RawMessage(`{}`) })} {
		_, err = k.s.Enqueue(k.ctx(), e)
		d := job.DetailsOf(err)
		if job.KindOf(err) != job.QueueFull || err == nil || d["queue"] != queue || d["depth"] != 3 || d["bound"] != 3 || d["strategy"] != "reject" {
			k.t.Errorf("%v, %v", err, d)
		}
	}
	k.push(func(e *job.Envelope) { e.Queue = "other" })
	if q, err := k.s.Queue(k.ctx(), queue); err != nil || q.Depth() != 3 {
		k.t.Errorf("%+v, %v", q, err)
	}
	running := k.take()
	if _, err = k.s.Enqueue(k.ctx(), envelope(nil)); job.KindOf(err) != job.QueueFull {
		k.t.Errorf("an active job counts, too: %v", err)
	}
	if j := k.fail(running, job.Failure{Type: "x"}); j.State != job.Retryable { // a retry is exempt
		k.t.Errorf("a retry: %s", j.State)
	}
	if _, err := k.s.Cancel(k.ctx(), scheduled.ID, "", ""); err != nil {
		k.t.Fatal(err)
	}
	k.push(nil)
}

func blocking(k *kit) {
	k.configure(queue, `{"backpressure":{"max_depth":1,"strategy":"block"}}`)
	k.push(nil)
	began := time.Now()
	_, err := k.s.Enqueue(job.WithBlock(k.ctx(), 2*blink), envelope(nil))
	if took := time.Since(began); job.KindOf(err) != job.QueueFull || took < 2*blink || took > patience {
		k.t.Errorf("after %v: %v", took, err)
	}
	if d := job.DetailsOf(err); d["strategy"] != "block" {
		k.t.Errorf("%v", d)
	}
	began = time.Now()
	if _, err := k.s.Enqueue(job.WithBlock(k.ctx(), 0), envelope(nil)); job.KindOf(err) != job.QueueFull || time.Since(began) > soon {
		k.t.Errorf("who does not wait: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := k.s.Enqueue(job.WithBlock(k.ctx(), patience), envelope(func(e *job.Envelope) { e.Type = "later" }))
		done <- err
	}()
	j := k.take()
	time.Sleep(blink)
	select {
	case err := <-done:
		k.t.Fatalf("it did not wait: %v", err)
	default:
	}
	began = time.Now()
	k.ack(j, "")
	if err := <-done; err != nil || time.Since(began) > soon {
		k.t.Errorf("woken after %v: %v", time.Since(began), err)
	}
	k.order(k.fetch(job.FetchRequest{Count: 9}), "later")
}

func beginning(k *kit) {
	none := func(what string) {
		k.t.Helper()
		if p, err := k.s.Workflows(k.ctx(), job.WorkflowFilter{}); err != nil || p.Total != 0 {
			k.t.Errorf("%s: %d workflows are stored, %v", what, p.Total, err)
		}
	}
	k.turn(queue, job.QueueDraining)
	_, _, err := k.s.StartWorkflow(k.ctx(), job.Chain("", do("a", nil)))
	k.is("into a queue that drains", err, job.QueueClosed)
	none("into a queue that drains")
	k.turn(queue, job.QueueActive)
	k.configure(queue, `{"backpressure":{"max_depth":1,"strategy":"block"}}`)
	pair := job.Group("", do("a", nil), do("b", nil))
	began := time.Now()
	if _, _, err := k.s.StartWorkflow(job.WithBlock(k.ctx(), 0), pair); job.KindOf(err) != job.QueueFull || time.Since(began) > soon {
		k.t.Errorf("two at once into a queue for one: %v", err)
	}
	k.push(nil)
	began = time.Now()
	if _, _, err := k.s.StartWorkflow(job.WithBlock(k.ctx(), 2*blink), job.Chain("", do("a", nil))); job.KindOf(err) != job.QueueFull || time.Since(began) < 2*blink {
		k.t.Errorf("after %v: %v", time.Since(began), err)
	}
	none("into a full queue")
	done := make(chan error, 1)
	go func() {
		_, _, err := k.s.StartWorkflow(job.WithBlock(k.ctx(), patience), job.Chain("", do("a", nil), do("b", nil)))
		done <- err
	}()
	j := k.take()
	k.pause(blink)
	k.ack(j, "")
	if err := <-done; err != nil {
		k.t.Errorf("once there is room: %v", err)
	}
	a := k.take()
	k.configure(queue, `{"backpressure":{"max_depth":2}}`)
	k.named("beside")
	k.configure(queue, `{"backpressure":{"max_depth":1}}`)
	k.ack(a, "") // the step that follows is let into a full queue, too
	if got := k.fetch(job.FetchRequest{Count: 9}); len(got) != 2 || got[1].Flow == nil {
		k.t.Errorf("got %v", got)
	}
}

func dropping(k *kit) {
	k.configure(queue, `{"max_size":2,"overflow_policy":"drop_oldest"}`)
	first := k.push(func(e *job.Envelope) { e.Type, e.Priority = "first", 50 }) // the oldest, though it would run first
	k.named("second")
	k.named("third")
	j := k.read(first.ID)
	if j.State != job.Discarded || j.Dead || !strings.Contains(string(j.Error), "queue_full") {
		k.t.Errorf("the oldest is %s: %s", j.State, j.Error)
	}
	es := k.ofKind("backpressure.dropped")
	if len(es) != 1 || es[0].JobID != first.ID || es[0].Queue != queue {
		k.t.Errorf("%+v", es)
	}
	if _, err := k.s.Enqueue(k.ctx(), envelope(nil), envelope(nil), envelope(nil)); job.KindOf(err) != job.QueueFull {
		k.t.Errorf("more than there is room for: %v", err)
	}
	k.order(k.fetch(job.FetchRequest{Count: 9}), "second", "third")
	if _, err := k.s.Enqueue(k.ctx(), envelope(nil)); job.KindOf(err) != job.QueueFull {
		k.t.Errorf("jobs that run are not dropped: %v", err)
	}
}

func warned(k *kit) {
	k.configure(queue, `{"backpressure":{"max_depth":4,"warning_threshold":0.7}}`)
	var about []bool
	for range 4 {
		rs, err := k.s.Enqueue(k.ctx(), envelope(nil))
		if err != nil {
			k.t.Fatal(err)
		}
		about = append(about, len(rs[0].Warnings) == 1 && rs[0].Warnings[0].Field == "queue" && strings.Contains(rs[0].Warnings[0].Message, "of at most 4"))
	}
	if want := []bool{false, false, true, true}; !slices.Equal(about, want) {
		k.t.Errorf("warned: %v, want %v", about, want)
	}
}

func fullAgain(k *kit) {
	k.configure(queue, `{"backpressure":{"max_depth":1}}`)
	same := envelope(func(e *job.Envelope) { e.ID = "019a0000-0000-7000-8000-000000000001" })
	if _, err := k.s.Enqueue(k.ctx(), same); err != nil {
		k.t.Fatal(err)
	}
	rs, err := k.s.Enqueue(k.ctx(), same)
	if err != nil || !rs[0].Existing || rs[0].Verdict != job.SameID {
		k.t.Errorf("the same once more: %+v, %v", rs, err)
	}
}

func reprioritizing(k *kit) {
	low, high := k.named("low"), k.push(func(e *job.Envelope) { e.Type, e.Priority = "high", 5 })
	k.fetch(job.FetchRequest{Queues: []string{"other"}})
	later := k.push(func(e *job.Envelope) { e.Type, e.ScheduledAt = "later", time.Now().Add(time.Hour) })
	ch, err := k.s.Reprioritize(k.ctx(), low.ID, 9)
	if err != nil || ch.Priority != 9 || ch.State != job.Available {
		k.t.Fatalf("%+v, %v", ch, err)
	}
	if ch, err := k.s.Reprioritize(k.ctx(), later.ID, -100); err != nil || ch.State != job.Scheduled || k.read(later.ID).Priority != -100 {
		k.t.Errorf("%+v, %v", ch, err)
	}
	if counts, err := k.s.Priorities(k.ctx(), queue); err != nil || !maps.Equal(counts, map[int]int64{9: 1, 5: 1}) {
		k.t.Errorf("%v, %v", counts, err)
	}
	got := k.fetch(job.FetchRequest{Count: 9})
	k.order(got, "low", "high")
	for _, n := range []int{-101, 101, 255} {
		if _, err := k.s.Reprioritize(k.ctx(), later.ID, n); job.KindOf(err) != job.Invalid {
			k.t.Errorf("%d: %v", n, err)
		}
	}
	if _, err := k.s.Reprioritize(k.ctx(), high.ID, 1); job.KindOf(err) != job.Conflict {
		k.t.Errorf("an active job: %v", err)
	}
	k.ack(got[0], "")
	if _, err := k.s.Reprioritize(k.ctx(), low.ID, 1); job.KindOf(err) != job.Conflict {
		k.t.Errorf("a completed job: %v", err)
	}
	if _, err := k.s.Reprioritize(k.ctx(), "019a0000-0000-7000-8000-000000000001", 1); job.KindOf(err) != job.NotFound {
		k.t.Errorf("no job: %v", err)
	}
}

func counting(k *kit) {
	for range 4 {
		k.push(nil)
	}
	k.ack(k.take(), "")
	k.fail(k.take(), job.Failure{Type: "x"})
	k.take()
	k.push(func(e *job.Envelope) { e.Queue = "other" })
	want := job.Tally{Enqueued: 4, Started: 3, Completed: 1, Failed: 1, Timed: 1}
	r, err := k.s.QueueStats(k.ctx(), queue)
	if got := r.Stats.Tally; err != nil || !sameCounts(got, want) || r.Depth() != 3 || r.Oldest.IsZero() || r.Bound != 0 {
		k.t.Errorf("%+v, %v", r, err)
	}
	all, err := k.s.QueueStats(k.ctx(), "")
	want.Enqueued++
	if err != nil || !sameCounts(all.Stats.Tally, want) || all.Depth() != 4 {
		k.t.Errorf("all queues: %+v, %v", all, err)
	}
	slots, err := k.s.Slots(k.ctx(), "", time.Now().Add(-time.Hour))
	var sum job.Tally
	for _, s := range slots {
		sum.Add(s.Tally)
	}
	if err != nil || !sameCounts(sum, want) {
		k.t.Errorf("slots: %+v, %v", slots, err)
	}
	if r, err := k.s.QueueStats(k.ctx(), "nobody.knows"); err != nil || r.Name != "nobody.knows" || r.Depth() != 0 || r.Stats.Tally != (job.Tally{}) {
		k.t.Errorf("a queue that is not there: %+v, %v", r, err)
	}
}

// sameCounts compares what does not depend on how long something took.
func sameCounts(got, want job.Tally) bool {
	got.Took, got.Waited = want.Took, want.Waited
	return got == want
}
