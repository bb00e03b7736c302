package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/outrider-jobs/outrider/adapters/postgres"
	"github.com/outrider-jobs/outrider/internal/appdb"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

// benchTable is the outbox of a bench: nobody else's.
const benchTable = "ojs_bench"

// outbox is the time from an app's COMMIT that has returned to the answer of a
// FETCH that waits for the job. It has a server of its own, whose relay does
// not disturb the other workloads.
func (b *bench) outbox(ctx context.Context) (results []Result, err error) {
	d := appdb.File(filepath.Join(b.dir, "shop.db"))
	address := d.String()
	if b.cfg.Outbox != "" {
		address = b.cfg.Outbox
		if d, err = appdb.ParseDSN(address); err != nil {
			return nil, err
		}
	}
	src, err := appdb.OpenOrMake(ctx, d, benchTable)
	if err != nil {
		return nil, err
	}
	if d.Scheme() == appdb.SQLite { // the DSN of a server has a password, which is not shown
		src.Args = d.String() + " --outbox-table " + benchTable
	}
	defer func() {
		if b.cfg.Outbox != "" { // it is not the bench's own
			err = errors.Join(err, clearTables(src))
		}
		err = errors.Join(err, src.DB.Close())
	}()
	if _, err := src.Init(ctx, false); err != nil {
		return nil, err
	}
	for _, way := range wakings(src) {
		r, err := b.wokenBy(ctx, src, address, way)
		if err != nil {
			return results, err
		}
		results = append(results, r)
	}
	app, err := b.appAlone(ctx, src)
	return append(results, app...), err
}

// waking is a way in which a relay hears of a commit.
type waking struct {
	name  string
	flags []string
	poke  bool
}

// wakings are the ways that a database offers.
func wakings(s *appdb.Source) []waking {
	if s.DSN.Scheme() == appdb.SQLite {
		return []waking{{name: "outbox"}}
	}
	ways := []waking{{name: "outbox-poll"}, {name: "outbox-poke", poke: true}}
	if s.DSN.Scheme() == appdb.Postgres {
		ways = append(ways, waking{name: "outbox-listen", flags: []string{"--outbox-wake", "listen"}})
	}
	return ways
}

// clearTables drops the tables of a bench.
func clearTables(s *appdb.Source) error {
	for _, table := range []string{"", "_relays", "_identity", "_ticks"} {
		if _, err := s.DB.Exec("DROP TABLE IF EXISTS " + benchTable + table); err != nil {
			return s.Fault(job.Unavailable, err.Error())
		}
	}
	return nil
}

func (b *bench) wokenBy(ctx context.Context, src *appdb.Source, address string, way waking) (Result, error) {
	if len(way.flags) > 0 {
		trigger, err := postgres.Trigger(benchTable)
		if err == nil {
			_, err = src.DB.ExecContext(ctx, trigger)
		}
		if err != nil {
			return Result{}, src.Fault(job.Unavailable, err.Error())
		}
	}
	server, err := b.startChild(ctx, append([]string{"--outbox-table", benchTable,
		"--db", filepath.Join(b.dir, way.name+".db"), "--outbox", address}, way.flags...)...)
	if err != nil {
		return Result{}, err
	}
	defer server.stop()
	other := *b
	other.child, other.target, other.server = server, server.url, server.process
	r, err := other.commits(ctx, src, way)
	r.Memory = server.memory()
	return r, err
}

func (b *bench) commits(ctx context.Context, src *appdb.Source, way waking) (Result, error) {
	cs, hangUp, err := b.dial(ctx, 2)
	if err != nil {
		return Result{}, err
	}
	defer hangUp()
	e, err := b.outboxJob()
	if err != nil {
		return Result{}, err
	}
	return b.wakeUps(ctx, way.name, "COMMIT to FETCH answered", cs[0], "bench-outbox", func() (time.Time, error) {
		err := commitOne(ctx, src, e)
		at := time.Now()
		if err == nil && way.poke {
			_, err = cs[1].post(pathPoke, nil)
		}
		return at, err
	})
}

// appAlone is what the row costs the app: its transaction of one INSERT with a
// second one into the outbox, and without, by turns.
func (b *bench) appAlone(ctx context.Context, src *appdb.Source) ([]Result, error) {
	e, err := b.outboxJob()
	if err != nil {
		return nil, err
	}
	var with, without caller
	began := time.Now()
	for n := 0; time.Since(began) < b.cfg.Duration && (b.cfg.Jobs == 0 || n < b.cfg.Jobs); n++ {
		for _, c := range []struct {
			into *caller
			es   []job.Envelope
		}{{&without, []job.Envelope{e}}, {&with, []job.Envelope{e, e}}} {
			at := time.Now()
			if err := commitOne(ctx, src, c.es...); err != nil {
				return nil, err
			}
			c.into.samples = append(c.into.samples, time.Since(at))
			c.into.jobs++
		}
	}
	one := sum("app-one-row", "transaction of the app", []*caller{&without}, time.Since(began))
	two := sum("app-two-rows", "transaction of the app", []*caller{&with}, time.Since(began))
	one.PerSecond, two.PerSecond = 0, 0 // by turns, so a rate would say nothing
	return []Result{one, two}, nil
}

func (b *bench) outboxJob() (job.Envelope, error) {
	c, err := job.ParseEnvelope(b.jobJSON("bench-outbox"))
	return c.Envelope(), err
}

// commitOne is a transaction of the app.
func commitOne(ctx context.Context, src *appdb.Source, es ...job.Envelope) error {
	tx, err := src.DB.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("the shop: %w", err)
	}
	if _, err := outbox.New(src.Dialect).Add(ctx, tx, es...); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
