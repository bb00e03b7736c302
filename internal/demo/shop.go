package demo

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	_ "modernc.org/sqlite" // the driver of the shop

	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/outbox"
)

// demoShop is the app of the demo: a database of its own, with its own tables.
type demoShop struct {
	path       string
	db         *sql.DB
	rolledBack int
}

// order is what the app writes, and what the worker is given as its one argument.
type order struct {
	ID       int64  `json:"order"`
	Email    string `json:"email"`
	FailOnce bool   `json:"fail_once,omitempty"`

	committed time.Time // just before COMMIT
	started   time.Time // of the first attempt
}

const orderJob = "order.confirm"

const createOrders = `CREATE TABLE orders (
  id    INTEGER PRIMARY KEY,
  email TEXT NOT NULL
)`

func openShop(ctx context.Context, path string) (*demoShop, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		return nil, fmt.Errorf("open the shop: %w", err)
	}
	s := &demoShop{path: path, db: db}
	d, err := sqlite.Dialect("")
	if err == nil {
		err = outbox.Init(ctx, db, d)
	}
	if err == nil {
		_, err = db.ExecContext(ctx, createOrders)
	}
	if err != nil {
		_ = db.Close() // err is why we are here
		return nil, fmt.Errorf("make the shop: %w", err)
	}
	return s, nil
}

// place writes an order and asks for its job in one transaction. The second
// INSERT is all that any app in any language has to do.
func (s *demoShop) place(ctx context.Context, o *order, rollback bool) (time.Time, error) {
	args, err := json.Marshal([]*order{o})
	if err != nil {
		return time.Time{}, err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return time.Time{}, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id, email) VALUES (?, ?)`, o.ID, o.Email); err != nil {
		return time.Time{}, err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO ojs_outbox (job_type, job_args, job_options) VALUES (?, ?, ?)`,
		orderJob, string(args), `{"retry":{"max_attempts":20,"initial_interval":"PT0.3S","backoff_strategy":"none","jitter":false}}`); err != nil {
		return time.Time{}, err
	}
	if rollback {
		s.rolledBack++
		return time.Time{}, tx.Rollback()
	}
	at := time.Now()
	return at, tx.Commit()
}

// committed are the orders that are really there.
func (s *demoShop) committed() (ids []int64, err error) {
	rows, err := s.db.Query(`SELECT id FROM orders ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("read the orders: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// close closes the shop, where it was opened.
func (s *demoShop) close() error {
	if s == nil {
		return nil
	}
	return s.db.Close()
}
