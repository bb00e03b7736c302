package gorm_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	puresqlite "github.com/glebarez/sqlite" // registers the driver "sqlite", as modernc.org/sqlite does: never both
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	jobsgorm "github.com/outrider-jobs/outrider/adapters/gorm"
	"github.com/outrider-jobs/outrider/adapters/postgres"
	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/internal/testdb"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

func TestJobsFollowTheOutermostTransaction(t *testing.T) {
	t.Parallel()
	back := errors.New("back")
	for _, c := range []struct {
		name string
		do   func(w *world, tx *gorm.DB) error
		want []string
	}{
		{"a commit makes them", func(w *world, tx *gorm.DB) error {
			w.add(tx, "a", "b")
			w.add(tx, "c")
			return nil
		}, []string{"a", "b", "c"}},
		{"an error leaves none", func(w *world, tx *gorm.DB) error {
			w.add(tx, "a", "b")
			return back
		}, nil},
		{"a savepoint's are made by the outer commit", func(w *world, tx *gorm.DB) error {
			w.add(tx, "a")
			w.nested(tx, nil, "b")
			return nil
		}, []string{"a", "b"}},
		{"a savepoint's go with it, the others stay", func(w *world, tx *gorm.DB) error {
			w.add(tx, "a")
			w.nested(tx, back, "b")
			w.add(tx, "c")
			return nil
		}, []string{"a", "c"}},
		{"a savepoint's go with the outer transaction", func(w *world, tx *gorm.DB) error {
			w.nested(tx, nil, "a")
			return back
		}, nil},
		{"a refused job spoils nothing", func(w *world, tx *gorm.DB) error {
			_, err := jobsgorm.Add(w.t.Context(), w.outbox, tx, envelope("a"), job.Envelope{Type: "b", Args: json.RawMessage(`{}`)})
			var e *job.Error
			if !errors.As(err, &e) || e.Kind != job.Invalid || e.Details["index"] != 1 {
				w.t.Errorf("got %v (%+v), want Invalid of index 1", err, e)
			}
			w.add(tx, "c")
			return nil
		}, []string{"c"}},
		{"what the database refuses spoils no more than its savepoint", func(w *world, tx *gorm.DB) error {
			w.add(tx, "a")
			err := tx.Transaction(func(nested *gorm.DB) error {
				w.add(nested, "b")
				_, err := jobsgorm.Add(w.t.Context(), w.nowhere, nested, envelope("x"))
				return err
			})
			if job.KindOf(err) != job.Unavailable {
				w.t.Errorf("an outbox that does not exist: got %v", err)
			}
			w.add(tx, "c")
			return nil
		}, []string{"a", "c"}},
		{"a handle of another session is in the same transaction", func(w *world, tx *gorm.DB) error {
			w.add(tx.Session(&gorm.Session{PrepareStmt: true}), "a")
			w.add(tx.WithContext(w.t.Context()).Debug().Session(&gorm.Session{NewDB: true, Logger: logger.Discard}), "b")
			return back
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			onEach(t, gorm.Config{}, func(t *testing.T, w *world) { w.transaction(c.do, c.want) })
		})
	}
}

func TestPreparedStatementsAreInTheTransaction(t *testing.T) {
	t.Parallel()
	onEach(t, gorm.Config{PrepareStmt: true}, func(t *testing.T, w *world) {
		w.transaction(func(w *world, tx *gorm.DB) error {
			w.add(tx, "a")
			w.nested(tx, errors.New("back"), "b")
			return nil
		}, []string{"a"})
		w.transaction(func(w *world, tx *gorm.DB) error {
			w.add(tx, "b", "c")
			return errors.New("back")
		}, []string{"a"})
	})
}

// Order is a model whose rows are about to be confirmed.
type Order struct {
	ID    int64
	Email string
	add   func(tx *gorm.DB) error
}

func (o *Order) AfterCreate(tx *gorm.DB) error { return o.add(tx) }

func TestAHookIsInTheTransactionOfItsStatement(t *testing.T) {
	t.Parallel()
	onEach(t, gorm.Config{}, func(t *testing.T, w *world) {
		if err := w.db.AutoMigrate(&Order{}); err != nil {
			t.Fatal(err)
		}
		for _, then := range []error{nil, errors.New("back")} {
			order := Order{Email: "ada@example.com", add: func(tx *gorm.DB) error {
				w.add(tx, "order.confirm")
				return then
			}}
			if err := w.db.Create(&order).Error; !errors.Is(err, then) {
				t.Fatalf("got %v, want %v", err, then)
			}
			var orders int64
			if err := w.db.Model(&Order{}).Count(&orders).Error; err != nil {
				t.Fatal(err)
			}
			if got := w.types(); orders != 1 || len(got) != 1 {
				t.Errorf("with the error %v: %d orders and the jobs %v", then, orders, got)
			}
		}
		w.refuses("a hook without a transaction", func() error {
			order := Order{add: func(tx *gorm.DB) error {
				_, err := jobsgorm.Add(t.Context(), w.outbox, tx, envelope("order.confirm"))
				return err
			}}
			return w.db.Session(&gorm.Session{SkipDefaultTransaction: true}).Create(&order).Error
		}, job.Invalid, nil)
	})
}

func TestNoHandleWritesOutsideATransaction(t *testing.T) {
	t.Parallel()
	onEach(t, gorm.Config{}, func(t *testing.T, w *world) {
		add := func(tx *gorm.DB) func() error {
			return func() error {
				_, err := jobsgorm.Add(t.Context(), w.outbox, tx, envelope("a"))
				return err
			}
		}
		w.refuses("the handle itself", add(w.db), job.Invalid, nil)
		w.refuses("a session", add(w.db.Session(&gorm.Session{NewDB: true, PrepareStmt: true})), job.Invalid, nil)
		w.refuses("a connection", func() error {
			return w.db.Connection(func(tx *gorm.DB) error { return add(tx)() })
		}, job.Invalid, nil)
		w.refuses("a dry run", func() error {
			return w.db.Session(&gorm.Session{DryRun: true}).Transaction(func(tx *gorm.DB) error { return add(tx)() })
		}, job.Invalid, nil)

		tx := w.db.Begin()
		if err := tx.Rollback().Error; err != nil {
			t.Fatal(err)
		}
		w.refuses("an ended transaction", add(tx), job.Unavailable, sql.ErrTxDone)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		w.refuses("a transaction that never began", add(w.db.WithContext(ended).Begin()), job.Unavailable, context.Canceled)
		tx = w.db.Begin()
		w.refuses("an ended context", func() error {
			_, err := jobsgorm.Add(ended, w.outbox, tx, envelope("a"))
			return err
		}, job.Unavailable, context.Canceled)
		_ = tx.Rollback() // it may be broken
		tx = w.db.Begin()
		w.refuses("a handle on which something has failed", add(tx.Exec("SELECT nothing")), job.Unavailable, nil)
		_ = tx.Rollback() // it may be broken
	})
}

// world is a database with an outbox.
type world struct {
	t       *testing.T
	db      *gorm.DB
	outbox  *outbox.Outbox
	nowhere *outbox.Outbox // has no table
}

func onEach(t *testing.T, c gorm.Config, test func(*testing.T, *world)) {
	c.Logger = logger.Discard
	for _, base := range []struct {
		name    string
		open    func(*testing.T) gorm.Dialector
		dialect func(string) (outbox.Dialect, error)
	}{{"SQLite", openSQLite, sqlite.Dialect}, {"PostgreSQL", openPostgres, postgres.Dialect}} {
		t.Run(base.name, func(t *testing.T) {
			t.Parallel()
			c := c
			db, err := gorm.Open(base.open(t), &c)
			if err != nil {
				t.Fatal(err)
			}
			std, err := db.DB()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = std.Close() }) // the test is over
			d, err := base.dialect("")
			if err != nil {
				t.Fatal(err)
			}
			none, err := base.dialect("nowhere")
			if err != nil {
				t.Fatal(err)
			}
			if err := outbox.Init(t.Context(), std, d); err != nil {
				t.Fatal(err)
			}
			test(t, &world{t, db, outbox.New(d), outbox.New(none)})
		})
	}
}

func openSQLite(t *testing.T) gorm.Dialector {
	return puresqlite.Open("file:" + filepath.Join(t.TempDir(), "shop.db") + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_txlock=immediate")
}

func openPostgres(t *testing.T) gorm.Dialector { return gormpostgres.Open(testdb.Postgres(t).String()) }

func envelope(typ string) job.Envelope {
	return job.Envelope{Type: typ, Args: json.RawMessage(`["x"]`)}
}

func (w *world) add(tx *gorm.DB, types ...string) {
	w.t.Helper()
	es := make([]job.Envelope, len(types))
	for i, typ := range types {
		es[i] = envelope(typ)
	}
	ids, err := jobsgorm.Add(w.t.Context(), w.outbox, tx, es...)
	if err != nil || len(ids) != len(types) {
		w.t.Fatalf("add %v: %v, %v", types, ids, err)
	}
}

// nested adds jobs in a savepoint that ends with err.
func (w *world) nested(tx *gorm.DB, err error, types ...string) {
	w.t.Helper()
	if got := tx.Transaction(func(tx *gorm.DB) error {
		w.add(tx, types...)
		return err
	}); !errors.Is(got, err) {
		w.t.Fatalf("nested: got %v, want %v", got, err)
	}
}

func (w *world) transaction(do func(*world, *gorm.DB) error, want []string) {
	w.t.Helper()
	var wanted error
	if err := w.db.Transaction(func(tx *gorm.DB) error {
		wanted = do(w, tx)
		return wanted
	}); !errors.Is(err, wanted) {
		w.t.Fatalf("got %v, want %v", err, wanted)
	}
	if got := w.types(); !slices.Equal(got, want) {
		w.t.Errorf("got %v, want %v", got, want)
	}
}

// refuses expects an error of that kind, and no more jobs than before.
func (w *world) refuses(what string, do func() error, kind job.Kind, cause error) {
	w.t.Helper()
	before := w.types()
	err := do()
	if err == nil || job.KindOf(err) != kind || cause != nil && !errors.Is(err, cause) {
		w.t.Errorf("%s: got %v, want kind %d", what, err, kind)
	}
	if got := w.types(); !slices.Equal(got, before) {
		w.t.Errorf("%s: got %v, want %v", what, got, before)
	}
}

func (w *world) types() (types []string) {
	w.t.Helper()
	if err := w.db.Raw("SELECT job_type FROM ojs_outbox ORDER BY id").Scan(&types).Error; err != nil {
		w.t.Fatal(err)
	}
	return types
}
