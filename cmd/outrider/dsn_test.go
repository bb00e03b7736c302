package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestDSNs(t *testing.T) {
	for _, tt := range []struct{ in, shown, name string }{
		{"sqlite:./shop.db", "sqlite:./shop.db", "shop"},
		{"sqlite:///var/lib/a b.db", "sqlite:/var/lib/a b.db", "a-b"},
		{"postgres://ada:pw@db/shop", "postgres://***@db:5432/shop", "shop"},
		{"postgresql://ada@db:6432/shop?sslmode=disable&password=pw", "postgres://***@db:6432/shop", "shop"},
		{"postgres://ada:pw@one:1,two:2/shop", "postgres://***@one:1,two:2/shop", "shop"},
		{"postgres:///shop?host=/run/postgresql", "postgres://***@/run/postgresql/shop", "shop"},
		{"mysql://ada:p%40w@db/shop", "mysql://***@db:3306/shop", "shop"},
		{"mysql://ada:pw@db:3307/shop?tls=false", "mysql://***@db:3307/shop", "shop"},
		{"mysql:ada:p@w@tcp(db:3307)/shop", "mysql://***@db:3307/shop", "shop"},
		{"ada:p@w:x@tcp(db:3307)/shop?collation=utf8mb4_bin", "mysql://***@db:3307/shop", "shop"},
		{"ada:pw@unix(/run/mysqld.sock)/shop", "mysql://***@/run/mysqld.sock/shop", "shop"},
	} {
		d, err := parseDSN(tt.in)
		if err != nil || d.String() != tt.shown || d.name != tt.name {
			t.Errorf("%s: got %s, %q, %v", tt.in, d, d.name, err)
			continue
		}
		for _, text := range []string{fmt.Sprint(d), fmt.Sprintf("%v %+v %#v %s %q", d, d, d, d, d)} {
			for _, secret := range []string{"ada", "pw", "p@w", "p%40w"} {
				if strings.Contains(text, secret) {
					t.Errorf("%s: %q shows %s", tt.in, text, secret)
				}
			}
		}
	}
}

func TestDSNsThatAreNone(t *testing.T) {
	for _, v := range []string{"", "shop.db", "sqlite:", "postgres:ada:hunter2@db/shop", "postgres://ada:hunter2@db:port/shop",
		"postgres://ada:hun%zzter2@db/shop", "mysql://", "mysql://ada:hunter2@db", "mysql:ada:hunter2", "mysql://ada:hunter2@db/shop?parseTime=hunter2",
		"hunter2@db:3306", "ada:hunter2@db/shop", "mssql://ada:hunter2@db/shop", "hunter2:"} {
		d, err := parseDSN(v)
		if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "ada:") {
			t.Errorf("%q: got %s, %v", v, d, err)
		}
	}
}

func TestScrub(t *testing.T) {
	d, err := parseDSN("postgres://ada:h%40nter2@db/shop")
	if err != nil {
		t.Fatal(err)
	}
	was := errors.New("no way in")
	got := d.scrub(fmt.Errorf("cannot connect with h@nter2 or h%%40nter2 as user=ada database=shop:\n\tone: %w\n\tone: %w", was, was))
	if want := "cannot connect with *** or *** as user=*** database=shop: one: no way in"; got.Error() != want || fmt.Sprintf("%#v", got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !errors.Is(got, was) || errors.Unwrap(got) != nil {
		t.Error("the cause is not told, or can be had")
	}
}

func TestAListOfDSNs(t *testing.T) {
	got, err := splitDSNs("sqlite:one.db,postgres://ada:p,w@h1,h2/shop, mysql://h/shop,postgresql://h/x")
	want := []string{"sqlite:one.db", "postgres://ada:p,w@h1,h2/shop", " mysql://h/shop", "postgresql://h/x"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestNoPasswordIsPrinted runs every command that is given a DSN, against ports
// where nobody listens, where somebody refuses, and where all is well.
func TestNoPasswordIsPrinted(t *testing.T) {
	dsns := []string{"postgres://ada:" + canary + "@127.0.0.1:1/shop", "mysql://ada:" + canary + "@127.0.0.1:1/shop",
		"ada:" + canary + "@tcp(127.0.0.1:1)/shop", "postgres://ada:" + canary + "@127.0.0.1:x/shop", "mysql://ada:" + canary + "@127.0.0.1/shop?tls=" + canary,
		"oracle://ada:" + canary + "@127.0.0.1/shop", "postgres://shop:a@" + canary + "@127.0.0.1:1/shop", "mysql://shop:12/" + canary + "@127.0.0.1:1/shop", "ada:" + canary + "@127.0.0.1/shop"}
	for _, db := range []*appDB{postgresDB(t), mysqlDB(t)} {
		scheme, host, _ := strings.Cut(db.dsn, "://")
		_, host, _ = strings.Cut(host, "@")
		dsns = append(dsns, scheme+"://ada:"+canary+"@"+host)
		db.init(t)
		grants := []string{"GRANT SELECT ON ojs_outbox TO {user}"}
		dsns = append(dsns, db.limited(t, grants...))
	}
	for _, dsn := range dsns {
		for _, args := range []string{"outbox check", "outbox init", "outbox status", "outbox ls", "outbox replay --all", "outbox discard --all --yes",
			"serve --listen 127.0.0.1:0 --log-level debug", "relay --to http://127.0.0.1:1 --log-level debug"} {
			for _, flag := range []string{"--outbox", ""} {
				words, env := strings.Fields(args), []string{"OUTRIDER_OUTBOX=" + dsn}
				if flag != "" {
					words, env = append(words, flag, dsn), nil
				}
				if said := saidBy(t, env, words); strings.Contains(said, canary) || strings.Contains(said, "ada") {
					t.Errorf("outrider %s %v: %s", args, env == nil, said)
				}
			}
		}
	}
}

// saidBy is all that a command prints, or in a moment if it goes on.
func saidBy(t *testing.T, env, words []string) string {
	t.Helper()
	if words[0] != "serve" && words[0] != "relay" {
		o := try(t, env, words...)
		return o.stdout + o.stderr
	}
	if words[0] == "serve" {
		words = append(words, "--db", tempDB(t))
	}
	s := sit(t, env, words...)
	timer := afterAMoment()
	select {
	case c := <-s.code:
		s.done = c
	case <-timer:
	}
	s.stop()
	return s.stdout.rest() + s.stderr.rest()
}
