package sidecar_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// actions are the verbs of steps that only do something, which must succeed.
var actions = map[string]func(p *play, name, rest string){
	"pass": func(p *play, _, span string) { p.pass(p.span(span)) },
	"leap": func(p *play, _, span string) { p.leap(p.span(span)) },
	"bring": func(p *play, name, rest string) {
		p.t.Helper()
		what, state, _ := strings.Cut(rest, " to ")
		if !slices.Contains(states, state) {
			p.t.Fatalf("%q is no state", state)
		}
		if name == "" {
			p.move(p.job(what), state)
			return
		}
		body := p.body(what)
		p.jobs[name], p.bodies[name] = p.desk.bring(decode(p.t, body), state), body
	},
	"fetch": func(p *play, _, name string) {
		p.t.Helper()
		j := p.job(name)
		got := p.desk.fetch(j)
		if got == nil || got["id"] != j["id"] || got["state"] != "active" || write(p.t, got["args"]) != write(p.t, p.info(j["id"])["args"]) {
			p.t.Fatalf("fetched %v, want %v", got, j)
		}
	},
	"await":  func(p *play, _, name string) { p.take(p.job(name)) },
	"ack":    func(p *play, _, name string) { p.desk.ack(p.job(name)) },
	"cancel": func(p *play, _, name string) { p.desk.cancel(p.job(name)) },
	"activate": func(p *play, _, name string) {
		p.ask(200, "POST", "/ojs/v1/jobs/"+p.job(name)["id"].(string)+"/activate", "")
	},
	"nack": func(p *play, _, rest string) {
		name, code, coded := strings.Cut(rest, " with ")
		failure := object{"type": "E", "message": "no"}
		if coded {
			failure = object{"code": code, "message": "no"}
		}
		p.desk.nack(p.job(name), failure)
	},
	"revive": func(p *play, _, name string) {
		j := p.job(name)
		again := p.ask(200, "POST", "/ojs/v1/dead-letter/"+j["id"].(string)+"/retry", "")["job"].(object)
		if again["state"] != "available" || again["id"] != j["id"] {
			p.t.Errorf("%v", again)
		}
	},
	"delete": func(p *play, _, name string) {
		p.ask(200, "DELETE", "/ojs/v1/dead-letter/"+p.job(name)["id"].(string), "")
		delete(p.jobs, name)
	},
	"worker": func(p *play, _, rest string) {
		name, ok := strings.CutPrefix(rest, "lost ")
		if !ok {
			p.t.Fatalf("what of the worker: %s", rest)
		}
		p.lost(p.job(name))
	},
	"key":  (*play).key,
	"with": (*play).fingerprints,
	"count": func(p *play, _, rest string) {
		if jobs := p.census(); jobs != p.number(rest) {
			p.t.Errorf("there are %d jobs", jobs)
		}
	},
}

// questions are the verbs of steps with an outcome.
var questions = map[string]func(p *play, name, rest, outcome string){
	"push":          (*play).pushes,
	"policy":        (*play).policy,
	"deduplication": (*play).deduplication,
	"batch":         (*play).batch,
	"events":        (*play).events,
	"fetch": func(p *play, _, name, outcome string) {
		if got := p.desk.fetch(p.job(name)); outcome != "nothing" || got != nil {
			p.t.Errorf("fetched %v, want %s", got, outcome)
		}
	},
	"release": func(p *play, _, rest, outcome string) {
		path, more := p.keyOf(rest)
		if more != "" || outcome != "released" && outcome != "nothing" {
			p.t.Fatalf("%s -> %s", more, outcome)
		}
		p.unchangedBut(nil, []string{"deduplication"}, func() {
			if got := p.ask(200, "DELETE", path, ""); got["released"] != (outcome == "released") {
				p.t.Errorf("%v", got)
			}
		})
	},
}

// outcomes are what can come of a PUSH, about the jobs that the step names. They
// return the job that is new.
var outcomes = map[string]func(p *play, body string, about []object, more string) object{
	"created": func(p *play, body string, _ []object, _ string) object { return p.created(body) },
	"replaces": func(p *play, body string, about []object, _ string) object {
		return p.replaces(body, about[0], about[1:]...)
	},
	"evicts":        func(p *play, body string, about []object, _ string) object { return p.evicts(body, about[0]) },
	"rewrites":      func(p *play, body string, about []object, _ string) object { p.rewrites(body, about[0]); return nil },
	"ignored by":    func(p *play, body string, about []object, _ string) object { p.ignored(body, about[0]); return nil },
	"duplicated by": func(p *play, body string, about []object, _ string) object { p.duplicated(body, about[0]); return nil },
	"suppressed by": func(p *play, body string, about []object, mode string) object {
		p.suppressed(body, about[0], mode)
		return nil
	},
	"invalid":       func(p *play, body string, _ []object, field string) object { p.invalid(body, field); return nil },
	"has the id of": func(p *play, body string, about []object, _ string) object { p.repeated(body, about[0]); return nil },
	"refused by": func(p *play, body string, about []object, key string) object {
		p.refusedAs(body, about[0], key)
		return nil
	},
}

// how the outcomes are written: which jobs they are about, and what else they say.
var outcomeForms = []*regexp.Regexp{
	regexp.MustCompile(`^(created)()()$`),
	regexp.MustCompile(`^(replaces) ([a-z0-9, ]+)()$`),
	regexp.MustCompile(`^(evicts|rewrites|duplicated by|has the id of) ([a-z0-9]+)()$`),
	regexp.MustCompile(`^(ignored by|refused by) ([a-z0-9]+)()(?: like example (\S+))?$`),
	regexp.MustCompile(`^(suppressed by) ([a-z0-9]+) as (simple|throttle|replace|debounce)$`),
	regexp.MustCompile(`^(refused by) ([a-z0-9]+) under (.+)$`),
	regexp.MustCompile(`^(invalid) ()(\S+)$`),
}

// pushes sends a PUSH. Of the jobs that have a name only those change that give
// way to it or are rewritten.
func (p *play) pushes(name, rest, outcome string) {
	p.t.Helper()
	body := p.body(rest)
	var form []string
	for _, f := range outcomeForms {
		if m := f.FindStringSubmatch(outcome); m != nil {
			form = m
		}
	}
	if form == nil {
		p.t.Fatalf("no such outcome: %s", outcome)
	}
	var about []object
	if form[2] != "" {
		about = p.list(form[2])
	}
	var changed []object
	if slices.Contains([]string{"replaces", "evicts", "rewrites"}, form[1]) {
		changed = about
	}
	var j object
	p.unchangedBut(changed, nil, func() { j = outcomes[form[1]](p, body, about, form[3]) })
	if len(form) > 4 && form[4] != "" { // the same again leaves no trace either
		p.like(p.offer(body).body, decode(p.t, example(p.t, "unique-"+form[4])))
	}
	if name == "" {
		return
	}
	if j == nil {
		p.t.Fatalf("%s is no new job", name)
	}
	p.jobs[name], p.bodies[name] = j, body
}

// refusedAs is refused, and the key may be named, or be the hash of an example.
func (p *play) refusedAs(body string, old object, key string) {
	p.t.Helper()
	if text, ok := strings.CutPrefix(key, "the hash of example "); ok {
		sum := sha256.Sum256([]byte(strings.TrimSpace(example(p.t, "unique-"+text))))
		key = hex.EncodeToString(sum[:])
	}
	if got := p.refused(body, old); key != "" && got != key {
		p.t.Errorf("the key is %s, want %s", got, key)
	}
}

// repeated pushes a job whose id is taken.
func (p *play) repeated(body string, old object) {
	p.t.Helper()
	p.idle(old, func() {
		if e := p.ask(409, "POST", "/ojs/v1/jobs", body)["error"].(object); e["code"] != "duplicate" || e["details"].(object)["existing_job_id"] != old["id"] {
			p.t.Errorf("%v", e)
		}
	})
}

// like compares an answer with the document's, but for ids, hashes and prose,
// which must only be there.
func (p *play) like(got, want object) {
	p.t.Helper()
	for name, w := range want {
		g := got[name]
		inner, deeper := w.(object)
		switch {
		case deeper && g != nil:
			p.like(g.(object), inner)
		case slices.Contains([]string{"id", "existing_job_id", "uniqueness_key", "message"}, name):
			if g == nil || g == "" {
				p.t.Errorf("no %s in %v", name, got)
			}
		case !reflect.DeepEqual(g, w):
			p.t.Errorf("%s is %v, want %v", name, g, w)
		}
	}
}

// policy pushes jobs with a unique policy, and args behind "of": at the top level,
// among the options, and in a batch. One that is fine comes back as it was sent.
func (p *play) policy(_, rest, outcome string) {
	p.t.Helper()
	policy, args := p.first(rest)
	args, given := strings.CutPrefix(args, " of ")
	if !given {
		args = `[]`
	}
	p.kinds++
	plain := fmt.Sprintf(`{"type":"policy%d","args":%s,"unique":%s}`, p.kinds, args, policy)
	if field, ok := strings.CutPrefix(outcome, "invalid "); ok {
		p.invalid(plain, field)
		p.invalid(fmt.Sprintf(`{"type":"a.b","args":%s,"options":{"unique":%s}}`, args, policy), field)
		p.invalidBatch(plain, field)
		return
	}
	if outcome != "fine" {
		p.t.Fatalf("no such outcome: %s", outcome)
	}
	p.has(p.created(plain), object{"unique": decode(p.t, policy)})
}

// deduplication pushes jobs with deduplication options that are none, under both names.
func (p *play) deduplication(_, options, outcome string) {
	p.t.Helper()
	field, ok := strings.CutPrefix(outcome, "invalid ")
	if !ok {
		p.t.Fatalf("no such outcome: %s", outcome)
	}
	p.invalid(`{"type":"a.b","args":[],"deduplication":`+options+`}`, field)
	p.invalid(`{"type":"a.b","args":[],"options":{"debounce":`+options+`}}`, field)
}

// fingerprints pushes two jobs with a policy, where each side is args and perhaps
// further members, to the letter: they are the same, or they differ.
func (p *play) fingerprints(_, rest string) {
	p.t.Helper()
	policy, sides := p.first(rest)
	one, two, same := strings.Cut(sides, " equals ")
	if !same {
		var differ bool
		if one, two, differ = strings.Cut(sides, " differs from "); !differ {
			p.t.Fatal("neither equals nor differs from")
		}
	}
	p.kinds++
	push := func(args string) string {
		return fmt.Sprintf(`{"type":"case%d","unique":%s,"args":%s}`, p.kinds, policy, args)
	}
	if old := p.created(push(one)); same {
		p.refused(push(two), old)
	} else {
		p.created(push(two))
	}
}

// batch pushes several jobs together. Its outcome tells of each whether it is new,
// and under which name, "again" the job of a name, or a duplicate of its custom id;
// or which of them refuses all, by which job, where one has a name.
func (p *play) batch(_, rest, outcome string) {
	p.t.Helper()
	var bodies []string
	for part := range strings.SplitSeq(rest, ", ") {
		bodies = append(bodies, p.body(part))
	}
	body := `{"jobs":[` + strings.Join(bodies, ",") + `]}`
	if where, ok := strings.CutPrefix(outcome, "refused at "); ok {
		index, name, _ := strings.Cut(where, " by ")
		p.unchangedBut(nil, nil, func() {
			told := p.adds(0, func() {
				e := p.ask(409, "POST", "/ojs/v1/jobs/batch", body)["error"].(object)
				details := e["details"].(object)
				if e["code"] != "duplicate" || write(p.t, details["index"]) != index || name != "itself" && details["existing_job_id"] != p.job(name)["id"] {
					p.t.Errorf("%v", e)
				}
			})
			if len(told) != 0 {
				p.t.Errorf("told %v", told)
			}
		})
		return
	}
	answer := p.ask(201, "POST", "/ojs/v1/jobs/batch", body)
	got, want := answer["jobs"].([]any), strings.Split(outcome, ", ")
	if len(got) != len(want) || len(got) != len(bodies) || write(p.t, answer["count"]) != fmt.Sprint(len(got)) {
		p.t.Fatalf("%v", answer)
	}
	for i, w := range want {
		j := got[i].(object)
		name, how, met := strings.Cut(w, " ")
		if !met && p.jobs[name] == nil {
			p.jobs[name], p.bodies[name] = p.info(j["id"]), bodies[i]
		}
		isNew := j["deduplicated"] != true
		if j["id"] != p.job(name)["id"] || isNew == met || (j["duplicate_job_id"] == true) != (how == "duplicated") || met && how != "again" && how != "duplicated" {
			p.t.Errorf("element %d is %v, want %s", i, j, w)
		}
	}
}

// events reads the events of a query: none, or a list of type and job, and what
// their data have.
func (p *play) events(_, query, outcome string) {
	p.t.Helper()
	got := p.log(query)
	var want []string
	if outcome != "none" {
		want = strings.Split(outcome, ", ")
	}
	if len(got) != len(want) {
		p.t.Fatalf("told %v", got)
	}
	for i, w := range want {
		kind, more, _ := strings.Cut(w, " of ")
		name, data, _ := strings.Cut(more, " with ")
		var alias any
		if slices.Contains([]string{"job.debounced", "job.deduplicated", "job.duplicated"}, kind) {
			alias = strings.Replace(kind, ".", ":", 1)
		}
		facts, _ := got[i]["data"].(object)
		if got[i]["type"] != kind || got[i]["alias_type"] != alias || facts["job_id"] != p.job(name)["id"] {
			p.t.Errorf("event %d is %v, want %s", i, got[i], w)
		}
		if data != "" {
			p.has(facts, p.json(data))
		}
	}
}

var playKey = regexp.MustCompile(`^(key |debounce )?("(?:[^"\\]|\\.)*")(?: of ([^ ]+))?(?: is (.*))?$`)

// keyOf reads `"id"` or `"id" of queue`, and what it is, and returns its path.
func (p *play) keyOf(text string) (path, more string) {
	p.t.Helper()
	m := playKey.FindStringSubmatch(text)
	if m == nil {
		p.t.Fatalf("%s is no key", text)
	}
	kind, queue := "deduplication", "default"
	if m[1] == "debounce " {
		kind = "debounce"
	}
	if m[3] != "" {
		queue = m[3]
	}
	id := decode(p.t, `{"id":`+m[2]+`}`)["id"]
	return key(kind, queue, id), m[4]
}

var playHolder = regexp.MustCompile(`^held by ([a-z0-9]+) as (simple|throttle|replace|debounce) (?:until (\S+)|(for ever))$`)

// key asks who holds a key, under both of its names: nobody, or a job in a mode,
// until a time since the case began.
func (p *play) key(_, rest string) {
	p.t.Helper()
	path, held := p.keyOf(rest)
	alias := strings.Replace(path, "/deduplication/", "/debounce/", 1)
	if held == "free" {
		for _, at := range []string{path, alias} {
			if e := p.ask(404, "GET", at, "")["error"].(object); e["code"] != "not_found" {
				p.t.Errorf("%v", e)
			}
		}
		return
	}
	m := playHolder.FindStringSubmatch(held)
	if m == nil {
		p.t.Fatalf("%s is no state of a key", held)
	}
	got, older := p.ask(200, "GET", path, ""), p.ask(200, "GET", alias, "")
	maps.DeleteFunc(got, func(name string, _ any) bool { return name == "job" }) // which may be shown as well
	maps.DeleteFunc(older, func(name string, _ any) bool { return name == "job" })
	j := p.job(m[1])
	want := object{"queue": j["queue"], "deduplication_id": got["deduplication_id"], "job_id": j["id"], "mode": m[2]}
	if m[3] != "" {
		want["expires_at"] = written.Add(p.span(m[3])).Format("2006-01-02T15:04:05.000Z")
	}
	if got["deduplication_id"] == nil || !strings.HasSuffix(path, key("deduplication", j["queue"], got["deduplication_id"])) {
		p.t.Errorf("%s is %v", path, got)
	}
	if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(older, with(want, object{"debounce_id": got["deduplication_id"]})) {
		p.t.Errorf("got %v and %v, want %v", got, older, want)
	}
}
