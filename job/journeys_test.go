package job_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	_ "modernc.org/sqlite"

	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
	"github.com/outrider-jobs/outrider/sqlitestore"
)

// far is ahead of every clock, in whole milliseconds.
var far = time.Date(2126, 3, 15, 9, 30, 0, 123e6, time.UTC)

// valid are values of the fields that do not take just any of their type.
var valid = map[string]any{
	"Type": "other.type", "Queue": "other", "Priority": -7, "State": job.Completed, "Fingerprint": strings.Repeat("0a", 32),
	"Retry": json.RawMessage(`{"max_attempts": 9}`), "Unique": json.RawMessage(`{"key":"k", "period":"PT1H"}`), "Deduplication": json.RawMessage(`{"id":"d", "ttl":5}`),
	"RateLimit": json.RawMessage(`{"key":"k", "concurrency":5}`),
	"Lost":      &job.LostLease{Token: "t", Worker: "w", Length: time.Second, At: far, Fetches: 1}, "Holds": job.SetOf(job.Available),
	"Progress":   &job.Progress{Fraction: 0.25, Measured: true, Message: "half", Data: json.RawMessage(`{"n": 1e2}`), At: far},
	"Checkpoint": &job.Checkpoint{State: json.RawMessage(`{"n": 1e2}`), Metadata: json.RawMessage(`[]`), Sequence: 3, CreatedAt: far, UpdatedAt: far},
	"Flow":       &job.FlowRef{Workflow: "01980000-0000-7000-8000-000000000001", Step: "step-1"},
}

// besides is what else a job must have for a field to mean something.
var besides = map[string]func(*job.Job){
	"FinishedAt": func(j *job.Job) { j.State = job.Completed },
	"Lease":      func(j *job.Job) { j.State = job.Active },
	"Holds":      func(j *job.Job) { withKeys(j); j.Fingerprint = strings.Repeat("0a", 32) },
	"DedupUntil": withKeys, "DedupFreed": withKeys, "Fingerprint": withKeys, "Keep": withKeys, "RewrittenAt": withKeys,
}

func withKeys(j *job.Job) {
	j.Unique, j.Deduplication = json.RawMessage(`{}`), json.RawMessage(`{"id":"d"}`)
}

// field is one field of Envelope or Status, or of a struct in it.
type field struct {
	name  string
	typ   reflect.Type
	asked bool // of Envelope
}

// of is the field in a job.
func (f field) of(j *job.Job) reflect.Value {
	v := reflect.ValueOf(j).Elem()
	for name := range strings.SplitSeq(f.name, ".") {
		v = v.FieldByName(name)
	}
	return v
}

func fieldsOf(t reflect.Type, asked bool, prefix string) (fs []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		switch {
		case !f.IsExported():
		case f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[time.Time]():
			fs = append(fs, fieldsOf(f.Type, asked, prefix+f.Name+".")...)
		default:
			fs = append(fs, field{prefix + f.Name, f.Type, asked})
		}
	}
	return fs
}

// fill puts a value into the field that is not zero.
func (f field) fill(t *testing.T, j *job.Job, row job.Row) {
	t.Helper()
	if set := besides[strings.Split(f.name, ".")[0]]; set != nil {
		set(j)
	}
	var v any
	switch {
	case f.name == "ID":
		v = uuid.Must(uuid.NewV7()).String()
	case valid[f.name] != nil:
		v = valid[f.name]
	case f.typ == reflect.TypeFor[time.Time]():
		v = far
	case f.typ == reflect.TypeFor[time.Duration]():
		v = 7 * time.Second
	case f.typ == reflect.TypeFor[json.RawMessage]() && row.Shape == '{':
		v = json.RawMessage(`{"x_own":[ 1e2]}`)
	case f.typ == reflect.TypeFor[json.RawMessage]():
		v = json.RawMessage(`["a", "b"]`)
	case f.typ.Kind() == reflect.Bool:
		v = true
	case f.typ.Kind() == reflect.String:
		v = "x1"
	case f.typ.Kind() == reflect.Int, f.typ.Kind() == reflect.Int64:
		v = 7
	default:
		t.Fatalf("%s is of the type %s, of which this test has no value: give it one", f.name, f.typ)
	}
	f.of(j).Set(reflect.ValueOf(v).Convert(f.typ))
}

// arrived fails unless the field has come through a journey as it was.
func (f field) arrived(t *testing.T, journey string, got, want *job.Job) {
	t.Helper()
	g, w := f.of(got).Interface(), f.of(want).Interface()
	if f.of(want).IsZero() {
		t.Errorf("%s: %s is empty from the start", journey, f.name)
	} else if !reflect.DeepEqual(g, w) {
		t.Errorf("%s: %s is lost: got %s, want %s", journey, f.name, legible(g), legible(w))
	}
}

func legible(v any) string {
	if raw, ok := v.(json.RawMessage); ok {
		return fmt.Sprintf("%q", raw)
	}
	return fmt.Sprintf("%+v", v)
}

// TestEveryMemberMakesEveryJourney takes each field of Envelope and Status alone
// through JSON, a PUSH, the store, HTTP and an outbox, and back. A field without a
// row in the table of members fails it, and so does one whose row leaves out a
// journey and does not say why.
func TestEveryMemberMakesEveryJourney(t *testing.T) {
	t.Parallel()
	fields := append(fieldsOf(reflect.TypeFor[job.Envelope](), true, ""), fieldsOf(reflect.TypeFor[job.Status](), false, "")...)
	for _, f := range fields {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			row, ok := job.RowOf(f.name)
			if !ok {
				t.Errorf("%s has no row in the table of members", f.name)
			}
			if row.Unkept == "" {
				f.stored(t, row)
			}
			if row.Unshown == "" {
				f.shown(t, row)
			}
			if f.asked && row.Unsent == "" {
				f.pushed(t, row)
				f.relayed(t, row)
			}
			if f.asked && row.Unsent == "" && row.Unshown == "" {
				f.overHTTP(t, row)
			}
			if !f.asked && row.Unshown == "" && f.name != "Lease.Token" { // which its holder sees alone
				f.seenOverHTTP(t, row)
			}
		})
	}
}

// envelope asks for the field alone.
func (f field) envelope(t *testing.T, row job.Row) (e job.Envelope, c job.Checked) {
	t.Helper()
	j := &job.Job{Envelope: plain()}
	f.fill(t, j, row)
	c, err := j.Check()
	if err != nil {
		t.Fatal(err)
	}
	return j.Envelope, c
}

func plain() job.Envelope {
	return job.Envelope{ID: job.ID(uuid.Must(uuid.NewV7()).String()), Type: "a.b", Args: json.RawMessage(`[]`)}
}

// fresh is a job that has been pushed, whose fields are for the test to change.
func fresh(t *testing.T) *job.Job {
	t.Helper()
	c, err := plain().Check()
	if err != nil {
		t.Fatal(err)
	}
	j, err := c.Push(time.UnixMilli(1.7e12))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// shown: what an answer says of a job is read back as the job.
func (f field) shown(t *testing.T, row job.Row) {
	j := fresh(t)
	f.fill(t, j, row)
	back, err := job.ParseJob(j.AppendJSON(nil, job.View{ToHolder: true}))
	if err != nil {
		t.Fatal(err)
	}
	f.arrived(t, "JSON", back, j)
}

// pushed: what a PUSH says is read back as the envelope, and is not taken for the
// envelope without the field.
func (f field) pushed(t *testing.T, row job.Row) {
	e, c := f.envelope(t, row)
	back, err := job.ParseEnvelope(c.AppendPush(nil))
	if err != nil {
		t.Fatal(err)
	}
	f.arrived(t, "PUSH", &job.Job{Envelope: back.Envelope()}, &job.Job{Envelope: e})
	if without := plain(); !row.Top && e.Same(&without) {
		t.Errorf("Same: %s does not count", f.name)
	}
}

// stored: the field is kept where it is inserted, and where a change sets it.
func (f field) stored(t *testing.T, row job.Row) {
	path := filepath.Join(t.TempDir(), "o.db")
	inserted, changed := fresh(t), fresh(t)
	f.fill(t, inserted, row)
	in := func(fn func(job.Tx) error) {
		t.Helper()
		store, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Update(t.Context(), fn); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	in(func(tx job.Tx) error { return tx.InsertJob(inserted) })
	in(func(tx job.Tx) error {
		back, err := tx.Job(inserted.ID)
		if err == nil {
			f.arrived(t, "insert", back, inserted)
			err = tx.DeleteJob(inserted.ID)
		}
		return err
	})
	if f.asked && !row.Rewritten || row.Fixed != "" {
		return
	}
	if set := besides[strings.Split(f.name, ".")[0]]; set != nil {
		set(changed)
	}
	in(func(tx job.Tx) error { return tx.InsertJob(changed) })
	in(func(tx job.Tx) (err error) {
		if changed, err = tx.Job(changed.ID); err != nil {
			return err
		}
		f.fill(t, changed, row)
		if row.Rewritten {
			return tx.RewriteJob(changed)
		}
		return tx.UpdateJob(changed)
	})
	in(func(tx job.Tx) error {
		back, err := tx.Job(changed.ID)
		if err == nil {
			f.arrived(t, "update", back, changed)
		}
		return err
	})
}

// TestAColumnThatIsEqualHasOneValue: a store writes the columns in which two states of a
// job are not Equal, so one whose Value follows from another field must say so.
func TestAColumnThatIsEqualHasOneValue(t *testing.T) {
	t.Parallel()
	jobs := map[string]*job.Job{"fresh": fresh(t), "with a unique key": {Status: job.Status{Fingerprint: "00ff", Holds: 1}}, "that held it": {Status: job.Status{Fingerprint: "00ff"}},
		"with a key": {Envelope: job.Envelope{Deduplication: json.RawMessage(`{"id":"k"}`)}}}
	for _, f := range append(fieldsOf(reflect.TypeFor[job.Envelope](), true, ""), fieldsOf(reflect.TypeFor[job.Status](), false, "")...) {
		for name, j := range maps.Clone(jobs) {
			if row, ok := job.RowOf(f.name); ok && !strings.Contains(name, "&") {
				j = j.Clone()
				f.fill(t, j, row)
				jobs[name+" & "+f.name] = j
			}
		}
	}
	for x, a := range jobs {
		for y, b := range jobs {
			for _, c := range job.Columns() {
				if !c.Fixed && c.Equal(a, b) && !reflect.DeepEqual(c.Value(a), c.Value(b)) {
					t.Errorf("%s is equal in a job %s and one %s, and has the values %v and %v", c.Name, x, y, c.Value(a), c.Value(b))
				}
			}
		}
	}
}

// served is a store, and a client of the server on it.
func served(t *testing.T) (*sqlitestore.Store, *client.Client) {
	t.Helper()
	store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "o.db"), sqlitestore.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	log := slog.New(slog.DiscardHandler)
	server := httptest.NewServer(httpapi.New(sidecar.New(store, sidecar.Options{Log: log}), httpapi.Options{Log: log}))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return store, c
}

// seenOverHTTP: what has happened to a job is seen by a client.
func (f field) seenOverHTTP(t *testing.T, row job.Row) {
	store, c := served(t)
	j := fresh(t)
	f.fill(t, j, row)
	if err := store.Update(t.Context(), func(tx job.Tx) error { return tx.InsertJob(j) }); err != nil {
		t.Fatal(err)
	}
	back, err := c.Job(t.Context(), j.ID)
	if err != nil {
		t.Fatal(err)
	}
	f.arrived(t, "GET over HTTP", back, j)
}

// overHTTP: the client pushes it to a server, which stores it, and gets it back.
func (f field) overHTTP(t *testing.T, row job.Row) {
	_, c := served(t)
	e, _ := f.envelope(t, row)
	rs, err := c.Enqueue(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	f.arrived(t, "PUSH over HTTP", rs[0].Job, &job.Job{Envelope: e})
	back, err := c.Job(t.Context(), e.ID)
	if err != nil {
		t.Fatal(err)
	}
	f.arrived(t, "GET over HTTP", back, &job.Job{Envelope: e})
}

// taker keeps what a relay hands over.
type taker struct {
	job.Enqueuer
	had []job.Checked
}

func (s *taker) EnqueueChecked(_ context.Context, cs ...job.Checked) ([]job.Receipt, error) {
	s.had = append(s.had, cs...)
	return make([]job.Receipt, len(cs)), nil
}

// relayed: an outbox keeps it, and its relay hands it over.
func (f field) relayed(t *testing.T, row job.Row) {
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
	e, _ := f.envelope(t, row)
	if _, err := outbox.New(d).Add(t.Context(), db, e); err != nil {
		t.Fatal(err)
	}
	to := &taker{}
	if _, err := outbox.NewRelay(db, d, to, outbox.RelayOptions{Log: slog.New(slog.DiscardHandler), Owner: "the test"}).Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(to.had) != 1 {
		t.Fatalf("%d jobs came through the outbox", len(to.had))
	}
	got := to.had[0].Envelope()
	if o, ok := got.Origin(); !ok || o.Row != 1 {
		t.Errorf("outbox: it does not say of which row it was made: %s", got.Extra)
	}
	if got.Extra = rawjson.Without(got.Extra, "outbox"); string(got.Extra) == "{}" {
		got.Extra = nil
	}
	f.arrived(t, "outbox", &job.Job{Envelope: got}, &job.Job{Envelope: e})
}
