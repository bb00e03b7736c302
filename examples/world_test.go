package examples_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
)

const patience = 20 * time.Second

// program is one that TestMain has built.
func program(name string) string {
	path, err := exec.LookPath(filepath.Join(bin, name)) // on some systems it ends in .exe
	if err != nil {
		return filepath.Join(bin, name) // whose start will say what is wrong
	}
	return path
}

// look skips the test where a program is missing.
func look(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("skipped: no %s: %v", name, err)
		}
	}
}

// command has none of the settings that whoever runs the tests may have.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "OUTRIDER_") })
	cmd.WaitDelay = time.Second // for the pipes of what it has started itself
	return cmd
}

// try runs a program to its end.
func try(t *testing.T, name string, args ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := command(ctx, name, args...)
	out, err := cmd.CombinedOutput()
	t.Logf("$ %s %s\n%s", filepath.Base(name), strings.Join(args, " "), out)
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, out)
	}
	return nil
}

// process is a program that runs until the test ends, and is killed then.
type process struct {
	name string
	said chan string // the address it listens on
}

func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	ctx, kill := context.WithCancel(context.Background())
	cmd := command(ctx, name, args...)
	p := &process{name: filepath.Base(name), said: make(chan string, 1)}
	out, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = cmd.Stdout
	must(t, cmd.Start())
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			t.Logf("%s: %s", p.name, lines.Text())
			if _, rest, ok := strings.Cut(lines.Text(), " on http://"); ok {
				address, _, _ := strings.Cut(rest, " ")
				select {
				case p.said <- "http://" + address:
				default:
				}
			}
		}
	})
	t.Cleanup(func() {
		kill()
		_ = cmd.Wait() // it was killed; closes the pipe, too
		reading.Wait()
	})
	return p
}

// address is where the process says that it listens.
func (p *process) address(t *testing.T) string {
	t.Helper()
	select {
	case a := <-p.said:
		return a
	case <-time.After(patience):
		t.Fatalf("%s did not say where it listens", p.name)
		return ""
	}
}

// server is an outrider that relays one outbox.
type server struct {
	url string
	*client.Client
}

func serve(t *testing.T, outbox string) *server {
	t.Helper()
	at := start(t, program("outrider"), "serve", "--listen", "127.0.0.1:0",
		"--db", filepath.Join(t.TempDir(), "outrider.db"), "--outbox", outbox, "--log-level", "warn").address(t)
	c, err := client.New(at, client.Options{})
	must(t, err)
	t.Cleanup(c.Close)
	return &server{at, c}
}

// confirmed holds the shop to its word: orders of these addresses, and of no
// others, and for each one job, completed, with the result of its mail.
func (s *server) confirmed(t *testing.T, db *sql.DB, emails ...string) {
	t.Helper()
	mailed := map[string]int{}
	for _, j := range s.await(t, "order.confirm", len(emails)) {
		var number int
		var email, ordered string
		must(t, client.Args(j, &number, &email))
		must(t, db.QueryRowContext(t.Context(), fmt.Sprintf(`SELECT email FROM orders WHERE id = %d`, number)).Scan(&ordered))
		if ordered != email {
			t.Errorf("job %s mails order %d to %s, which is of %s", j.ID, number, email, ordered)
		}
		if got, want := strings.ReplaceAll(string(j.Result), " ", ""), `{"mailed":"`+email+`"}`; got != want {
			t.Errorf("job %s has the result %s, want %s", j.ID, got, want)
		}
		mailed[email]++
	}
	for _, email := range emails {
		if mailed[email] != 1 {
			t.Errorf("%d jobs mailed to %s, want 1", mailed[email], email)
		}
	}
	var orders int
	must(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM orders`).Scan(&orders))
	if orders != len(emails) {
		t.Errorf("there are %d orders, want %d: a rollback left something", orders, len(emails))
	}
	relayed(t, db)
	if jobs := s.jobs(t, "order.confirm"); len(jobs) != len(emails) {
		t.Errorf("the server has the jobs %s, want %d: a rollback left something", states(jobs), len(emails))
	}
}

// relayed waits until the outbox holds nothing that is still to become a job.
// What is parked counts, too: none of the examples may write such a row.
func relayed(t *testing.T, db *sql.DB) {
	t.Helper()
	until(t, func() (bool, string) {
		var left int
		must(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM ojs_outbox WHERE status IN ('pending', 'taken', 'parked')`).Scan(&left))
		return left == 0, fmt.Sprintf("%d rows of the outbox have not become jobs", left)
	})
}

// await waits until n jobs of the type are completed, and there must be no others.
func (s *server) await(t *testing.T, typ string, n int) (jobs []*job.Job) {
	t.Helper()
	until(t, func() (bool, string) {
		jobs = s.jobs(t, typ)
		open := slices.ContainsFunc(jobs, func(j *job.Job) bool { return j.State != job.Completed })
		return len(jobs) > n || len(jobs) == n && !open, fmt.Sprintf("the server has the jobs %s, want %d completed", states(jobs), n)
	})
	if len(jobs) > n {
		t.Fatalf("the server has the jobs %s, want %d", states(jobs), n)
	}
	return jobs
}

// until asks again and again until something is so, and fails with the last answer.
func until(t *testing.T, so func() (bool, string)) {
	t.Helper()
	ask := time.NewTicker(20 * time.Millisecond)
	defer ask.Stop()
	for over := time.After(patience); ; {
		ok, answer := so()
		if ok {
			return
		}
		select {
		case <-ask.C:
		case <-over:
			t.Fatalf("after %s %s", patience, answer)
		}
	}
}

func (s *server) jobs(t *testing.T, typ string) []*job.Job {
	t.Helper()
	page, err := s.Jobs(t.Context(), job.Filter{Type: typ, Limit: 100})
	must(t, err)
	return page.Jobs
}

func states(jobs []*job.Job) string {
	var b strings.Builder
	for _, j := range jobs {
		fmt.Fprintf(&b, "[%s %s %s]", j.ID, j.Args, j.State)
	}
	return b.String()
}
