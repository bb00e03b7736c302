package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

// outbox is the time from an app's COMMIT that has returned to the answer of a
// FETCH that waits for the job. It has a server of its own, whose relay does
// not disturb the other workloads.
func (b *bench) outbox(ctx context.Context) (results []result, err error) {
	path := filepath.Join(b.dir, "shop.db")
	src, err := openOrMakeSource(ctx, dsn{"sqlite", path}, sqlite.DefaultTable)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.db.Close()) }()
	if _, err := src.db.ExecContext(ctx, "PRAGMA journal_mode = WAL"); err != nil {
		return nil, fmt.Errorf("prepare the shop: %w", err)
	}
	if err := src.init(ctx); err != nil {
		return nil, err
	}
	server, err := b.startChild(ctx, "serve", "--listen", "127.0.0.1:0",
		"--db", filepath.Join(b.dir, "relayed.db"), "--outbox", "sqlite:"+path)
	if err != nil {
		return nil, err
	}
	defer server.stop()
	other := *b
	other.target = server.url
	return other.commits(ctx, src)
}

func (b *bench) commits(ctx context.Context, src *source) ([]result, error) {
	cs, hangUp, err := b.dial(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer hangUp()
	e, err := job.ParseEnvelope(b.jobJSON("bench-outbox"))
	if err != nil {
		return nil, err
	}
	box := outbox.New(src.dialect)
	r, err := b.wakeUps(ctx, cs[0], "bench-outbox", func() (time.Time, error) {
		err := commitOne(ctx, src.db, box, e)
		return time.Now(), err
	})
	r.Workload, r.What = "outbox", "COMMIT to FETCH answered"
	return []result{r}, err
}

// commitOne is a transaction of the app.
func commitOne(ctx context.Context, db *sql.DB, box *outbox.Outbox, e job.Envelope) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("the shop: %w", err)
	}
	if _, err := box.Add(ctx, tx, e); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
