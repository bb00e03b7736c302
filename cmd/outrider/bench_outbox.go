package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/outrider-jobs/outrider/adapters/postgres"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

// benchTable is the outbox of a bench: nobody else's.
const benchTable = "ojs_bench"

// outbox is the time from an app's COMMIT that has returned to the answer of a
// FETCH that waits for the job. It has a server of its own, whose relay does
// not disturb the other workloads.
func (b *bench) outbox(ctx context.Context) (results []result, err error) {
	d := dsn{scheme: onSQLite, file: filepath.Join(b.dir, "shop.db")}
	d.shown = "sqlite:" + d.file
	address := d.shown
	if b.cfg.Outbox != "" {
		address = b.cfg.Outbox
		if d, err = parseDSN(address); err != nil {
			return nil, err
		}
	}
	src, err := openOrMakeSource(ctx, d, benchTable)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.clear(b.cfg.Outbox != ""), src.db.Close()) }()
	if err := src.init(ctx); err != nil {
		return nil, err
	}
	for _, way := range src.wakings() {
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

// wakings are the ways that a database knows.
func (s *source) wakings() []waking {
	if s.dsn.scheme == onSQLite {
		return []waking{{name: "outbox"}}
	}
	ways := []waking{{name: "outbox-poll"}, {name: "outbox-poke", poke: true}}
	if s.dsn.scheme == onPostgres {
		ways = append(ways, waking{name: "outbox-listen", flags: []string{"--outbox-wake", "listen"}})
	}
	return ways
}

// clear takes the tables of a bench out of a database that is not its own.
func (s *source) clear(theirs bool) error {
	if !theirs {
		return nil
	}
	for _, table := range []string{"", "_relays", "_identity", "_ticks"} {
		if _, err := s.db.Exec("DROP TABLE IF EXISTS " + benchTable + table); err != nil {
			return s.told(job.Unavailable, err.Error())
		}
	}
	return nil
}

func (b *bench) wokenBy(ctx context.Context, src *source, address string, way waking) (result, error) {
	if len(way.flags) > 0 {
		trigger, err := postgres.Trigger(benchTable)
		if err == nil {
			_, err = src.db.ExecContext(ctx, trigger)
		}
		if err != nil {
			return result{}, src.told(job.Unavailable, err.Error())
		}
	}
	server, err := b.startChild(ctx, append([]string{"serve", "--listen", "127.0.0.1:0", "--outbox-table", benchTable,
		"--db", filepath.Join(b.dir, way.name+".db"), "--outbox", address}, way.flags...)...)
	if err != nil {
		return result{}, err
	}
	defer server.stop()
	other := *b
	other.target = server.url
	return other.commits(ctx, src, way)
}

func (b *bench) commits(ctx context.Context, src *source, way waking) (result, error) {
	cs, hangUp, err := b.dial(ctx, 2)
	if err != nil {
		return result{}, err
	}
	defer hangUp()
	c, err := job.ParseEnvelope(b.jobJSON("bench-outbox"))
	if err != nil {
		return result{}, err
	}
	e, box := c.Envelope(), outbox.New(src.dialect)
	r, err := b.wakeUps(ctx, cs[0], "bench-outbox", func() (time.Time, error) {
		err := commitOne(ctx, src.db, box, e)
		at := time.Now()
		if err == nil && way.poke {
			_, err = cs[1].post(pathPoke, nil)
		}
		return at, err
	})
	r.Workload, r.What = way.name, "COMMIT to FETCH answered"
	return r, err
}

// appAlone is what the row costs the app: its transaction of one INSERT with a
// second one into the outbox, and without, by turns.
func (b *bench) appAlone(ctx context.Context, src *source) ([]result, error) {
	c, err := job.ParseEnvelope(b.jobJSON("bench-outbox"))
	if err != nil {
		return nil, err
	}
	e, box := c.Envelope(), outbox.New(src.dialect)
	var with, without caller
	began := time.Now()
	for n := 0; time.Since(began) < b.cfg.Duration && (b.cfg.Jobs == 0 || n < b.cfg.Jobs); n++ {
		for _, c := range []struct {
			into *caller
			es   []job.Envelope
		}{{&without, []job.Envelope{e}}, {&with, []job.Envelope{e, e}}} {
			at := time.Now()
			if err := commitOne(ctx, src.db, box, c.es...); err != nil {
				return nil, err
			}
			c.into.samples = append(c.into.samples, time.Since(at))
			c.into.jobs++
		}
	}
	results := []result{sum([]*caller{&without}, time.Since(began)), sum([]*caller{&with}, time.Since(began))}
	for i, name := range []string{"app-one-row", "app-two-rows"} {
		results[i].Workload, results[i].What, results[i].PerSecond = name, "transaction of the app", 0
	}
	return results, nil
}

// commitOne is a transaction of the app.
func commitOne(ctx context.Context, db *sql.DB, box *outbox.Outbox, es ...job.Envelope) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("the shop: %w", err)
	}
	if _, err := box.Add(ctx, tx, es...); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
