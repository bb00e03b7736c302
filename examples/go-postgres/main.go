// Go-postgres is a web shop on PostgreSQL, with the worker of its jobs beside
// it. An order and its job are one transaction: what is sold out leaves neither.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"

	_ "github.com/jackc/pgx/v5/stdlib" // the app's own driver

	"github.com/outrider-jobs/outrider/adapters/postgres"
	"github.com/outrider-jobs/outrider/outbox"
)

const schema = `CREATE TABLE IF NOT EXISTS orders (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, email TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS stock  (item TEXT PRIMARY KEY, amount INTEGER NOT NULL);
INSERT INTO stock VALUES ('pen', 2) ON CONFLICT DO NOTHING;`

func main() {
	dsn := flag.String("db", "postgres://postgres@127.0.0.1:5432/shop", "the shop's database")
	server := flag.String("server", "http://127.0.0.1:8080", "where outrider serves")
	listen := flag.String("listen", "127.0.0.1:3000", "where the shop serves")
	flag.Parse()
	go func() { log.Fatal(work(*server)) }()
	log.Fatal(run(context.Background(), *dsn, *listen))
}

func run(ctx context.Context, dsn, listen string) error {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return err
	}
	dialect, err := postgres.Dialect("")
	if err != nil {
		return err
	}
	if err := outbox.Init(ctx, db, dialect); err != nil { // or: outrider outbox init DSN
		return err
	}
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	http.Handle("POST /orders", &shop{db, outbox.New(dialect)})
	fmt.Printf("the shop is open on http://%s\n", l.Addr())
	return http.Serve(l, nil)
}

// ServeHTTP answers POST /orders with a form that holds an email.
func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch id, err := s.order(r.Context(), r.FormValue("email")); {
	case errors.Is(err, errSoldOut):
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "order %d\n", id)
	}
}
