package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/internal/netguard"
)

// ask sends a request and returns the answer's status and body.
func ask(t *testing.T, c *http.Client, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestServeOnAPortItPicks(t *testing.T) {
	url, stop := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t))
	if status, body := ask(t, http.DefaultClient, "GET", url+"/ojs/v1/health", ""); status != 200 || !strings.Contains(body, `"ok"`) {
		t.Errorf("health: got %d %s", status, body)
	}
	if status, body := ask(t, http.DefaultClient, "POST", url+pathPush, `{"type":"a.b","args":[1]}`); status != 201 {
		t.Errorf("push: got %d %s", status, body)
	}
	if code := stop(); code != exitOK {
		t.Errorf("got exit %d, want 0", code)
	}
	if _, err := http.Get(url); err == nil {
		t.Error("it still answers after the stop")
	}
}

func TestJobsOutliveTheServer(t *testing.T) {
	db := tempDB(t)
	url, stop := inProcess(t, "--listen", "127.0.0.1:0", "--db", db)
	status, body := ask(t, http.DefaultClient, "POST", url+pathPush, `{"type":"a.b","args":[]}`)
	if status != 201 {
		t.Fatalf("push: got %d %s", status, body)
	}
	stop()
	url, _ = inProcess(t, "--listen", "127.0.0.1:0", "--db", db, "--shutdown-grace", "0s")
	if _, body := ask(t, http.DefaultClient, "POST", url+pathFetch, `{"queues":["default"]}`); !strings.Contains(body, `"a.b"`) {
		t.Errorf("fetch after a restart: got %s", body)
	}
}

func TestReadyLine(t *testing.T) {
	db := tempDB(t)
	p := startProcess(t, "serve", "--listen", "127.0.0.1:0", "--db", db)
	got := p.stdout.until(t, "outrider: ")
	var port int
	if _, err := fmt.Sscanf(got, "outrider: listening on http://127.0.0.1:%d (database", &port); err != nil {
		t.Fatalf("got %q: %v", got, err)
	}
	if want := fmt.Sprintf("outrider: listening on http://127.0.0.1:%d (database %s)", port, db); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestPortInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	where := ln.Addr().String()
	o := try(t, nil, "serve", "--listen", where, "--db", tempDB(t))
	want := "error: " + where + " is in use by another program: stop it, or choose another port with --listen (127.0.0.1:0 picks a free one)\n"
	if o.code != exitConflict || o.stdout != "" || o.stderr != want {
		t.Errorf("got %+v\nwant %q", o, want)
	}
}

func TestAnOpenAddressIsRefusedBeforeAnythingHappens(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	free.Close()
	for _, host := range []string{"0.0.0.0", "", "[::]", "0", "example.com"} {
		db := tempDB(t)
		o := try(t, nil, "serve", "--listen", host+":"+port, "--db", db)
		if o.code != exitUsage || o.stdout != "" {
			t.Errorf("%s: got %+v", host, o)
		}
		if _, err := os.Stat(db); err == nil {
			t.Errorf("%s: the database was made all the same", host)
		}
		if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			c.Close()
			t.Errorf("%s: somebody listens", host)
		}
	}
}

// shop makes a database such as an app has, and returns its path.
func shop(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE orders (id INTEGER PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAMissingOutboxTableStopsTheStart(t *testing.T) {
	path := shop(t)
	o := try(t, nil, "serve", "--listen", "127.0.0.1:0", "--db", tempDB(t), "--outbox", "sqlite:"+path)
	if o.code != exitFailed || o.stdout != "" || !strings.Contains(o.stderr, "outrider outbox ") || strings.Count(o.stderr, "error:") != 1 {
		t.Errorf("got %+v", o)
	}
	t.Log(o.stderr)
	for _, args := range [][]string{{"outbox", "init", "sqlite:" + path}, {"outbox", "check", "sqlite:" + path}, {"outbox", "init", "--outbox", "sqlite:" + path}} {
		if o := try(t, nil, args...); o.code != exitOK || o.stderr != "" {
			t.Fatalf("%v: got %+v", args, o)
		}
	}
	_, stop := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t), "--outbox", "sqlite:"+path)
	if code := stop(); code != exitOK {
		t.Errorf("got exit %d, want 0", code)
	}
}

func TestAMissingOutboxDatabaseIsNotMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shop.db")
	o := try(t, nil, "serve", "--listen", "127.0.0.1:0", "--db", tempDB(t), "--outbox", "sqlite:"+path)
	if o.code != exitFailed || !strings.Contains(o.stderr, path) {
		t.Errorf("got %+v", o)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("an empty database was made")
	}
}

func TestABrokenPartEndsTheServer(t *testing.T) {
	cfg := config{listen: netguard.Address{Network: "tcp", Where: "127.0.0.1:0"}, db: tempDB(t)}
	s, err := start(t.Context(), cfg, cfg.logger(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	s.spawn("the mill", func(context.Context) error { return io.ErrUnexpectedEOF })
	if got, want := (<-s.broken).Error(), "the mill ended: unexpected EOF"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
	if err := s.close(); err != nil {
		t.Errorf("a second close: %v", err)
	}
}
