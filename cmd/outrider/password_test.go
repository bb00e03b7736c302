package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/internal/testdb"
)

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
				if said := saidBy(t, env, words); strings.Contains(said, canary) {
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

// TestNoCommandShowsAPassword draws passwords, and gives them to every command
// that takes an address, in every place of a command line.
func TestNoCommandShowsAPassword(t *testing.T) {
	t.Chdir(t.TempDir())
	here := testdb.Ways()
	for i := range here { // where nobody listens
		for _, host := range []string{"198.51.100.7:2", "db.test:3", "db.test"} {
			here[i].Before, here[i].Behind = strings.Replace(here[i].Before, host, "127.0.0.1:1", 1), strings.Replace(here[i].Behind, host, "127.0.0.1:1", 1)
		}
	}
	here = append(here, testdb.Way{Before: "http://root:", Behind: "@127.0.0.1:1/vault"}, testdb.Way{Before: "http://127.0.0.1:1/?token=", Behind: ""}, testdb.Way{Before: "unix://root:", Behind: "@127.0.0.1:1/vault"})
	commands := []string{"outbox check DSN", "outbox init DSN", "outbox status DSN", "outbox ls DSN", "outbox replay --all DSN", "outbox check --outbox DSN",
		"bench --workload none --outbox DSN", "bench --jobs 1 --workload push --url DSN", "unique ls --url DSN", "cron ls --url DSN",
		"outbox DSN", "serve DSN", "DSN", "outbox check --outbx=DSN", "cron preview DSN", "serve --db DSN --log-level x", "serve --listen DSN",
		"serve --cron-file DSN", "serve --log-level DSN", "serve --outbox DSN --outbox-batch 0", "relay --to DSN --outbox sqlite:none.db",
		"relay --outbox DSN --to x", "outbox sql --db DSN", "outbox ls -o DSN", "unique explain DSN", "cron apply -f DSN", "cron diff -f DSN",
		"relay --outbox DSN --outbox-batch 0", "cron get --url http://127.0.0.1:1 DSN", "outbox sql --outbox-table DSN", "outbox init --wake DSN sqlite:a.db"}
	variables := []string{"OUTRIDER_OUTBOX", "OUTRIDER_OUTBOX_FILE", "OUTRIDER_URL", "OUTRIDER_URL_FILE"}
	rapid.Check(t, func(rt *rapid.T) {
		w, password := rapid.SampledFrom(here).Draw(rt, "way"), testdb.Password(rt)
		v := w.Before + password + w.Behind
		var env []string
		args := strings.Fields(rapid.SampledFrom(commands).Draw(rt, "command"))
		if name := rapid.SampledFrom(append(variables, "", "")).Draw(rt, "variable"); name != "" {
			args = []string{"outbox", "check"}
			if strings.HasPrefix(name, "OUTRIDER_URL") {
				args = []string{"cron", "ls"}
			}
			if env = []string{name + "=" + v}; strings.HasSuffix(name, "_FILE") && rapid.Bool().Draw(rt, "in a file") {
				file := filepath.Join(t.TempDir(), "value")
				if err := os.WriteFile(file, []byte(v+"\n"), 0o600); err != nil {
					rt.Fatal(err)
				}
				env = []string{name + "=" + file}
			}
		}
		for i := range args {
			args[i] = strings.Replace(args[i], "DSN", v, 1)
		}
		o := try(t, env, args...)
		if part := testdb.Leak(o.stdout+o.stderr, password); part != "" || o.code == exitOK && len(env) > 0 {
			rt.Fatalf("%q of it is in the output of %q (exit %d):\n%s%s", part, args, o.code, o.stdout, o.stderr)
		}
	})
}

// TestAFlagThatADSNIsWrittenTo: the name of such a flag ends at a = that is the DSN's own.
func TestAFlagThatADSNIsWrittenTo(t *testing.T) {
	for _, dsn := range []string{"postgres://shop:vault@127.0.0.1:1/shop?sslmode=disable", "postgres://shop:vault=x@127.0.0.1:1/shop", "shop:vault@tcp(127.0.0.1:1)/shop?tls=false"} {
		for _, flag := range []string{"--", "--outbox", "--outbox:", "-", "-o"} {
			for _, command := range []string{"serve", "outbox check", "relay", "bench", "cron", ""} {
				o := try(t, nil, append(strings.Fields(command), flag+dsn)...)
				if o.code != exitUsage || strings.Contains(o.stdout+o.stderr, "vault") {
					t.Errorf("%s %s: exit %d, %s", command, flag+dsn, o.code, o.stderr)
				}
			}
		}
	}
}

// TestAListThatCannotBePartedSurely is refused, and no part of it shown.
func TestAListThatCannotBePartedSurely(t *testing.T) {
	for _, v := range []string{"postgres://ada:12,mysql://hunter2@h/shop", "postgres://ada:12/x,mysql:w@tcp(h)/shop",
		"sqlite:a.db,mysql://ada:12,postgres://h:hunter2@i/x", "postgres://h/shop?password=12,mysql://hunter2/x"} {
		o := try(t, []string{"OUTRIDER_OUTBOX=" + v}, "outbox", "check")
		if o.code != exitUsage || strings.Contains(o.stderr, "hunter2") || !strings.Contains(o.stderr, "cannot be split") {
			t.Errorf("%s: exit %d, %s", v, o.code, o.stderr)
		}
	}
}
