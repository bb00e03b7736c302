package sqlitestore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
)

// standing is a job as a caller knows it. This model is a list of them in which the
// calls of all groups run one after the other.
type standing struct {
	id       job.ID
	queue    string
	priority int
	place    int // in its queue
	stored   int // which one it was
	state    job.State
	key      string
	holds    bool
	custom   string
	due      time.Time
	meta     string
	told     string // the first letters of what its events say
}

type world struct {
	jobs   map[job.ID]standing
	places int
	stored int
	events int
}

func (w *world) clone() world {
	c := *w
	c.jobs = maps.Clone(w.jobs)
	return c
}

// those are the jobs that fit, in the order of less.
func (w *world) those(fits func(standing) bool, less func(a, b standing) int) (all []standing) {
	for _, s := range w.jobs {
		if fits(s) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, less)
	return all
}

// waiting is a queue in the order in which it is claimed.
func (w *world) waiting(queue string) []standing {
	return w.those(func(s standing) bool { return s.queue == queue && s.state == job.Available }, func(a, b standing) int {
		return cmp.Or(b.priority-a.priority, a.place-b.place)
	})
}

// put changes a job and notes what it tells.
func (w *world) put(s standing, told string) {
	s.told += told
	w.events += len(told)
	w.jobs[s.id] = s
}

func (w *world) insert(a asked) bool {
	if _, taken := w.jobs[a.id]; taken {
		return false
	}
	w.places++
	w.stored++
	s := standing{id: a.id, queue: a.queue, priority: a.priority, place: w.places, stored: w.stored, key: a.key, holds: a.key != "", custom: a.custom, meta: `{"n":0}`, state: job.Available}
	told := "e"
	switch {
	case a.hold:
		s.state = job.Pending
	case a.later > 0:
		s.state, s.due, told = job.Scheduled, storetest.Now.Add(a.later), "s"
	}
	w.put(s, told)
	return true
}

// asked is a new job.
type asked struct {
	id       job.ID
	queue    string
	priority int
	key      string
	custom   string
	hold     bool
	later    time.Duration
}

func (a asked) String() string {
	return fmt.Sprintf("%s to %s at %d key %q custom %q hold %v later %v", a.id, a.queue, a.priority, a.key, a.custom, a.hold, a.later)
}

// job is the new job, made anew: a call may run more than once.
func (a asked) job() *job.Job {
	e := job.Envelope{ID: a.id, Type: "a.b", Queue: a.queue, Priority: a.priority, Args: json.RawMessage(`[1]`), Meta: json.RawMessage(`{"n":0}`),
		Hold: a.hold, Delay: a.later, CustomID: a.custom, MaxAttempts: 1000}
	if a.key != "" {
		e.Unique, e.Args = json.RawMessage(`{"keys":["args"]}`), json.RawMessage(`["`+a.key+`"]`)
	}
	c, err := e.Check()
	if err != nil {
		panic(err)
	}
	j, err := c.Push(storetest.Now)
	if err != nil {
		panic(err)
	}
	return j
}

var fingerprints sync.Map

// fingerprint is that of the jobs with a key.
func fingerprint(key string) string {
	f, ok := fingerprints.Load(key)
	if !ok {
		f, _ = fingerprints.LoadOrStore(key, asked{id: "0197f6a0-0000-7000-8000-000000000000", queue: "q", key: key}.job().Fingerprint)
	}
	return f.(string)
}

// A deed is one thing that a call does: to a store, and in the model. Both say what came of it.
type deed struct {
	name  string
	store func(t *tx) (string, error)
	model func(w *world) string
}

// lookUp is a step that changes one job that stands in some state.
func lookUp(name string, id job.ID, verb func(*job.Job) error, save func(*tx, *job.Job) error, in func(standing) bool, change func(*world, *standing) string) deed {
	return deed{name + " " + string(id), func(t *tx) (string, error) {
		j, err := t.Job(id)
		if job.KindOf(err) == job.NotFound {
			return "none", nil
		}
		if err != nil {
			return "", err
		}
		if !in(standing{state: j.State}) {
			return string(j.State), nil
		}
		if err := verb(j); err != nil {
			return "", err
		}
		if err := save(t, j); err != nil {
			return "", err
		}
		return "done", nil
	}, func(w *world) string {
		s, ok := w.jobs[id]
		switch {
		case !ok:
			return "none"
		case !in(s):
			return string(s.state)
		}
		w.put(s, change(w, &s))
		return "done"
	}}
}

func stateIs(states ...job.State) func(standing) bool {
	return func(s standing) bool { return slices.Contains(states, s.state) }
}

func update(t *tx, j *job.Job) error { return t.UpdateJob(j) }

// groups plays groups of calls against a store and the model.
type groups struct {
	*rapid.T
	path  string
	store *Store
	world world
	pool  []job.ID
	fresh int
}

func (g *groups) open() {
	var err error
	if g.store, err = Open(context.Background(), g.path, Options{alone: true}); err != nil {
		g.Fatal(err)
	}
}

// id is one that may be taken, or, more often, one that nobody had.
func (g *groups) id() job.ID {
	if rapid.IntRange(0, 2).Draw(g.T, "of the pool") == 0 {
		return rapid.SampledFrom(g.pool).Draw(g.T, "id")
	}
	return g.newID()
}

func (g *groups) newID() job.ID {
	g.fresh++
	return job.ID(fmt.Sprintf("0197f6a0-%04x-7000-8000-%012x", (g.fresh*7919)&0xffff, g.fresh)) // in another order than they come
}

// known is an id that mostly somebody has.
func (g *groups) known() job.ID {
	if n := rapid.IntRange(0, g.fresh+len(g.pool)).Draw(g.T, "known"); n < len(g.pool) {
		return g.pool[n]
	} else if n -= len(g.pool); n > 0 {
		return job.ID(fmt.Sprintf("0197f6a0-%04x-7000-8000-%012x", (n*7919)&0xffff, n))
	}
	return g.pool[0]
}

var (
	queuesOfGroups = []string{"a", "b", "c"}
	keysOfGroups   = []string{"k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8"}
)

func (g *groups) plain() asked {
	return asked{id: g.id(), queue: rapid.SampledFrom(queuesOfGroups).Draw(g.T, "queue"), priority: rapid.IntRange(-2, 2).Draw(g.T, "priority")}
}

func (g *groups) keyed() asked {
	a := g.plain()
	a.key = rapid.SampledFrom(keysOfGroups).Draw(g.T, "key")
	return a
}

func (g *groups) special() asked {
	a := g.plain()
	switch rapid.IntRange(0, 2).Draw(g.T, "special") {
	case 0:
		a.hold = true
	case 1:
		a.later = time.Duration(rapid.IntRange(1, 3).Draw(g.T, "later")) * time.Hour
	case 2:
		a.custom = rapid.SampledFrom([]string{"x", "y", "z"}).Draw(g.T, "custom")
	}
	return a
}

// stepInsert stores one job; its key and its custom id are looked for before.
func stepInsert(a asked) deed {
	return deed{"insert " + a.String(), func(t *tx) (string, error) {
		found := ""
		if a.key != "" {
			twins, err := t.Twins(fingerprint(a.key), "")
			if err != nil {
				return "", err
			}
			for _, j := range twins {
				found += fmt.Sprintf("%s %v;", j.ID, j.Holds != 0)
				if j.Holds != 0 {
					return found, nil
				}
			}
		}
		if a.custom != "" {
			if j, err := t.Custom(a.queue, a.custom); err != nil {
				return "", err
			} else if j != nil {
				return "custom " + string(j.ID), nil
			}
		}
		err := t.InsertJob(a.job())
		if job.KindOf(err) == job.Duplicate {
			return found + "taken", nil
		}
		return found + "stored", err
	}, func(w *world) string {
		found := ""
		if a.key != "" {
			newest := map[job.State]standing{}
			for _, s := range w.those(func(s standing) bool { return s.key == a.key }, func(a, b standing) int { return a.stored - b.stored }) {
				if s.holds {
					return fmt.Sprintf("%s true;", s.id)
				}
				newest[s.state] = s
			}
			for _, state := range slices.Backward(job.States) {
				if s, ok := newest[state]; ok {
					found += fmt.Sprintf("%s false;", s.id)
				}
			}
		}
		if a.custom != "" {
			for _, s := range w.jobs {
				if s.custom == a.custom && s.queue == a.queue {
					return "custom " + string(s.id)
				}
			}
		}
		if !w.insert(a) {
			return found + "taken"
		}
		return found + "stored"
	}}
}

// stepHolder looks who holds a key, and does no more.
func stepHolder(key string) deed {
	return deed{"who holds " + key, func(t *tx) (string, error) {
		twins, err := t.Twins(fingerprint(key), "")
		for _, j := range twins {
			if j.Holds != 0 {
				return string(j.ID), err
			}
		}
		return "", err
	}, func(w *world) string {
		for _, s := range w.jobs {
			if s.key == key && s.holds {
				return string(s.id)
			}
		}
		return ""
	}}
}

// stepFirst stores a job if no other has its id or its key.
func stepFirst(a asked) deed {
	return deed{"first " + a.String(), func(t *tx) (string, error) {
		stored, err := t.InsertFirst(a.job())
		return fmt.Sprint(stored), err
	}, func(w *world) string {
		for _, s := range w.jobs {
			if s.key == a.key {
				return "false"
			}
		}
		return fmt.Sprint(w.insert(a))
	}}
}

// stepMany stores many jobs.
func stepMany(as []asked) deed {
	return deed{fmt.Sprintf("insert %d: %v", len(as), as), func(t *tx) (string, error) {
		js := make([]*job.Job, len(as))
		for i, a := range as {
			js[i] = a.job()
		}
		stored, err := t.InsertJobs(js)
		return fmt.Sprint(stored), err
	}, func(w *world) string {
		stored := make([]bool, len(as))
		for i, a := range as {
			stored[i] = w.insert(a)
		}
		return fmt.Sprint(stored)
	}}
}

// stepClaim gives the first jobs of some queues to a worker.
func stepClaim(queues []string, n int) deed {
	return deed{fmt.Sprintf("claim %d of %v", n, queues), func(t *tx) (string, error) {
		js, err := t.Available(queues, n)
		got := ""
		for _, j := range js {
			if err := j.Start(evening, job.Lease{Token: "t", Length: time.Minute}); err != nil {
				return "", err
			}
			if err := t.UpdateJob(j); err != nil {
				return "", err
			}
			got += string(j.ID) + " "
		}
		return got, err
	}, func(w *world) (got string) {
		for i, q := range queues {
			if slices.Contains(queues[:i], q) {
				continue
			}
			for _, s := range w.waiting(q) {
				if n == 0 {
					break
				}
				n--
				s.state = job.Active
				w.put(s, "b") // begun
				got += string(s.id) + " "
			}
		}
		return got
	}}
}

// stepDue lets scheduled jobs into their queues.
func stepDue(n int) deed {
	return deed{fmt.Sprint("due ", n), func(t *tx) (string, error) {
		at := storetest.Now.Add(2 * time.Hour)
		js, err := t.Due(job.Scheduled, at, n)
		got := ""
		for _, j := range js {
			if err := j.Ready(evening); err != nil {
				return "", err
			}
			if err := t.UpdateJob(j); err != nil {
				return "", err
			}
			got += string(j.ID) + " "
		}
		return got, err
	}, func(w *world) (got string) {
		at := storetest.Now.Add(2 * time.Hour)
		ready := w.those(func(s standing) bool { return s.state == job.Scheduled && !s.due.After(at) }, func(a, b standing) int {
			return cmp.Or(a.due.Compare(b.due), a.place-b.place)
		})
		for _, s := range ready[:min(n, len(ready))] {
			s.enter(w, "e")
			got += string(s.id) + " "
		}
		return got
	}}
}

// enter lets a job into its queue, behind all others of its priority.
func (s standing) enter(w *world, told string) {
	w.places++
	s.state, s.place = job.Available, w.places
	w.put(s, told)
}

// stepList lists the newest ids of a queue.
func stepList(queue string) deed {
	return deed{"list " + queue, func(t *tx) (string, error) {
		page, err := t.Jobs(job.Filter{Queue: queue, Limit: 5})
		got := fmt.Sprint(page.Total, page.AtLeast, page.Next)
		for _, j := range page.Jobs {
			got += fmt.Sprintf(" %s %s", j.ID, j.State)
		}
		return got, err
	}, func(w *world) (got string) {
		all := w.those(func(s standing) bool { return s.queue == queue }, func(a, b standing) int { return strings.Compare(string(b.id), string(a.id)) })
		next := ""
		if len(all) > 5 {
			next = string(all[4].id)
		}
		got = fmt.Sprint(len(all), false, next)
		for _, s := range all[:min(5, len(all))] {
			got += fmt.Sprintf(" %s %s", s.id, s.state)
		}
		return got
	}}
}

// letters are what the events of a job say, one letter each.
var letters = map[string]string{"job.enqueued": "e", "job.scheduled": "s", "job.started": "b", "job.completed": "c", "job.failed": "f", "job.discarded": "d",
	"job.cancelled": "x", "job.activated": "a", "job.retrying": "r", "job.updated": "u"}

func spelt(id job.ID, es []job.Event) (s string) {
	for _, e := range es {
		if e.JobID != id {
			s += "of another: "
		}
		s += cmp.Or(letters[e.Type], "["+e.Type+"]")
	}
	return s
}

// stepRead reads all that is known of a job.
func stepRead(id job.ID) deed {
	return deed{"read " + string(id), func(t *tx) (string, error) {
		j, err := t.Job(id)
		if job.KindOf(err) == job.NotFound {
			return "none", nil
		}
		if err != nil {
			return "", err
		}
		es, err := t.History(id)
		return fmt.Sprintf("%s %s %d %s %v %s", j.State, j.Queue, j.Priority, j.Meta, j.Holds != 0, spelt(j.ID, es)), err
	}, func(w *world) string {
		s, ok := w.jobs[id]
		if !ok {
			return "none"
		}
		return fmt.Sprintf("%s %s %d %s %v %s", s.state, s.queue, s.priority, s.meta, s.holds, s.told)
	}}
}

// stepRelax has the writer forget what it remembers.
func stepRelax() deed {
	return deed{"relax", func(t *tx) (string, error) {
		t.w.forget()
		return "", script(t.w.conn, "PRAGMA shrink_memory")
	}, func(*world) string { return "" }}
}

func stepEvent() deed {
	return deed{"event", func(t *tx) (string, error) {
		return "", t.AddEvent(job.Event{Type: "worker.started", Time: storetest.Now, Data: json.RawMessage(`{"worker_id":"w"}`)})
	},
		func(w *world) string { w.events++; return "" }}
}

func stepDelete(id job.ID) deed {
	return deed{"delete " + string(id), func(t *tx) (string, error) {
		err := t.DeleteJob(id)
		if job.KindOf(err) == job.NotFound {
			return "none", nil
		}
		return "done", err
	}, func(w *world) string {
		if _, ok := w.jobs[id]; !ok {
			return "none"
		}
		delete(w.jobs, id)
		return "done"
	}}
}

func (g *groups) step() deed {
	claim := job.Claim{}
	switch rapid.IntRange(0, 21).Draw(g.T, "step") {
	default:
		return stepInsert(g.plain())
	case 7, 8:
		return stepInsert(g.keyed())
	case 9:
		return stepInsert(g.special())
	case 10, 11:
		return stepFirst(g.keyed())
	case 12:
		var as []asked
		for range rapid.IntRange(0, 6).Draw(g.T, "some") {
			as = append(as, rapid.SampledFrom([]func() asked{g.plain, g.plain, g.plain, g.special}).Draw(g.T, "sort")())
		}
		as = slices.DeleteFunc(as, func(a asked) bool { return a.custom != "" }) // which is looked for before
		for range rapid.SampledFrom([]int{0, 0, 0, 31, 64, 150}).Draw(g.T, "more") {
			as = append(as, asked{id: g.newID(), queue: "a", priority: len(as) % 3})
		}
		if len(as) > 1 && rapid.IntRange(0, 3).Draw(g.T, "twice") == 0 {
			as = append(as, as[rapid.IntRange(0, len(as)-1).Draw(g.T, "which")])
		}
		return stepMany(as)
	case 13, 14, 15:
		return stepClaim(rapid.SliceOfN(rapid.SampledFrom(queuesOfGroups), 1, 3).Draw(g.T, "queues"), rapid.SampledFrom([]int{1, 1, 2, 5, 70, 200}).Draw(g.T, "claims"))
	case 16:
		return lookUp("complete", g.known(), func(j *job.Job) error { claim.ID = j.ID; return j.Complete(evening, claim, nil) }, update,
			stateIs(job.Active), func(_ *world, s *standing) string { s.state, s.holds = job.Completed, false; return "c" })
	case 17:
		return lookUp("give back", g.known(), func(j *job.Job) error {
			return j.Fail(evening, job.Claim{ID: j.ID}, job.Failure{Requeue: true, Undelivered: true}, 0)
		}, update, stateIs(job.Active), func(_ *world, s *standing) string { s.state = job.Available; return "e" })
	case 18:
		return lookUp("cancel", g.known(), func(j *job.Job) error { return j.Cancel(evening, "", "") }, update,
			func(s standing) bool { return !s.state.Terminal() }, func(_ *world, s *standing) string { s.state, s.holds = job.Cancelled, false; return "x" })
	case 19:
		switch id := g.known(); rapid.IntRange(0, 3).Draw(g.T, "change") {
		case 0:
			meta := `{"n":` + strconv.Itoa(rapid.IntRange(1, 1000).Draw(g.T, "meta")) + `}`
			return lookUp("rewrite", id, func(j *job.Job) error { j.Meta = json.RawMessage(meta); return nil },
				func(t *tx, j *job.Job) error { return t.RewriteJob(j) }, func(standing) bool { return true },
				func(_ *world, s *standing) string { s.meta = meta; return "" })
		case 1:
			return lookUp("lose", id, func(j *job.Job) error { return j.Lose(evening, "worker_death", 0) }, update,
				stateIs(job.Active), func(w *world, s *standing) string {
					w.places++
					s.state, s.place = job.Available, w.places
					return "fre"
				})
		case 2:
			return lookUp("activate", id, func(j *job.Job) error { return j.Activate(evening) }, update,
				stateIs(job.Pending), func(w *world, s *standing) string {
					w.places++
					s.state, s.place = job.Available, w.places
					return "ae"
				})
		default:
			return stepDelete(id)
		}
	case 20:
		switch rapid.IntRange(0, 5).Draw(g.T, "look") {
		case 4, 5:
			return stepHolder(rapid.SampledFrom(keysOfGroups).Draw(g.T, "key"))
		case 0:
			return stepList(rapid.SampledFrom(queuesOfGroups).Draw(g.T, "queue"))
		case 1:
			return stepDue(rapid.IntRange(1, 3).Draw(g.T, "due"))
		case 2:
			return stepEvent()
		default:
			return stepRelax()
		}
	case 21:
		return stepRead(g.known())
	}
}

// turn is one call of a group.
type turn struct {
	steps []deed
	end   string // "", "fails", "panics", "leaves"
	order int    // when it ran last, of its group; 0: never
	said  []string
}

// evening is when all of it happens but the first.
var evening = storetest.Now.Add(4 * time.Hour)

var errOfCall = job.Errorf(job.Conflict, "this call fails")

// calls are the turns as calls to the store, each of which notes when it ran.
func calls(turns []*turn) (cs []*call) {
	gone, leave := context.WithCancel(context.Background())
	leave()
	ran := 0
	for _, u := range turns {
		ctx := context.Background()
		if u.end == "leaves" {
			ctx = gone
		}
		cs = append(cs, &call{ctx: ctx, done: make(chan error, 1), fn: func(jt job.Tx) error {
			ran++
			u.order, u.said = ran, nil
			for _, s := range u.steps {
				said, err := s.store(jt.(*tx))
				if u.said = append(u.said, said); err != nil {
					return err
				}
			}
			switch u.end {
			case "fails":
				return errOfCall
			case "panics":
				panic("this call panics")
			}
			return nil
		}})
	}
	return cs
}

func (g *groups) group() {
	var turns []*turn
	for range rapid.IntRange(1, 9).Draw(g.T, "calls") {
		u := &turn{end: rapid.SampledFrom([]string{"", "", "", "", "", "", "", "", "", "", "fails", "panics", "leaves"}).Draw(g.T, "ends")}
		for range rapid.IntRange(1, 3).Draw(g.T, "steps") {
			u.steps = append(u.steps, g.step())
		}
		turns = append(turns, u)
	}
	cs := calls(turns)
	if rapid.IntRange(0, 3).Draw(g.T, "at once") == 0 {
		g.atOnce(cs)
	} else {
		for rest := cs; len(rest) > 0; {
			n, err := inOneGroup(g.store.w, rest)
			if err == nil {
				err = g.store.w.mend()
			}
			for _, c := range rest[:n] {
				c.err = cmp.Or(err, c.err)
			}
			rest = rest[n:]
		}
	}
	g.compare(turns, cs)
}

// atOnce has many callers: the first holds the writer until all are there.
func (g *groups) atOnce(cs []*call) {
	var wg sync.WaitGroup
	held, go_ := make(chan struct{}), make(chan struct{})
	wg.Go(func() {
		_ = g.store.Update(context.Background(), func(job.Tx) error { close(held); <-go_; return nil })
	})
	<-held
	for _, c := range cs {
		wg.Go(func() { c.err = g.store.Update(c.ctx, c.fn) })
	}
	for i := 0; len(g.store.w.calls) < len(cs) && i < 1000; i++ { // who has left may not come
		time.Sleep(10 * time.Microsecond)
	}
	close(go_)
	wg.Wait()
}

// compare has the model do what the calls did, in their order.
func (g *groups) compare(turns []*turn, cs []*call) {
	for i := range turns {
		if left := turns[i].end == "leaves"; left != (turns[i].order == 0) || left != errors.Is(cs[i].err, context.Canceled) {
			g.Fatalf("call %d: it leaves: %v, it ran as number %d, and its answer is %v", i, left, turns[i].order, cs[i].err)
		}
	}
	byTurn := map[*turn]error{}
	for i, u := range turns {
		byTurn[u] = cs[i].err
	}
	slices.SortStableFunc(turns, func(a, b *turn) int { return a.order - b.order })
	for i, u := range turns {
		if u.order == 0 {
			continue
		}
		before := g.world.clone()
		for k, s := range u.steps {
			want, got := s.model(&g.world), "(it did not run)"
			if k < len(u.said) {
				got = u.said[k]
			}
			if got != want {
				g.Fatalf("call %d, step %d, %s\ngot  %s\nwant %s\n%v", i, k, s.name, got, want, byTurn[u])
			}
		}
		if u.end != "" {
			g.world = before
		}
		err, kind := byTurn[u], job.Internal
		if u.end == "fails" {
			kind = job.Conflict
		}
		if (err == nil) != (u.end == "") || err != nil && job.KindOf(err) != kind {
			g.Fatalf("call %d, which %s, is answered %v", i, cmp.Or(u.end, "succeeds"), err)
		}
	}
}

// check compares all that is stored with the model.
func (g *groups) check() {
	if err := g.store.View(context.Background(), func(r job.ReadTx) error {
		for _, want := range g.world.jobs {
			j, err := r.Job(want.id)
			if err != nil {
				return err
			}
			es, err := r.History(want.id)
			if err != nil {
				return err
			}
			if got := fmt.Sprintf("%s %s %d %s %v %s %q", j.State, j.Queue, j.Priority, j.Meta, j.Holds != 0, spelt(j.ID, es), j.CustomID); got != fmt.Sprintf("%s %s %d %s %v %s %q", want.state, want.queue, want.priority, want.meta, want.holds, want.told, want.custom) {
				g.Errorf("%s is %s, want %+v", want.id, got, want)
			}
		}
		es, err := r.Events(job.EventFilter{Limit: 1 << 20})
		if err != nil {
			return err
		}
		if len(es) != g.world.events {
			g.Errorf("%d events, want %d", len(es), g.world.events)
		}
		for i, e := range es {
			if e.Seq != int64(i)+1 {
				g.Fatalf("event %d has the number %d", i+1, e.Seq)
			}
		}
		all, err := r.Jobs(job.Filter{Limit: 1})
		if err == nil && all.Total != int64(len(g.world.jobs)) {
			g.Errorf("%d jobs, want %d", all.Total, len(g.world.jobs))
		}
		return err
	}); err != nil {
		g.Fatal(err)
	}
	storetest.Audit(g.T, g.store)
	var sound string
	if err := g.store.readers.Get(&sound, "PRAGMA integrity_check"); err != nil || sound != "ok" {
		g.Errorf("integrity: %s, %v", sound, err)
	}
	var alone int
	if err := g.store.readers.Get(&alone, "SELECT (SELECT count(*) FROM job_bodies WHERE n NOT IN (SELECT n FROM job_states)) + (SELECT count(*) FROM job_states WHERE n NOT IN (SELECT n FROM job_bodies))"); err != nil || alone != 0 {
		g.Errorf("%d rows stand alone, %v", alone, err)
	}
	if trouble := g.store.Trouble(); trouble != nil {
		g.Error("in trouble:", trouble)
	}
}

// drain claims all that waits: this is the order that workers see.
func (g *groups) drain() {
	for _, q := range queuesOfGroups {
		for more := true; more; {
			u := &turn{steps: []deed{stepClaim([]string{q}, rapid.SampledFrom([]int{1, 3, 100}).Draw(g.T, "drained"))}}
			cs := calls([]*turn{u})
			_, cs[0].err = inOneGroup(g.store.w, cs)
			g.compare([]*turn{u}, cs)
			more = u.said[0] != ""
		}
	}
}

// Whatever calls come together, each is answered as if they had come one after the
// other: new jobs that wait in memory, ids and keys that turn out to be taken, calls
// that fail or panic behind what they have written, and the order of the queues, which
// is kept in memory, too. OUTRIDER_GROUPS says how many sequences, 25 by itself.
func TestGroupsAreAsIfOneByOne(t *testing.T) {
	checksOf(t, "OUTRIDER_GROUPS", 25)
	dir := t.TempDir()
	files := 0
	rapid.Check(t, func(r *rapid.T) {
		files++
		g := &groups{T: r, path: filepath.Join(dir, fmt.Sprint(files, ".db")), world: world{jobs: map[job.ID]standing{}}}
		for range 6 {
			g.pool = append(g.pool, g.newID())
		}
		g.open()
		defer func() { _ = g.store.Close(); _ = os.Remove(g.path) }()
		for range rapid.IntRange(1, 20).Draw(r, "groups") {
			switch rapid.IntRange(0, 11).Draw(r, "then") {
			case 0:
				if err := g.store.Close(); err != nil {
					g.Fatal(err)
				}
				g.open()
			case 1:
				if err := g.store.Relax(context.Background()); err != nil {
					g.Fatal(err)
				}
			case 2, 3:
				g.store.w.tx.waits.eager, g.store.w.tx.waits.eagerKeys = 0, 0 // as a hundred groups later
			}
			g.group()
		}
		g.check()
		g.drain()
		g.check()
	})
}

// play has the store do some steps in one call, and compares.
func (g *groups) play(steps ...deed) *turn {
	u := &turn{steps: steps}
	cs := calls([]*turn{u})
	_, cs[0].err = inOneGroup(g.store.w, cs)
	g.compare([]*turn{u}, cs)
	return u
}

// A queue that is deeper than what is remembered of it keeps its order, also where jobs
// come in between and go back to where they were.
func TestDeepQueuesKeepTheirOrder(t *testing.T) {
	checksOf(t, "OUTRIDER_GROUPS", 4)
	dir := t.TempDir()
	files := 0
	rapid.Check(t, func(r *rapid.T) {
		files++
		g := &groups{T: r, path: filepath.Join(dir, fmt.Sprint(files, ".db")), world: world{jobs: map[job.ID]standing{}}}
		g.open()
		defer func() { _ = g.store.Close(); _ = os.Remove(g.path) }()
		many := func(n int) deed {
			as, priorities := make([]asked, n), rapid.IntRange(1, 4).Draw(r, "priorities")
			for i := range as {
				as[i] = asked{id: g.newID(), queue: "a", priority: i * 7 % priorities}
			}
			return stepMany(as)
		}
		g.play(many(rapid.SampledFrom([]int{900, 1100, 2100}).Draw(r, "deep")))
		for range rapid.IntRange(5, 25).Draw(r, "turns") {
			switch rapid.IntRange(0, 6).Draw(r, "turn") {
			case 0:
				g.play(many(rapid.SampledFrom([]int{1, 40, 300}).Draw(r, "more")))
			case 1:
				g.play(stepInsert(asked{id: g.newID(), queue: "a", priority: rapid.IntRange(-1, 4).Draw(r, "priority")}))
			case 2:
				var active []standing
				for _, s := range g.world.those(stateIs(job.Active), func(a, b standing) int { return b.place - a.place }) {
					if rapid.IntRange(0, 9).Draw(r, "back") == 0 {
						active = append(active, s)
					}
				}
				for _, s := range active {
					g.play(lookUp("give back", s.id, func(j *job.Job) error {
						return j.Fail(evening, job.Claim{ID: j.ID}, job.Failure{Requeue: true, Undelivered: true}, 0)
					}, update, stateIs(job.Active), func(_ *world, s *standing) string { s.state = job.Available; return "e" }))
				}
			case 3:
				ready := g.world.waiting("a")
				for range min(5, len(ready)) {
					s := ready[rapid.IntRange(0, len(ready)-1).Draw(r, "cancelled")]
					g.play(lookUp("cancel", s.id, func(j *job.Job) error { return j.Cancel(evening, "", "") }, update,
						stateIs(job.Available), func(_ *world, s *standing) string { s.state = job.Cancelled; return "x" }))
				}
			default:
				g.play(stepClaim([]string{"a"}, rapid.SampledFrom([]int{1, 1, 10, 63, 65, 200, 1000}).Draw(r, "claims")))
			}
		}
		for g.play(stepClaim([]string{"a"}, 150)).said[0] != "" {
		}
	})
}

// What waits in memory to be stored is seen by whatever is asked behind it, as it is a
// group later.
func TestWhatWaitsIsSeen(t *testing.T) {
	const plainID, keyedID = job.ID("0197f6a0-0001-7000-8000-000000000001"), job.ID("0197f6a0-0002-7000-8000-000000000002")
	for name, look := range map[string]func(t *tx) (any, error){
		"job":       func(t *tx) (any, error) { return t.Job(plainID) },
		"job keyed": func(t *tx) (any, error) { return t.Job(keyedID) },
		"twins":     func(t *tx) (any, error) { return t.Twins(fingerprint("k"), "") },
		"claim":     func(t *tx) (any, error) { return t.Available([]string{"q"}, 9) },
		"list":      func(t *tx) (any, error) { return t.Jobs(job.Filter{Limit: 9}) },
		"holding":   func(t *tx) (any, error) { return t.Jobs(job.Filter{Holding: true, Limit: 9}) },
		"history":   func(t *tx) (any, error) { return t.History(keyedID) },
		"first": func(t *tx) (any, error) {
			return t.InsertFirst(asked{id: "0197f6a0-0003-7000-8000-000000000003", queue: "q", key: "k"}.job())
		},
		"taken": func(t *tx) (any, error) {
			return t.InsertJobs([]*job.Job{asked{id: plainID, queue: "q"}.job(), asked{id: keyedID, queue: "q"}.job()})
		},
		"delete": func(t *tx) (any, error) { return nil, errors.Join(t.DeleteJob(plainID), t.DeleteJob(keyedID)) },
		"update": func(t *tx) (any, error) {
			j, err := t.Job(keyedID)
			if err == nil {
				err = errors.Join(j.Cancel(evening, "", ""), t.UpdateJob(j))
			}
			return j, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			said := map[bool]string{} // by the last pass
			for _, apart := range []bool{false, true} {
				s := opened(t)
				passes := 0
				cs := []*call{
					{ctx: t.Context(), fn: func(jt job.Tx) error {
						passes++
						stored, err := jt.(*tx).InsertFirst(asked{id: keyedID, queue: "q", key: "k"}.job())
						if err == nil && !stored {
							err = errors.New("it was not stored")
						}
						return cmp.Or(err, jt.InsertJob(asked{id: plainID, queue: "q"}.job()))
					}},
					{ctx: t.Context(), fn: func(jt job.Tx) error {
						if waits := len(jt.(*tx).waits.bodies) > 0; waits == apart && passes == 1 {
							t.Errorf("something waits: %v", waits)
						}
						jt.(*tx).w.forget() // so that nothing is known but by what is stored
						got, err := look(jt.(*tx))
						b, merr := json.Marshal(got)
						said[apart] = fmt.Sprintf("%s %v", b, err)
						return cmp.Or(err, merr)
					}},
				}
				groups := [][]*call{cs}
				if apart {
					groups = [][]*call{cs[:1], cs[1:]}
				}
				for _, g := range groups {
					if n, err := inOneGroup(s.w, g); n != len(g) || err != nil {
						t.Fatal(n, err)
					}
				}
				for i, c := range cs {
					if c.err != nil {
						t.Errorf("call %d: %v", i, c.err)
					}
				}
				if passes != 1 && name != "first" && name != "taken" {
					t.Errorf("it took %d passes", passes)
				}
			}
			if said[true] != said[false] {
				t.Errorf("in one group\n%s\nin another\n%s", said[false], said[true])
			}
		})
	}
}
