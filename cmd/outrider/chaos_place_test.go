//go:build unix

package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	jobspgx "github.com/outrider-jobs/outrider/adapters/pgx"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

// orderTx is a transaction of the app, of database/sql or of pgx.
type orderTx interface {
	exec(stmt string) error
	add(es ...job.Envelope) ([]job.ID, error)
}

type sqlTx struct {
	tx *sql.Tx
	o  *outbox.Outbox
}

func (t sqlTx) exec(stmt string) error {
	_, err := t.tx.Exec(stmt)
	return err
}

func (t sqlTx) add(es ...job.Envelope) ([]job.ID, error) {
	return t.o.Add(context.Background(), t.tx, es...)
}

type pgxTx struct {
	tx pgx.Tx
	o  *outbox.Outbox
}

func (t pgxTx) exec(stmt string) error {
	_, err := t.tx.Exec(context.Background(), stmt)
	return err
}

func (t pgxTx) add(es ...job.Envelope) ([]job.ID, error) {
	return jobspgx.Add(context.Background(), t.o, t.tx, es...)
}

// transact runs body in a transaction of the app, and commits it if body says so.
// native takes the driver's own way where there is an adapter for it.
func (s *chaosShop) transact(native bool, body func(orderTx) (commit bool, err error)) error {
	o := outbox.New(s.d)
	if native && s.d.Name() == "postgres" {
		return s.transactPgx(o, body)
	}
	tx, err := s.app.Begin()
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback() // after Commit it does nothing
	commit, err := body(sqlTx{tx, o})
	if err != nil || !commit {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func (s *chaosShop) transactPgx(o *outbox.Outbox, body func(orderTx) (bool, error)) error {
	ctx := context.Background()
	conn, err := s.app.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	return conn.Raw(func(driver any) error {
		tx, err := driver.(*stdlib.Conn).Conn().Begin(ctx)
		if err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		defer func() { _ = tx.Rollback(ctx) }() // after Commit it does nothing
		commit, err := body(pgxTx{tx, o})
		if err != nil || !commit {
			return err
		}
		if err := tx.Commit(ctx); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		return nil
	})
}

// placeMixed writes orders and the rows of their jobs. Neighbours that come the same
// way are one statement, or one call of Add.
func placeMixed(tx orderTx, all []*placed) error {
	for from := 0; from < len(all); {
		to := from + 1
		for to < len(all) && all[to].via == all[from].via {
			to++
		}
		write := placeSQL
		if all[from].via == wayGo {
			write = placeGo
		}
		if err := write(tx, all[from:to]); err != nil {
			return err
		}
		from = to
	}
	orders := make([]string, len(all))
	for i, p := range all {
		orders[i] = fmt.Sprintf("(%d,'ada-%[1]d@example.com','%s','%s',%d,'%s',%d,'%s',%d,'%s','%s',%d,%d,%d,%d)", p.id, p.via, p.jobID, p.copies,
			p.queue, p.priority, p.options(), p.at, p.kind.name, p.key, p.kind.back, bit(p.kind.parks), bit(p.kind.cancels), bit(p.kind.rewrites))
	}
	return tx.exec(`INSERT INTO orders (id, email, via, job_id, copies, queue, priority, options, placed, kind, akey, back, parks, cancels, rewrites) VALUES ` + strings.Join(orders, ","))
}

func placeGo(tx orderTx, all []*placed) error {
	es := make([]job.Envelope, len(all))
	for i, p := range all {
		es[i] = p.envelope()
	}
	ids, err := tx.add(es...)
	for i, id := range ids {
		all[i].jobID = string(id)
	}
	return err
}

func placeSQL(tx orderTx, all []*placed) error {
	var rows []string
	for _, p := range all {
		id := "NULL"
		if p.jobID != "" {
			id = "'" + p.jobID + "'"
		}
		for range p.copies {
			rows = append(rows, fmt.Sprintf("(%s,'order.confirm','%s','%s')", id, p.args(), p.options()))
		}
	}
	return tx.exec(`INSERT INTO ojs_outbox (job_id, job_type, job_args, job_options) VALUES ` + strings.Join(rows, ","))
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// placeAll places orders in one transaction, for tests that know what they place.
func (s *chaosShop) placeAll(all ...*placed) {
	s.t.Helper()
	for _, p := range all {
		p.at = time.Now().UnixMicro()
	}
	s.must(s.transact(false, func(tx orderTx) (bool, error) { return true, placeMixed(tx, all) }))
}
