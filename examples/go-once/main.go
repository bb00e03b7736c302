// Go-once moves money between two accounts exactly once, though its worker dies
// after the commit and before the acknowledgement, and the job comes again. It
// runs on SQLite, PostgreSQL, MySQL and MariaDB.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
	_ "modernc.org/sqlite"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/once"
)

func main() {
	driver := flag.String("driver", "sqlite", "sqlite, pgx or mysql")
	dsn := flag.String("db", "file:bank.db?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)", "the bank's database, as the driver likes it")
	server := flag.String("server", "http://127.0.0.1:8080", "where outrider serves")
	crash := flag.Bool("crash", false, "die by SIGKILL between commit and acknowledgement")
	flag.Parse()
	db, err := sqlx.Open(*driver, *dsn)
	if err != nil {
		log.Fatal(err)
	}
	switch b, ctx := (bank{db, *crash}), context.Background(); flag.Arg(0) {
	case "init":
		err = b.init(ctx)
	case "send":
		err = b.send(ctx)
	case "work":
		err = b.work(ctx, *server)
	default:
		err = fmt.Errorf("say init, send or work, got %q", flag.Arg(0))
	}
	if err != nil {
		log.Fatal(err)
	}
}

type bank struct {
	db    *sqlx.DB
	crash bool
}

func (b bank) init(ctx context.Context) error {
	for _, stmt := range []string{`CREATE TABLE account (owner VARCHAR(20) PRIMARY KEY, balance BIGINT NOT NULL)`,
		`INSERT INTO account (owner, balance) VALUES ('ada', 100), ('bob', 0)`} {
		if _, err := b.db.ExecContext(ctx, stmt); err != nil {
			return err
		}
	}
	return once.Create(ctx, b.db)
}

// send asks for the transfer. In an app this row stands in a transaction with others.
func (b bank) send(ctx context.Context) error {
	_, err := b.db.ExecContext(ctx, `INSERT INTO ojs_outbox (job_type, job_args) VALUES ('money.transfer', '["ada", "bob", 30]')`)
	return err
}

func (b bank) work(ctx context.Context, server string) error {
	c, err := client.New(server, client.Options{})
	if err != nil {
		return err
	}
	w := client.NewWorker(c, client.WorkerOptions{Visibility: 2 * time.Second, Heartbeat: 500 * time.Millisecond})
	w.HandleFunc("money.transfer", b.transfer)
	return w.Run(ctx)
}
