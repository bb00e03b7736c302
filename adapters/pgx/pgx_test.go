package pgx_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	jobspgx "github.com/outrider-jobs/outrider/adapters/pgx"
	"github.com/outrider-jobs/outrider/adapters/postgres"
	"github.com/outrider-jobs/outrider/internal/testdb"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

var (
	_ jobspgx.Tx = pgx.Tx(nil)
	_ jobspgx.Tx = (*pgxpool.Tx)(nil)
)

// On these every statement commits by itself, so they must not be taken.
func TestPoolsAndConnectionsAreNoTransactions(t *testing.T) {
	t.Parallel()
	for _, db := range []any{(*pgxpool.Pool)(nil), (*pgxpool.Conn)(nil), (*pgx.Conn)(nil)} {
		if _, ok := db.(jobspgx.Tx); ok {
			t.Errorf("%T is taken as a transaction", db)
		}
	}
}

func TestJobsFollowTheOutermostTransaction(t *testing.T) {
	t.Parallel()
	inner := func(name string, then func(pgx.Tx) error) func(*world, pgx.Tx) {
		return func(w *world, tx pgx.Tx) {
			nested, err := tx.Begin(w.t.Context())
			if err != nil {
				w.t.Fatal(err)
			}
			w.add(nested, name)
			if err := then(nested); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	commit := func(tx pgx.Tx) error { return tx.Commit(t.Context()) }
	rollback := func(tx pgx.Tx) error { return tx.Rollback(t.Context()) }
	outer := func(names ...string) func(*world, pgx.Tx) {
		return func(w *world, tx pgx.Tx) { w.add(tx, names...) }
	}
	for _, c := range []struct {
		name  string
		steps []func(*world, pgx.Tx)
		end   func(pgx.Tx) error
		want  []string
	}{
		{"a commit makes them", []func(*world, pgx.Tx){outer("a", "b"), outer("c")}, commit, []string{"a", "b", "c"}},
		{"a rollback leaves none", []func(*world, pgx.Tx){outer("a", "b")}, rollback, nil},
		{"a savepoint's are made by the outer commit", []func(*world, pgx.Tx){outer("a"), inner("b", commit), outer("c")}, commit, []string{"a", "b", "c"}},
		{"a savepoint's go with it, the others stay", []func(*world, pgx.Tx){outer("a"), inner("b", rollback), outer("c")}, commit, []string{"a", "c"}},
		{"a savepoint's go with the outer transaction", []func(*world, pgx.Tx){inner("b", commit)}, rollback, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tx := w.begin()
			for _, step := range c.steps {
				step(w, tx)
			}
			if got := w.types(); got != nil {
				t.Errorf("before the end others see %v", got)
			}
			if err := c.end(tx); err != nil {
				t.Fatal(err)
			}
			if got := w.types(); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestIDsAreThoseOfTheRowsInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own := job.ID("01890c7e-1b2c-7d3e-8f40-123456789abc")
	tx := w.begin()
	ids, err := jobspgx.Add(t.Context(), w.outbox, tx, envelope("a"), job.Envelope{ID: own, Type: "b", Args: json.RawMessage(`[]`)}, envelope("c"))
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	var want []job.ID
	for _, s := range w.column("job_id") {
		want = append(want, job.ID(s))
	}
	if !slices.Equal(ids, want) || len(ids) != 3 || ids[1] != own {
		t.Errorf("Add returned %v, the rows have %v", ids, want)
	}
	if ids, err := jobspgx.Add(t.Context(), w.outbox, tx); len(ids) > 0 || err != nil {
		t.Errorf("no envelopes: got %v, %v", ids, err)
	}
}

// What pgx makes of a text for a column of JSON depends on how it asks.
func TestEveryModeOfPgxWritesTheSameBytes(t *testing.T) {
	t.Parallel()
	args := `[ "O'Hara \\ \u0000 日本", {"n":12345678901234567890,"x":1.10} ]`
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *pgx.ConnConfig) { c.DefaultQueryExecMode = mode })
			tx := w.begin()
			e := job.Envelope{Type: "a", Args: json.RawMessage(args), Queue: "mail", Meta: json.RawMessage(`{"k":"ü'"}`)}
			if _, err := jobspgx.Add(t.Context(), w.outbox, tx, e, e); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, got := range w.column("job_args::text") {
				if got != args {
					t.Errorf("args\n got %s\nwant %s", got, args)
				}
			}
			want := `{"specversion":"` + job.SpecVersion + `","queue":"mail","meta":{"k":"ü'"}}`
			if got := w.column("job_options::text"); len(got) != 2 || got[0] != want {
				t.Errorf("options\n got %s\nwant %s", got, want)
			}
		})
	}
}

func TestARefusedJobWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tx := w.begin()
	_, err := jobspgx.Add(t.Context(), w.outbox, tx, envelope("a"), job.Envelope{Type: "b", Args: json.RawMessage(`{}`)})
	var e *job.Error
	if !errors.As(err, &e) || e.Kind != job.Invalid || e.Details["index"] != 1 {
		t.Fatalf("got %v (%+v), want Invalid of index 1", err, e)
	}
	w.add(tx, "c") // the transaction is whole
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.types(); !slices.Equal(got, []string{"c"}) {
		t.Errorf("got %v, want [c]", got)
	}
}

func TestWhatTheDatabaseRefusesSpoilsTheTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tx := w.begin()
	w.add(tx, "a")
	w.refused(tx)
	if err := tx.Commit(t.Context()); !errors.Is(err, pgx.ErrTxCommitRollback) {
		t.Errorf("commit after a refusal: got %v", err)
	}
	if got := w.types(); got != nil {
		t.Errorf("got %v, want none", got)
	}
}

func TestWhatTheDatabaseRefusesSpoilsNoMoreThanItsSavepoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tx := w.begin()
	w.add(tx, "a")
	if err := pgx.BeginFunc(t.Context(), tx, func(nested pgx.Tx) error {
		w.add(nested, "b")
		w.refused(nested)
		return errors.New("back")
	}); err == nil {
		t.Fatal("no error")
	}
	w.add(tx, "c")
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.types(); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("got %v, want [a c]", got)
	}
}

func TestAnEndedContextAndAnEndedTransactionAreUnavailable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tx := w.begin()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := jobspgx.Add(ctx, w.outbox, tx, envelope("a")); job.KindOf(err) != job.Unavailable || !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: got %v", err)
	}
	tx = newWorld(t).begin()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := jobspgx.Add(t.Context(), w.outbox, tx, envelope("a")); job.KindOf(err) != job.Unavailable || !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("ended transaction: got %v", err)
	}
}

func TestATransactionOfAPool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, err := pgxpool.ParseConfig("")
	if err != nil {
		t.Fatal(err)
	}
	c.ConnConfig, c.MaxConns = w.config, 2
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		w.add(tx, "a")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := w.types(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("got %v, want [a]", got)
	}
}

// world is an outbox in a schema of its own, which is dropped behind the test.
type world struct {
	t      *testing.T
	config *pgx.ConnConfig
	other  *pgx.Conn // sees what is committed
	outbox *outbox.Outbox
}

func newWorld(t *testing.T, options ...func(*pgx.ConnConfig)) *world {
	t.Helper()
	c, err := pgx.ParseConfig(testdb.Postgres(t).String())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range options {
		o(c)
	}
	d, err := postgres.Dialect("")
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*c)
	defer db.Close()
	if err := outbox.Init(t.Context(), db, d); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, config: c, outbox: outbox.New(d)}
	w.other = w.connect()
	return w
}

func (w *world) connect() *pgx.Conn {
	w.t.Helper()
	conn, err := pgx.ConnectConfig(w.t.Context(), w.config)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close(context.Background()) }) // the test is over
	return conn
}

func (w *world) begin() pgx.Tx {
	w.t.Helper()
	tx, err := w.connect().Begin(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return tx
}

func envelope(typ string) job.Envelope { return job.Envelope{Type: typ, Args: json.RawMessage(`[]`)} }

func (w *world) add(tx pgx.Tx, types ...string) {
	w.t.Helper()
	es := make([]job.Envelope, len(types))
	for i, typ := range types {
		es[i] = envelope(typ)
	}
	if _, err := jobspgx.Add(w.t.Context(), w.outbox, tx, es...); err != nil {
		w.t.Fatal(err)
	}
}

// refused adds a job to an outbox that does not exist.
func (w *world) refused(tx pgx.Tx) {
	w.t.Helper()
	d, err := postgres.Dialect("nowhere")
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = jobspgx.Add(w.t.Context(), outbox.New(d), tx, envelope("x"))
	var e *pgconn.PgError
	if job.KindOf(err) != job.Unavailable || !errors.As(err, &e) || e.Code != "42P01" {
		w.t.Errorf("got %v, want Unavailable for an undefined table", err)
	}
}

func (w *world) types() []string { return w.column("job_type") }

func (w *world) column(name string) []string {
	w.t.Helper()
	rows, err := w.other.Query(w.t.Context(), fmt.Sprintf("SELECT %s FROM ojs_outbox ORDER BY id", name))
	if err != nil {
		w.t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.t.Fatal(err)
	}
	if len(got) == 0 {
		return nil
	}
	return got
}
