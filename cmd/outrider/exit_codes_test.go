//go:build unix

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// exits is a machine on which the commands of a table are run.
type exits struct {
	t     *testing.T
	tidy  *strings.Replacer
	env   []string
	limit time.Duration
	said  strings.Builder
}

var anyID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}|\(process \d+\)`)

// run runs a command and writes down what it ends with, and its words on standard error.
func (x *exits) run(line string, files map[string]string) {
	x.t.Helper()
	args := strings.Fields(line)
	for i, a := range args {
		for name, with := range files {
			a = strings.ReplaceAll(a, name, with)
		}
		args[i] = a
	}
	var stdout, stderr strings.Builder
	ctx, cancel := context.WithTimeout(x.t.Context(), x.limit)
	defer cancel()
	code := run(ctx, args, x.env, strings.NewReader(""), &stdout, &stderr)
	words := anyID.ReplaceAllString(x.tidy.Replace(stderr.String()), "…")
	fmt.Fprintf(&x.said, "%d  outrider %s\n", code, line)
	for l := range strings.Lines(words) {
		if !strings.HasPrefix(l, "time=") { // the log of a server
			fmt.Fprintf(&x.said, "     %s", l)
		}
	}
}

// TestExitCodes holds what each way to be refused ends with. README.md says what
// the numbers mean.
func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	taken := in("taken.db")
	url, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", taken)
	socket, err := net.Listen("unix", in("taken.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := gone.Addr().String()
	gone.Close()
	writeFile(t, in("crons.yaml"), "crons:\n  - {name: nightly, cron: \"0 3 * * *\", overlap_policy: skip, type: a.b}\n")
	writeFile(t, in("job.json"), duplicate)
	writeFile(t, in("broken.json"), "{")
	where := strings.TrimPrefix(url, "http://")
	files := map[string]string{"DIR": dir, "TAKEN": where, "NOBODY": nobody, "SILENT": silent.Addr().String()}
	x := &exits{t: t, env: []string{"OUTRIDER_URL=" + url}, limit: time.Minute,
		tidy: strings.NewReplacer(dir, "DIR", where, "TAKEN", nobody, "NOBODY", silent.Addr().String(), "SILENT")}

	_, body := ask(t, http.DefaultClient, "POST", url+pathPush, duplicate)
	files["HOLDER"] = regexp.MustCompile(anyID.String()).FindString(body)
	_, body = ask(t, http.DefaultClient, "POST", url+pathPush, `{"type":"a.b","args":[]}`)
	files["KEYLESS"] = regexp.MustCompile(anyID.String()).FindString(body)
	files["NOID"] = "01970000-0000-7000-8000-000000000000"
	files["NOKEY"] = strings.Repeat("0", 64)

	for _, line := range []string{
		"version", "cron apply -f DIR/crons.yaml", "unique release HOLDER", "outbox init sqlite:DIR/shop.db", "outbox check sqlite:DIR/shop.db",

		"cron diff -f DIR/none.yaml", "cron diff --prune -f DIR/broken.json", "unique explain DIR/none.json", "unique explain DIR/broken.json",
		"serve --listen 127.0.0.1:0 --db DIR/none/o.db", "serve --listen 127.0.0.1:0 --db DIR/job.json", "serve --listen 127.0.0.1:0 --db DIR/o.db --cron-file DIR/none.yaml",
		"serve --listen 127.0.0.1:0 --db DIR/o.db --outbox sqlite:DIR/none.db", "outbox check sqlite:DIR/taken.db", "outbox check sqlite:DIR/none.db",
		"serve --listen unix://DIR/job.json --db DIR/o.db",

		"sevre", "serve now", "serve --listen 0.0.0.0:1", "cron get", "cron preview bad", "unique release x", "workers quiet", "outbox discard sqlite:DIR/shop.db", "outbox check ftp://x", "work", "work --exec a.b", "work --exec a.b=DIR/none.sh", "work --http a.b=x",

		"cron get nightli", "cron get -o json other", "cron trigger other", "cron pause other", "cron resume other", "cron rm other", "cron history other",
		"workers quiet other", "workers resume other", "unique release NOKEY", "unique release -o json NOKEY", "unique release NOID", "unique release KEYLESS", "unique release HOLDER",
		"outbox replay sqlite:DIR/shop.db 99", "outbox discard --yes sqlite:DIR/shop.db 99",

		"job get x", "job ls --state faild", "job ls --type *.a", "job ls --since soon", "job ls --limit 0", "job cancel", "job cancel NOID --queue q", "job rm NOID", "job cancel --queue default",
		"job get NOID", "job watch NOID", "job cancel NOID", "job retry NOID", "job rm --yes NOID", "job history NOID", "job retry KEYLESS", "job rm --yes KEYLESS", "job rm -y KEYLESS NOID", "job watch KEYLESS --timeout 10ms",
		"queue get defualt", "queue pause other", "queue pause A", "queue limit default --rate 7", "queue limit default --off --concurrency 1", "queue purge default --state active", "queue drain default --timeout 1s",
		"dead get NOID", "dead get KEYLESS", "dead rm --yes KEYLESS", "dead retry", "dead ls --by colour", "dead purge --before soon",
		"enqueue a.b --delay soon", "enqueue a.b --at soon", "enqueue a.b --at 17:00 --delay 1m", "enqueue a.b --id x", "enqueue a.b --unique-for 1h", "enqueue a.b --meta x", "enqueue a.b {x", "enqueue a.b --timeout 1s",
		"enqueue a.b --batch DIR/none", "enqueue --batch DIR/none", "enqueue --batch DIR/broken.json", "enqueue --batch DIR/job.json --wait", "enqueue --batch DIR/job.json --from-line 0", "enqueue --file DIR/job.json --queue q", "enqueue a.b --wait --timeout 10ms",
		"job cancel KEYLESS", "job watch KEYLESS", "job cancel KEYLESS", "job retry KEYLESS", "job rm -y KEYLESS", "job cancel KEYLESS",

		"cron trigger nightly", "cron trigger nightly", "cron trigger -o json nightly",
		"serve --listen 127.0.0.1:0 --db DIR/taken.db", "serve --listen TAKEN --db DIR/o.db", "serve --listen unix://DIR/taken.sock --db DIR/o.db",
		"serve --listen 127.0.0.1:0 --db DIR/o.db --outbox sqlite:DIR/shop.db --outbox-poke-socket DIR/taken.sock",
		"relay --outbox sqlite:DIR/shop.db --outbox-poke-socket DIR/taken.sock",

		"outbox check postgres://u:hunter2@NOBODY/x", "outbox init mysql://u:hunter2@NOBODY/x", "outbox ls postgres://u:hunter2@NOBODY/x",
	} {
		x.run(line, files)
	}
	asking := []string{"cron ls", "cron get x", "cron trigger x", "cron rm -o json x", "cron history x", "cron apply -f DIR/crons.yaml", "cron diff -f DIR/crons.yaml", "unique ls",
		"unique explain DIR/job.json", "unique release NOKEY", "unique release NOID", "workers ls", "workers quiet x", "workers resume --all", "outbox poke", "work --until-empty --exec a.b=true",
		"job ls", "job get NOID", "job watch NOID", "job cancel NOID", "job rm -y NOID", "job cancel --queue x", "queue ls", "queue pause x", "dead ls", "dead purge", "enqueue a.b", "enqueue a.b --wait"}
	x.env = []string{"OUTRIDER_URL=http://" + nobody}
	for _, line := range append(asking, "bench --duration 1s --url http://NOBODY") {
		x.run(line, files)
	}
	x.env, x.limit = []string{"OUTRIDER_URL=http://" + silent.Addr().String()}, 200*time.Millisecond
	for _, line := range asking {
		x.run(line, files)
	}
	golden := filepath.Join("testdata", "exits.golden")
	if *update {
		writeFile(t, golden, x.said.String())
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := x.said.String(); got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestExitCodesAreDocumented: README.md has a row for each.
func TestExitCodesAreDocumented(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []int{exitOK, exitFailed, exitUsage, exitNotFound, exitConflict, exitUnreachable, exitTimeout, exitStore, exitDamage, exitInterrupted} {
		if !strings.Contains(string(raw), fmt.Sprintf("\n| %d | ", code)) {
			t.Errorf("README.md does not say what exit code %d means", code)
		}
	}
}
