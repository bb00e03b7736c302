package sidecar_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	_ "modernc.org/sqlite"

	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/job/storetest"
	"github.com/outrider-jobs/outrider/outbox"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// asked is one thing that an envelope may ask for: a value of one member, with
// instants and lengths that are no whole milliseconds. n tells jobs apart whose
// keys must not meet.
type asked struct {
	member string
	set    func(e *job.Envelope, n int)
}

func text(format string, n int) json.RawMessage { return fmt.Appendf(nil, format, n) }

// odd is not in UTC, and no whole millisecond.
var odd = storetest.Now.Add(time.Hour + 1500*time.Microsecond).In(time.FixedZone("", 5400))

// all is every member of an envelope. A new one fails TestEveryMemberHasACase.
var all = []asked{
	{"ID", func(e *job.Envelope, n int) { e.ID = job.ID(uuid.Must(uuid.NewV7()).String()) }},
	{"Type", func(e *job.Envelope, n int) { e.Type = "other.type" }},
	{"Queue", func(e *job.Envelope, n int) { e.Queue = "other" }},
	{"Args", func(e *job.Envelope, n int) { e.Args = text(`[ 1e2, 9007199254740993, {"n":%d}]`, n) }},
	{"Meta", func(e *job.Envelope, n int) { e.Meta = text(`{"trace_id":"t%d", "b":[null]}`, n) }},
	{"Priority", func(e *job.Envelope, n int) { e.Priority = -7 }},
	{"ScheduledAt", func(e *job.Envelope, n int) { e.ScheduledAt = odd }},
	{"ExpiresAt", func(e *job.Envelope, n int) { e.ExpiresAt = odd.Add(time.Hour) }},
	{"Delay", func(e *job.Envelope, n int) { e.Delay = 300 * time.Microsecond }},
	{"TTL", func(e *job.Envelope, n int) { e.TTL = 1300 * time.Microsecond }},
	{"Hold", func(e *job.Envelope, n int) { e.Hold = true }},
	{"Timeout", func(e *job.Envelope, n int) { e.Timeout = 700 * time.Microsecond }},
	{"Visibility", func(e *job.Envelope, n int) { e.Visibility = 1100 * time.Microsecond }},
	{"Retry", func(e *job.Envelope, n int) {
		e.Retry = json.RawMessage(`{"max_attempts": 9,"initial_interval":"2s","x_mine":1}`)
	}},
	{"MaxAttempts", func(e *job.Envelope, n int) { e.MaxAttempts = 8 }}, // the policy decides, whatever is here
	{"Unique", func(e *job.Envelope, n int) {
		e.Unique = text(`{"key":"u%d","period":"PT1H","states":["available","completed"]}`, n)
	}},
	{"Deduplication", func(e *job.Envelope, n int) { e.Deduplication = text(`{"id":"d%d","ttl":5}`, n) }},
	{"RateLimit", func(e *job.Envelope, n int) { e.RateLimit = text(`{"key":"k%d","concurrency":5}`, n) }},
	{"CustomID", func(e *job.Envelope, n int) { e.CustomID = fmt.Sprint("c", n) }},
	{"Extra", func(e *job.Envelope, n int) {
		e.Extra = json.RawMessage(`{"tags":["x"], "":0,"a\"b":null,"version":2,"dead":true,"options":{"x_mine":{"id":1}}}`)
	}},
	{"Extra", func(e *job.Envelope, n int) { // what a client gave in another spelling is given back in it
		e.Extra = json.RawMessage(`{"timeout":3,"visibility_timeout":"PT1M","expires_at":"2099-01-01T00:00:00+02:00"}`)
		e.Timeout, e.Visibility, e.ExpiresAt = 3*time.Second, time.Minute, time.Date(2098, 12, 31, 22, 0, 0, 0, time.UTC)
	}},
}

// TestEveryMemberHasACase fails for a member of job.Envelope that the tests of
// this file do not know, and for a case that leaves its member empty.
func TestEveryMemberHasACase(t *testing.T) {
	t.Parallel()
	for _, f := range reflect.VisibleFields(reflect.TypeFor[job.Envelope]()) {
		if f.IsExported() && !slices.ContainsFunc(all, func(a asked) bool { return a.member == f.Name }) {
			t.Errorf("job.Envelope.%s has no case: add it to all, and see to it that it is kept on every road", f.Name)
		}
	}
	for i, a := range all {
		var e job.Envelope
		a.set(&e, i)
		if reflect.ValueOf(e).FieldByName(a.member).IsZero() {
			t.Errorf("the case of %s leaves it empty", a.member)
		}
	}
}

// orders is envelopes that ask for each thing alone, many times over, for each
// pair, and for all together.
func orders(t *testing.T) (es []job.Envelope) {
	t.Helper()
	add := func(as ...asked) {
		e := job.Envelope{Type: "email.send", Args: json.RawMessage(`[]`)}
		all[0].set(&e, 0)
		for _, a := range as {
			a.set(&e, len(es))
		}
		es = append(es, e)
	}
	for _, a := range all {
		for range 40 { // a store may write many of a kind at once
			add(a)
		}
	}
	for i, a := range all {
		for _, b := range all[i+1:] {
			add(a, b)
		}
	}
	add(all[:len(all)-1]...)
	add(all...)
	return es
}

// roads are the ways on which an envelope reaches a store.
var roads = map[string]func(t *testing.T, s *sidecar.Sidecar, es []job.Envelope){
	"one by one": func(t *testing.T, s *sidecar.Sidecar, es []job.Envelope) {
		for _, e := range es {
			enqueue(t, s, e)
		}
	},
	"in a batch": func(t *testing.T, s *sidecar.Sidecar, es []job.Envelope) { enqueue(t, s, es...) },
	"one by one over HTTP": func(t *testing.T, s *sidecar.Sidecar, es []job.Envelope) {
		c := over(t, s)
		for _, e := range es {
			enqueue(t, c, e)
		}
	},
	"in a batch over HTTP": func(t *testing.T, s *sidecar.Sidecar, es []job.Envelope) { enqueue(t, over(t, s), es...) },
	"through the outbox": func(t *testing.T, s *sidecar.Sidecar, es []job.Envelope) {
		d, err := sqlite.Dialect("")
		if err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open("sqlite", sqlite.DSN(filepath.Join(t.TempDir(), "shop.db"))+"&_pragma=journal_mode(WAL)")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := outbox.Init(t.Context(), db, d); err != nil {
			t.Fatal(err)
		}
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := outbox.New(d).Add(t.Context(), tx, es...); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		r := outbox.NewRelay(db, d, s, outbox.RelayOptions{Log: slog.New(slog.DiscardHandler), Owner: "the job server"})
		for n := 1; n > 0; {
			if n, err = r.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	},
}

func over(t *testing.T, s job.Service) *client.Client {
	t.Helper()
	server := httptest.NewServer(httpapi.New(s, httpapi.Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil))}))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// enqueue makes sure that the receipts show what was asked for.
func enqueue(t *testing.T, to job.Enqueuer, es ...job.Envelope) {
	t.Helper()
	rs, err := to.Enqueue(t.Context(), es...)
	if err != nil {
		t.Fatalf("%+v: %v", es[0], err)
	}
	for i, r := range rs {
		if got, want := string(r.AppendJSON(nil, job.View{})), string(pushed(t, es[i]).AppendJSON(nil, job.View{})); !sameMembers(t, got, want) {
			t.Errorf("answered\n got %s\nwant %s", got, want)
		}
	}
}

// pushed is the job that an envelope comes to: it was never written anywhere.
func pushed(t *testing.T, e job.Envelope) *job.Job {
	t.Helper()
	c := checked(t, e)
	j, err := c.Push(storetest.Now)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func checked(t *testing.T, e job.Envelope) job.Checked {
	t.Helper()
	c, err := e.Check()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sameMembers compares two objects; the order of their members is free.
func sameMembers(t *testing.T, a, b string) bool {
	t.Helper()
	cut := func(raw string) map[string]string {
		m := map[string]string{}
		if err := job.Members([]byte(raw), func(name string, v json.RawMessage) error {
			m[name] = string(v)
			return nil
		}); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		return m
	}
	return reflect.DeepEqual(cut(a), cut(b))
}

// facts is all that is kept of a job, by the names of its members. Extra is in
// what everybody sees: there it does not matter whether a member is in Extra
// because a client spelled it so, or has a field of its own.
func facts(j *job.Job) map[string]string {
	m := map[string]string{"": string(j.AppendJSON(nil, job.View{ToHolder: true}))}
	for _, part := range []any{j.Envelope, j.Status} {
		v := reflect.ValueOf(part)
		for _, f := range reflect.VisibleFields(v.Type()) {
			switch f.Name {
			case "Delay", "TTL", "Hold": // are asked for once, and what comes of them is kept
				continue
			case "Seq", "LastEvent", "Extra": // the first two are the store's to give
				continue
			}
			if !f.IsExported() {
				continue
			}
			switch x := v.FieldByIndex(f.Index).Interface().(type) {
			case time.Time:
				m[f.Name] = x.UTC().String()
			case json.RawMessage:
				m[f.Name] = string(x)
			default:
				m[f.Name] = fmt.Sprintf("%+v", x)
			}
		}
	}
	return m
}

// TestEveryMemberIsKeptOnEveryRoad sends what may be asked for through the
// process, over HTTP and through an outbox, opens the store anew, and finds the
// job that never was on a road (ojs-core.md §5.5, ojs-delivery-guarantees.md §4).
func TestEveryMemberIsKeptOnEveryRoad(t *testing.T) {
	t.Parallel()
	for name, send := range roads {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "o.db")
			open := func() *sqlitestore.Store {
				store, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
				if err != nil {
					t.Fatal(err)
				}
				return store
			}
			es := orders(t)
			store := open()
			send(t, sidecar.New(store, sidecar.Options{Now: func() time.Time { return storetest.Now }}), slices.Clone(es))
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			store = open()
			defer store.Close()
			s := sidecar.New(store, sidecar.Options{})
			for _, e := range es {
				got, err := s.Job(t.Context(), e.ID)
				if err != nil {
					t.Fatalf("%+v: %v", e, err)
				}
				if _, ok := got.Origin(); ok != (name == "through the outbox") {
					t.Errorf("it says that it came from a row: %v", ok)
				} else if ok { // what the relay adds
					got.Extra = rawjson.Without(got.Extra, "outbox")
				}
				compare(t, facts(got), facts(pushed(t, e)))
			}
			storetest.Audit(t, store)
		})
	}
}

func compare(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name := range want {
		if got[name] != want[name] && (name != "" || !sameMembers(t, got[name], want[name])) {
			t.Errorf("%s is %s, want %s, of the job %s", name, got[name], want[name], want[""])
		}
	}
}

// TestEveryMemberIsReadBackFromJSON: the body of a PUSH is read back as the same
// job, and so is the job that is answered.
func TestEveryMemberIsReadBackFromJSON(t *testing.T) {
	t.Parallel()
	for _, e := range orders(t) {
		want := pushed(t, e)
		c := checked(t, e)
		body := c.AppendPush(nil)
		parsed, err := job.ParseEnvelope(body)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		compare(t, facts(pushed(t, parsed.Envelope())), facts(want))
		shown := want.AppendJSON(nil, job.View{ToHolder: true})
		read, err := job.ParseJob(shown)
		if err != nil {
			t.Fatalf("%s: %v", shown, err)
		}
		if again := read.AppendJSON(nil, job.View{ToHolder: true}); !sameMembers(t, string(again), string(shown)) {
			t.Errorf("answered\n got %s\nwant %s", again, shown)
		}
	}
}
