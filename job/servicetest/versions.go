package servicetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var versioning = []verdict{
	{"a FETCH takes the versions that it names, and all jobs of other types", versionsFetched},
	{"random versions, filters, tenants and priorities agree with a plain model", versionsModel},
	{"a NEXT takes the versions that it names", versionsNext},
	{"a waiting FETCH is woken by a version that it takes, and by no other", versionsWoken},
	{"many that wait for different versions get each their own", versionsShared},
}

// versions are lists by type, as JSON.
func (k *kit) versions(of string) *job.Versions {
	k.t.Helper()
	v, err := job.ParseVersions(json.RawMessage(of))
	if err != nil {
		k.t.Fatal(err)
	}
	return v
}

// version is a job of a type with a version, in JSON; empty for none.
func version(kind, v string) func(*job.Envelope) {
	return func(e *job.Envelope) {
		if e.Type = kind; v != "" {
			e.Extra = json.RawMessage(`{"x":1,"version":` + v + `}`)
		}
	}
}

func versionsFetched(k *kit) {
	one, two, none, text := k.push(version("a.b", "1")), k.push(version("a.b", "2")), k.push(version("a.b", "")), k.push(version("a.b", `"2"`))
	other := k.push(version("c.d", "1"))
	high := k.push(func(e *job.Envelope) {
		version("a.b", "2.0")(e)
		e.Priority = 5
	})
	took := func(of string, want ...*job.Job) {
		k.t.Helper()
		var got, wanted []job.ID
		for _, j := range k.fetch(job.FetchRequest{Count: 9, Versions: k.versions(of)}) {
			got = append(got, j.ID)
			if _, err := k.s.Fail(k.ctx(), k.claim(j), job.Failure{Requeue: true}); err != nil {
				k.t.Fatal(err)
			}
		}
		for _, j := range want {
			wanted = append(wanted, j.ID)
		}
		if !slices.Equal(got, wanted) {
			k.t.Errorf("%s: got %v, want %v", of, got, wanted)
		}
	}
	took(`{"a.b":[2]}`, high, two, other)
	took(`{"a.b":["2"],"c.d":[7]}`, text)
	took(`{"a.b":[]}`, other)
	took(`{"a.b":[null,1]}`, one, none, other)
	took(`{"x.y":[1]}`, high, one, two, none, text, other)
	took(`{}`, high, one, two, none, text, other)
	k.shows(k.read(text.ID), "version", `"2"`)
}

func versionsNext(k *kit) {
	first := k.push(version("a.b", "1"))
	held := k.take()
	if held.ID != first.ID {
		k.t.Fatalf("took %s", held.ID)
	}
	k.push(version("a.b", "2"))
	want := k.push(version("a.b", "1"))
	_, jobs, err := k.s.Next(k.ctx(), []job.AckRequest{{Claim: k.claim(held)}}, job.FetchRequest{Queues: []string{queue}, Versions: k.versions(`{"a.b":[1]}`)})
	if err != nil || len(jobs) != 1 || jobs[0].ID != want.ID {
		k.t.Errorf("got %v, %v, want %s", jobs, err, want.ID)
	}
}

func versionsWoken(k *kit) {
	out := k.waiter(job.FetchRequest{Versions: k.versions(`{"a.b":[2]}`), Wait: 2 * patience})
	behind := k.waiter(job.FetchRequest{Wait: 2 * patience})
	other := k.push(version("a.b", "1"))
	if got := k.woken("who takes all, behind one who does not", behind); got.ID != other.ID {
		k.t.Errorf("got %s, want %s", got.ID, other.ID)
	}
	wrong := k.push(version("a.b", "3"))
	k.pause(blink)
	select {
	case jobs := <-out:
		k.t.Fatalf("woken by another version with %v", jobs)
	default:
	}
	want := k.push(version("a.b", "2"))
	if got := k.woken("its own version", out); got.ID != want.ID {
		k.t.Errorf("got %s, want %s", got.ID, want.ID)
	}
	if got := k.take(); got.ID != wrong.ID {
		k.t.Errorf("got %s, want %s", got.ID, wrong.ID)
	}
	if got := k.fetch(job.FetchRequest{Versions: k.versions(`{"a.b":[2]}`), Wait: blink}); len(got) != 0 {
		k.t.Errorf("at the end of its time it has %v", got)
	}
}

// versionsShared has several wait for each version, and for all, and jobs come in any order.
func versionsShared(k *kit) {
	const each, kinds = 3, 3
	type taken struct {
		of   int
		jobs []*job.Job
		err  error
	}
	out := make(chan taken, each*kinds)
	for range each {
		for v := range kinds {
			f := job.FetchRequest{Queues: []string{queue}, Wait: 2 * patience, Versions: k.versions(fmt.Sprintf(`{"a.b":[%d]}`, v))}
			go func() {
				jobs, err := k.s.Fetch(k.ctx(), f)
				out <- taken{v, jobs, err}
			}()
		}
	}
	k.pause(blink)
	r := rand.New(rand.NewPCG(1, 2))
	for _, i := range r.Perm(each * kinds) {
		k.push(version("a.b", fmt.Sprint(i%kinds)))
	}
	late := time.After(soon)
	for range each * kinds {
		select {
		case got := <-out:
			if got.err != nil || len(got.jobs) != 1 || member(k.t, got.jobs[0].Extra, "version") != fmt.Sprint(got.of) {
				k.t.Errorf("who waits for %d got %v, %v", got.of, got.jobs, got.err)
			}
		case <-late:
			k.t.Fatal("somebody waits for a job that is there")
		}
	}
}

// versionsModel compares random claims with a list that is looked through.
func versionsModel(k *kit) {
	type line struct {
		id                  job.ID
		queue, kind, v, who string
		priority            int
	}
	r := rand.New(rand.NewPCG(22, 4))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	kinds, given := []string{"a.b", "c.d"}, []string{"", "1", "1.0", `"1"`, "2", `"x"`, "null"}
	value := map[string]string{"": "null", "1.0": "1"}
	var lines []line
	for step := range 400 {
		if r.IntN(3) > 0 {
			l := line{queue: pick(queue, "other"), kind: pick(kinds...), v: pick(given...), who: pick("", "", "acme"), priority: r.IntN(3)}
			j := k.pushFor(l.who, func(e *job.Envelope) {
				version(l.kind, l.v)(e)
				e.Queue, e.Priority = l.queue, l.priority
			})
			l.id, l.v = j.ID, cmp.Or(value[l.v], l.v)
			lines = append(lines, l)
			continue
		}
		of := map[string][]any{}
		wants := map[string]map[string]bool{}
		for _, kind := range kinds {
			if r.IntN(3) == 0 {
				continue
			}
			wants[kind], of[kind] = map[string]bool{}, []any{}
			for range r.IntN(4) {
				v := pick("null", "1", `"1"`, "2", `"x"`, "3")
				wants[kind][v] = true
				of[kind] = append(of[kind], json.RawMessage(v))
			}
		}
		versions, err := job.NewVersions(of)
		if err != nil {
			k.t.Fatal(err)
		}
		f := job.FetchRequest{Queues: []string{queue, "other"}[:1+r.IntN(2)], Count: 1 + r.IntN(5), Tenant: pick("", "", "acme"), Versions: versions}
		var fit []line
		for _, l := range lines {
			if named := wants[l.kind]; slices.Contains(f.Queues, l.queue) && (named == nil || named[l.v]) && (f.Tenant == "" || l.who == f.Tenant) {
				fit = append(fit, l)
			}
		}
		slices.SortStableFunc(fit, func(a, b line) int {
			return cmp.Or(slices.Index(f.Queues, a.queue)-slices.Index(f.Queues, b.queue), b.priority-a.priority)
		})
		fit = fit[:min(f.Count, len(fit))]
		jobs, err := k.s.Fetch(k.as(f.Tenant), f)
		if err != nil {
			k.t.Fatal(err)
		}
		var got, want []job.ID
		for _, j := range jobs {
			got = append(got, j.ID)
		}
		for _, l := range fit {
			want = append(want, l.id)
		}
		if !slices.Equal(got, want) {
			k.t.Fatalf("step %d: %s in %v of %q gave %v, want %v", step, versions.JSON(), f.Queues, f.Tenant, got, want)
		}
		lines = slices.DeleteFunc(lines, func(l line) bool { return slices.Contains(got, l.id) })
		for _, j := range jobs {
			if r.IntN(4) == 0 {
				k.fail(j, job.Failure{Code: "DISCARD"})
			}
		}
	}
}
