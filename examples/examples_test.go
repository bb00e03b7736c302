// Package examples_test starts every example as its README does: the server and
// the example as processes of their own, on a database of their own. What is
// judged is what then stands in that database and in the server's answers.
package examples_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

// bin is the folder with the programs under test, made once by TestMain.
var bin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "outrider-examples-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin = dir
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator),
		"../cmd/outrider", "./go-sqlite", "./go-postgres", "./go-once", "./workflow")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %v\n%s", build.Args, err, out)
		return 1
	}
	return m.Run()
}

func TestGoSQLite(t *testing.T) {
	t.Parallel()
	db, path := newSQLite(t)
	order := func(email string) error { return try(t, program("go-sqlite"), "-db", path, "order", email) }
	for _, email := range []string{"ada@example.com", "bob@example.com"} {
		if err := order(email); err != nil {
			t.Fatal(err)
		}
	}
	if err := order("eve@example.com"); err == nil {
		t.Error("the third of two pens was sold")
	}
	s := serve(t, "sqlite:"+path)
	start(t, program("go-sqlite"), "-server", s.url, "work")
	s.confirmed(t, db, "ada@example.com", "bob@example.com")
}

func TestGoPostgres(t *testing.T) {
	t.Parallel()
	db, dsn := newPostgres(t)
	must(t, try(t, program("outrider"), "outbox", "init", dsn))
	s := serve(t, dsn)
	shop := start(t, program("go-postgres"), "-db", dsn, "-server", s.url, "-listen", "127.0.0.1:0").address(t)
	for email, want := range inTurn("ada@example.com", 201, "bob@example.com", 201, "eve@example.com", 409) {
		if got := answer(t, shop+"/orders", "application/x-www-form-urlencoded", "email="+url.QueryEscape(email)); got != want {
			t.Errorf("the order of %s was answered with %d, want %d", email, got, want)
		}
	}
	s.confirmed(t, db, "ada@example.com", "bob@example.com")
}

func TestMySQLSQLOnly(t *testing.T) {
	t.Parallel()
	look(t, "sh", "curl", "jq")
	db, at := newMySQL(t)
	must(t, try(t, program("outrider"), "outbox", "init", at.url))
	for _, file := range []string{"shop.sql", "order.sql"} {
		at.play(t, db, filepath.Join("mysql-sql-only", file))
	}
	s := serve(t, at.url)
	start(t, "sh", filepath.Join("mysql-sql-only", "worker.sh"), s.url)
	s.confirmed(t, db, "ada@example.com")
}

func TestPythonSQLOnly(t *testing.T) {
	t.Parallel()
	look(t, "python3")
	db, path := newSQLite(t)
	pythonSQLOnly(t, "python3", db, path, "sqlite:"+path)
}

func TestPythonSQLOnlyPostgres(t *testing.T) {
	t.Parallel()
	python := withPsycopg(t)
	db, dsn := newPostgres(t)
	pythonSQLOnly(t, python, db, dsn, dsn)
}

func pythonSQLOnly(t *testing.T, python string, db *sql.DB, dsn, outbox string) {
	shop := filepath.Join("python-sql-only", "shop.py")
	must(t, try(t, program("outrider"), "outbox", "init", outbox))
	must(t, try(t, python, shop, "--db", dsn, "order", "ada@example.com"))
	if try(t, python, shop, "--db", dsn, "order", "nobody") == nil {
		t.Error("an order without an address was taken")
	}
	must(t, try(t, python, shop, "--db", dsn, "order", "bob@example.com"))
	s := serve(t, outbox)
	start(t, python, shop, "--server", s.url, "work")
	s.confirmed(t, db, "ada@example.com", "bob@example.com")
}

// withPsycopg finds a Python that has the driver, which may be the system's own.
func withPsycopg(t *testing.T) string {
	t.Helper()
	var err error
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if err = exec.CommandContext(t.Context(), python, "-c", "import psycopg").Run(); err == nil {
			return python
		}
	}
	t.Skipf("skipped: no Python that imports psycopg: %v", err)
	return ""
}

func TestNodeExpress(t *testing.T) {
	t.Parallel()
	look(t, "node", "npm")
	db, dsn := newPostgres(t)
	dir := filepath.Join(t.TempDir(), "shop") // npm writes beside the sources
	must(t, os.CopyFS(dir, os.DirFS("node-express")))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	npm := command(ctx, "npm", "ci", "--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=0")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		t.Skipf("skipped: npm cannot install express and pg: %v\n%s", err, out)
	}
	must(t, try(t, program("outrider"), "outbox", "init", dsn))
	s := serve(t, dsn)
	shop := start(t, "env", "DATABASE_URL="+dsn, "PORT=0", "node", filepath.Join(dir, "app.js")).address(t)
	start(t, "env", "OUTRIDER_URL="+s.url, "node", filepath.Join(dir, "worker.js"))
	for email, want := range inTurn("ada@example.com", 201, "bob@example.com", 201, "eve@example.com", 409) {
		if got := answer(t, shop+"/orders", "application/json", `{"email":"`+email+`"}`); got != want {
			t.Errorf("the order of %s was answered with %d, want %d", email, got, want)
		}
	}
	s.confirmed(t, db, "ada@example.com", "bob@example.com")
}

func TestGoOnce(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db, path := newSQLite(t)
		goOnce(t, db, "sqlite", "file:"+path+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)", "sqlite:"+path)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		db, dsn := newPostgres(t)
		goOnce(t, db, "pgx", dsn, dsn)
	})
	t.Run("mysql", func(t *testing.T) {
		t.Parallel()
		db, at := newMySQL(t)
		goOnce(t, db, "mysql", at.dsn, at.url)
	})
}

// goOnce lets a worker die by SIGKILL when the money has moved and the job is
// not acknowledged, and another one take the job again.
func goOnce(t *testing.T, db *sql.DB, driver, dsn, outbox string) {
	bank := []string{"-driver", driver, "-db", dsn}
	do := func(more ...string) []string { return append(bank[:len(bank):len(bank)], more...) }
	must(t, try(t, program("outrider"), "outbox", "init", outbox))
	must(t, try(t, program("go-once"), do("init")...))
	s := serve(t, outbox)
	must(t, try(t, program("go-once"), do("send")...))

	var exit *exec.ExitError
	if err := try(t, program("go-once"), do("-server", s.url, "-crash", "work")...); !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("the worker ended with %v, it should have been killed", err)
	}
	if got, want := balances(t, db), "ada 70, bob 30"; got != want {
		t.Fatalf("the killed worker left %s, want %s", got, want)
	}
	if j := s.jobs(t, "money.transfer"); len(j) != 1 || j[0].State == job.Completed {
		t.Fatalf("the killed worker left %s, want one job that is not completed", states(j))
	}

	start(t, program("go-once"), do("-server", s.url, "work")...)
	done := s.await(t, "money.transfer", 1)
	if done[0].Attempt != 2 {
		t.Errorf("the job was completed by attempt %d, want 2", done[0].Attempt)
	}
	if got, want := balances(t, db), "ada 70, bob 30"; got != want {
		t.Errorf("after two deliveries %s, want %s", got, want)
	}
}

func balances(t *testing.T, db *sql.DB) string {
	t.Helper()
	var ada, bob int
	err := db.QueryRowContext(t.Context(), `SELECT (SELECT balance FROM account WHERE owner = 'ada'), (SELECT balance FROM account WHERE owner = 'bob')`).Scan(&ada, &bob)
	must(t, err)
	return fmt.Sprintf("ada %d, bob %d", ada, bob)
}

func TestCronFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join("cron", "cron.yaml")
	at := start(t, program("outrider"), "serve", "--listen", "127.0.0.1:0", "--db", filepath.Join(t.TempDir(), "outrider.db"), "--cron-file", file).address(t)
	must(t, try(t, program("outrider"), "cron", "diff", "-f", file, "--url", at)) // the server has all of it
	must(t, try(t, program("outrider"), "cron", "trigger", "nightly-report", "--url", at))
	c, err := client.New(at, client.Options{})
	must(t, err)
	defer c.Close()
	made, err := c.Jobs(t.Context(), job.Filter{Type: "report.generate"})
	must(t, err)
	if got, want := len(made.Jobs), 1; got != want {
		t.Errorf("the trigger made %d jobs, want %d", got, want)
	}
}

func TestExecWorker(t *testing.T) {
	t.Parallel()
	look(t, "sh")
	at := start(t, program("outrider"), "serve", "--listen", "127.0.0.1:0", "--db", filepath.Join(t.TempDir(), "outrider.db")).address(t)
	start(t, program("outrider"), "work", "--exec", "email.send=exec-worker/send.sh", "--url", at)
	c, err := client.New(at, client.Options{})
	must(t, err)
	defer c.Close()
	for email, want := range map[string]struct {
		state job.State
		says  string
	}{
		"ada@example.com": {job.Completed, `"mailed": "ada@example.com"`},
		"nobody":          {job.Discarded, `"exit_65"`},
	} {
		rs, err := c.Enqueue(t.Context(), job.Envelope{Type: "email.send", Args: fmt.Appendf(nil, "[%q]", email)})
		must(t, err)
		until(t, func() (bool, string) {
			j, err := c.Job(t.Context(), rs[0].ID)
			must(t, err)
			return j.State == want.state && strings.Contains(string(j.Result)+string(j.Error), want.says), fmt.Sprintf("the mail to %s is %s: %s%s", email, j.State, j.Result, j.Error)
		})
	}
}

func TestEveryPageIsAPage(t *testing.T) {
	for pattern, most := range map[string]int{"*/*.go": 100, "*/*.py": 100, "*/*.js": 100, "*/*.sh": 100, "*/*.sql": 100, "*/README.md": 60} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Errorf("no file is %s: %v", pattern, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			must(t, err)
			if n := strings.Count(string(text), "\n"); n > most {
				t.Errorf("%s has %d lines, it must fit on a page of %d", name, n, most)
			}
		}
	}
}

// answer is the status that a POST is answered with.
func answer(t *testing.T, to, contentType, body string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(body))
	must(t, err)
	r.Header.Set("Content-Type", contentType)
	a, err := http.DefaultClient.Do(r)
	must(t, err)
	defer a.Body.Close()
	_, _ = io.Copy(io.Discard, a.Body) // the status is all we want
	return a.StatusCode
}

// inTurn yields pairs in their order.
func inTurn(pairs ...any) func(yield func(string, int) bool) {
	return func(yield func(string, int) bool) {
		for i := 0; i+1 < len(pairs) && yield(pairs[i].(string), pairs[i+1].(int)); i += 2 {
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
