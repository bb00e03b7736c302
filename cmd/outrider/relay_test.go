package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/internal/appdb"
	"github.com/outrider-jobs/outrider/internal/memory"
)

// sitting is a command that runs in this process until it is stopped.
type sitting struct {
	stdout, stderr *lines
	cancel         context.CancelFunc
	code           chan int
	done           int
}

func sit(t *testing.T, environ []string, args ...string) *sitting {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &sitting{newLines(), newLines(), cancel, make(chan int, 1), -1}
	go func() {
		c := run(ctx, args, environ, strings.NewReader(""), s.stdout, s.stderr)
		s.stdout.Close()
		s.stderr.Close()
		s.code <- c
	}()
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *sitting) stop() int {
	if s.done < 0 {
		s.cancel()
		s.done = <-s.code
	}
	return s.done
}

// fetched waits for a job of a type at the server, and returns it.
func fetched(t *testing.T, url, kind string, limit time.Duration) (j struct {
	Type  string          `json:"type"`
	Queue string          `json:"queue"`
	Args  json.RawMessage `json:"args"`
}) {
	t.Helper()
	eventually(t, "a job of type "+kind+" at "+url, limit, func() bool {
		_, body := ask(t, http.DefaultClient, "POST", url+pathFetch, `{"queues":["default","mail"]}`)
		var r struct {
			Jobs []json.RawMessage `json:"jobs"`
		}
		if err := json.Unmarshal([]byte(body), &r); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		for _, raw := range r.Jobs {
			if err := json.Unmarshal(raw, &j); err != nil {
				t.Fatal(err)
			}
			if j.Type == kind {
				return true
			}
		}
		return false
	})
	return j
}

func (db *appDB) insert(t *testing.T, kind string) {
	t.Helper()
	db.exec(t, `INSERT INTO ojs_outbox (job_type, job_args, job_options) VALUES ('`+kind+`', '[1, 12345678901234567890, "ü"]', '{"queue": "mail"}')`)
}

// TestServeRelays: a row that plain SQL has written is a job at the server.
func TestServeRelays(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *appDB) {
		for _, release := range []string{"on_relay", "on_complete"} {
			t.Run(release, func(t *testing.T) { serveRelays(t, db, release) })
		}
	})
}

func serveRelays(t *testing.T, db *appDB, release string) {
	db.init(t)
	url, stop := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t), "--shutdown-grace", "0s", "--outbox", db.dsn,
		"--outbox-release", release, "--outbox-lease", "3s", "--outbox-poll-idle", "100ms")
	db.insert(t, "shop.ordered")
	j := fetched(t, url, "shop.ordered", time.Minute)
	if string(j.Args) != `[1,12345678901234567890,"ü"]` && string(j.Args) != `[1, 12345678901234567890, "ü"]` || j.Queue != "mail" {
		t.Errorf("got %s in %s", j.Args, j.Queue)
	}
	kept := map[string]int{"on_relay": 0, "on_complete": 1}[release]
	eventually(t, fmt.Sprintf("%d rows are relayed and none waits", kept), time.Minute, func() bool {
		return db.rows(t, "relayed") == kept && db.rows(t, "pending")+db.rows(t, "taken") == 0
	})
	status, body := ask(t, http.DefaultClient, "GET", url+"/ojs/v1/outbox", "")
	if status != 200 || !strings.Contains(body, `"state":"running","pending":0,`) || !strings.Contains(body, `"release":"`+release+`"`) {
		t.Errorf("got %d %s", status, body)
	}
	if code := stop(); code != exitOK {
		t.Errorf("exit %d", code)
	}
	db.exec(t, "DELETE FROM ojs_outbox", "DELETE FROM ojs_outbox_relays")
}

// TestServeFindsAnOlderFile: a copy of the server's file from before is put back,
// and the row of a job that it does not have is sent again.
func TestServeFindsAnOlderFile(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *appDB) {
		db.init(t)
		file := tempDB(t)
		serve := func() (*sitting, string) {
			s := sit(t, nil, "serve", "--listen", "127.0.0.1:0", "--db", file, "--shutdown-grace", "0s", "--outbox", db.dsn,
				"--outbox-release", "on_complete", "--outbox-poll-idle", "100ms")
			return s, readyURL(t, s.stdout)
		}
		var was []byte
		for n, kind := range []string{"shop.before", "shop.after"} {
			s, _ := serve()
			db.insert(t, kind)
			eventually(t, kind+" is relayed", time.Minute, func() bool { return db.rows(t, "relayed") == n+1 })
			if code := s.stop(); code != exitOK || strings.Contains(s.stderr.rest(), "older") {
				t.Errorf("exit %d, or its own file is older", code)
			}
			if n > 0 {
				break
			}
			var err error
			if was, err = os.ReadFile(file); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(file, was, 0o600); err != nil {
			t.Fatal(err)
		}
		s, url := serve()
		fetched(t, url, "shop.after", time.Minute)
		eventually(t, "both rows are relayed", time.Minute, func() bool { return db.rows(t, "relayed") == 2 })
		s.stop()
		if said := s.stderr.rest(); !strings.Contains(said, "older than what was relayed to it") || !strings.Contains(said, "rows_sent_again=1") {
			t.Errorf("it says %s", said)
		}
	})
}

// TestAPokeSavesTheWait: over HTTP, by the command, and by a byte to the socket.
func TestAPokeSavesTheWait(t *testing.T) {
	db := postgresDB(t)
	db.init(t)
	socket := filepath.Join(t.TempDir(), "poke.sock")
	url, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t), "--shutdown-grace", "0s", "--outbox", db.dsn,
		"--outbox-poll-busy", "10m", "--outbox-poll-idle", "10m", "--outbox-poke-socket", socket)
	eventually(t, "the relay has looked", time.Minute, func() bool {
		var n int
		return db.QueryRowContext(t.Context(), "SELECT count(*) FROM ojs_outbox_relays").Scan(&n) == nil && n == 1
	})
	<-time.After(300 * time.Millisecond) // and waits now
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, p := range []struct {
		how  string
		poke func()
	}{
		{"a.http", func() {
			if status, body := ask(t, http.DefaultClient, "POST", url+"/ojs/v1/outbox/poke", ""); status != 200 || body != `{"poked":1}` {
				t.Errorf("got %d %s", status, body)
			}
		}},
		{"a.command", func() {
			if o := try(t, nil, "outbox", "poke", "--url", url); o.stdout != "poked 1 relay\n" {
				t.Errorf("got %+v", o)
			}
		}},
		{"a.byte", func() { _, _ = c.Write([]byte{'.'}) }},
		{"another.byte", func() { _, _ = c.Write([]byte{'.'}) }},
	} {
		db.insert(t, p.how)
		p.poke()
		fetched(t, url, p.how, time.Minute)
	}
	o := try(t, nil, "serve", "--listen", "127.0.0.1:0", "--db", tempDB(t), "--shutdown-grace", "0s", "--outbox-poke-socket", socket)
	if o.code != exitConflict || !strings.Contains(o.stderr, "choose another path with --outbox-poke-socket") {
		t.Errorf("in use: %+v", o)
	}
}

// TestRelayAlone: a relay without a server of its own, to one elsewhere.
func TestRelayAlone(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *appDB) {
		db.init(t)
		url, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t), "--shutdown-grace", "0s")
		r := sit(t, nil, "relay", "--outbox", db.dsn, "--to", url, "--outbox-poll-idle", "100ms", "--outbox-keep", "1h")
		r.stdout.until(t, "outrider: relaying ")
		db.insert(t, "shop.ordered")
		fetched(t, url, "shop.ordered", time.Minute)
		db.insert(t, "shop.paid")
		fetched(t, url, "shop.paid", time.Minute)
		if code := r.stop(); code != exitOK {
			t.Errorf("exit %d: %s", code, r.stderr.rest())
		}
		if n := db.rows(t, "sent"); n != 2 {
			t.Errorf("%d rows are marked, want 2", n)
		}
	})
}

func TestRelayAloneKnowsOnRelayOnly(t *testing.T) {
	o := try(t, []string{"OUTRIDER_OUTBOX_RELEASE=on_complete"}, "relay", "--outbox", "sqlite:shop.db")
	if o.code != exitUsage || !strings.Contains(o.stderr, "supports only") {
		t.Errorf("got %+v", o)
	}
}

// TestListen: a NOTIFY wakes the relay; when the connection is cut that is said
// once, and once when it is back.
func TestListen(t *testing.T) {
	db := postgresDB(t)
	db.init(t)
	s := sit(t, nil, "serve", "--listen", "127.0.0.1:0", "--db", tempDB(t), "--shutdown-grace", "0s", "--outbox", db.dsn,
		"--outbox-wake", "listen", "--outbox-poll-busy", "10m", "--outbox-poll-idle", "10m")
	url := readyURL(t, s.stdout)
	s.stderr.until(t, "outrider outbox init --wake listen")
	db.init(t, "--wake", "listen")
	db.insert(t, "heard.first")
	fetched(t, url, "heard.first", time.Minute)
	const ear = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1 AND query LIKE '%pg_trigger%'"
	var n int
	if err := db.QueryRowContext(t.Context(), ear, db.own).Scan(&n); err != nil || n != 1 {
		t.Fatalf("cut %d connections, %v", n, err)
	}
	s.stderr.until(t, "LISTEN connection lost, polling every 10m0s")
	if line := s.stderr.until(t, "outbox: "); !strings.Contains(line, "listening again") {
		t.Errorf("got %s", line)
	}
	db.insert(t, "heard.again")
	fetched(t, url, "heard.again", time.Minute)
}

// TestADatabaseThatIsAwayIsNoReasonToStop: the server starts and works; the
// outbox is in trouble, and it is over when it is.
func TestADatabaseThatIsAwayIsNoReasonToStop(t *testing.T) {
	url, stop := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t), "--shutdown-grace", "0s", "--outbox", "postgres://ada:"+canary+"@127.0.0.1:1/shop", "--outbox", "mysql://ada:"+canary+"@127.0.0.1:1/shop")
	if status, _ := ask(t, http.DefaultClient, "POST", url+pathPush, `{"type":"a.b","args":[]}`); status != 201 {
		t.Errorf("push: got %d", status)
	}
	status, body := ask(t, http.DefaultClient, "GET", url+"/ojs/v1/outbox", "")
	if status != 200 || strings.Count(body, `"state":"trouble"`) != 2 || !strings.Contains(body, "connection refused") || strings.Contains(body, canary) || strings.Contains(body, "ada@") || strings.Contains(body, "ada:") {
		t.Errorf("got %d %s", status, body)
	}
	if code := stop(); code != exitOK {
		t.Errorf("exit %d", code)
	}
}

// TestTroubleIsSeen: what the relay says of itself is in its status, and gone again.
func TestTroubleIsSeen(t *testing.T) {
	db := postgresDB(t)
	db.init(t)
	url, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t), "--shutdown-grace", "0s", "--outbox", db.dsn, "--outbox-poll-idle", "50ms")
	state := func(want string) func() bool {
		return func() bool {
			_, body := ask(t, http.DefaultClient, "GET", url+"/ojs/v1/outbox", "")
			return strings.Contains(body, `"state":"`+want+`"`)
		}
	}
	db.insert(t, "first.one")
	fetched(t, url, "first.one", time.Minute) // the relay has begun, which asks for every column
	eventually(t, "running", time.Minute, state("running"))
	db.exec(t, "ALTER TABLE ojs_outbox RENAME COLUMN next_try_at TO later")
	eventually(t, "trouble", time.Minute, state("trouble"))
	db.exec(t, "ALTER TABLE ojs_outbox RENAME COLUMN later TO next_try_at")
	eventually(t, "running again", time.Minute, state("running"))
}

// TestParkedRows: seen, mended, replayed and discarded, by the commands and over HTTP.
func TestParkedRows(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *appDB) {
		db.init(t)
		url, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t), "--shutdown-grace", "0s", "--outbox", db.dsn, "--outbox-poll-idle", "50ms")
		for range 4 {
			db.insert(t, "Bad Type")
		}
		eventually(t, "4 rows are parked", time.Minute, func() bool { return db.rows(t, "parked") == 4 })
		if o := try(t, nil, "outbox", "ls", db.dsn); o.code != exitOK || strings.Count(o.stdout, "Bad Type") < 4 {
			t.Errorf("ls: %+v", o)
		}
		if o := try(t, nil, "outbox", "status", db.dsn); !strings.Contains(o.stdout, "parked   4") || !strings.Contains(o.stdout, fmt.Sprintf(" (pid %d), on_relay, has sent 0, seen ", os.Getpid())) {
			t.Errorf("status: %+v", o)
		}
		if o := try(t, nil, "outbox", "status", "-o", "json", db.dsn); !strings.Contains(o.stdout, fmt.Sprintf(`"pid":%d,"release":"on_relay"`, os.Getpid())) || !strings.Contains(o.stdout, `"relays":[{"owner":"`) {
			t.Errorf("status: %+v", o)
		}
		if _, body := ask(t, http.DefaultClient, "GET", url+"/ojs/v1/outbox", ""); !strings.Contains(body, fmt.Sprintf(`"pid":%d,"release":"on_relay"`, os.Getpid())) {
			t.Errorf("GET /outbox: %s", body)
		}
		db.exec(t, "UPDATE ojs_outbox SET job_type = 'good.one' WHERE id = 1", "UPDATE ojs_outbox SET job_type = 'good.two' WHERE id = 2")
		if o := try(t, nil, "outbox", "replay", db.dsn, "1", "99"); o.code != exitOK || !strings.Contains(o.stdout, "1 row is pending again") || !strings.Contains(o.stdout, "1 of the rows") {
			t.Errorf("replay: %+v", o)
		}
		fetched(t, url, "good.one", time.Minute)
		d, _ := appdb.ParseDSN(db.dsn)
		path := url + "/ojs/v1/outbox/" + d.Name()
		if status, body := ask(t, http.DefaultClient, "GET", path+"/parked?limit=2", ""); status != 200 || !strings.Contains(body, `"total":3`) || !strings.Contains(body, `"next_cursor":"3"`) {
			t.Errorf("parked: %d %s", status, body)
		}
		if status, body := ask(t, http.DefaultClient, "POST", path+"/replay", `{"ids":[2]}`); status != 200 || !strings.Contains(body, `"replayed":1`) {
			t.Errorf("replay: %d %s", status, body)
		}
		fetched(t, url, "good.two", time.Minute)
		if o := tryWith(t, "n\n", nil, "outbox", "discard", db.dsn, "3"); o.code != exitUsage || db.rows(t, "parked") != 2 {
			t.Errorf("discard without an answer: %+v", o)
		}
		if o := tryWith(t, "y\n", nil, "outbox", "discard", db.dsn, "3"); o.code != exitOK || db.rows(t, "parked") != 1 {
			t.Errorf("discard: %+v", o)
		}
		if o := try(t, nil, "outbox", "discard", db.dsn, "3", "--yes"); o.code != exitNotFound {
			t.Errorf("discard of a row that is gone: %+v", o)
		}
		if status, body := ask(t, http.DefaultClient, "POST", path+"/discard", `{"all":true}`); status != 200 || !strings.Contains(body, `"discarded":1`) || db.rows(t, "parked") != 0 {
			t.Errorf("discard: %d %s", status, body)
		}
	})
}

// TestTheFunction: ojs_enqueue writes a row, in a transaction as any other statement.
func TestTheFunction(t *testing.T) {
	db := postgresDB(t)
	db.init(t, "--function", "--wake", "listen")
	db.init(t, "--function", "--wake", "listen") // again changes nothing
	var one, two int64
	err := db.QueryRowContext(t.Context(), `SELECT ojs_enqueue('a.b', '[1]'), ojs_enqueue('a.b', '[]', '{"queue": "mail"}')`).Scan(&one, &two)
	if err != nil || one != 1 || two != 2 || db.rows(t, "pending") != 2 {
		t.Errorf("got %d, %d, %v", one, two, err)
	}
}

func TestMemoryFS(t *testing.T) {
	if _, err := os.Stat("/dev/shm"); err != nil {
		t.Skip("skipped: no /dev/shm")
	}
	dir, err := os.MkdirTemp("/dev/shm", "outrider")
	if err != nil {
		t.Skip("skipped: /dev/shm is not for us")
	}
	defer os.RemoveAll(dir)
	if fs := memory.FileSystem(dir); fs != "tmpfs" {
		t.Skipf("skipped: /dev/shm is %q", fs)
	}
	db := sqliteDB(t)
	db.init(t)
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(filepath.Join(dir, "linked.db"), link); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ file, release, want string }{
		{filepath.Join(dir, "1.db"), "", "loses those that have not ended. Put --db on a disk"},
		{filepath.Join(dir, "2.db"), "on_relay", "LOSES every job that has not ended"},
		{filepath.Join(dir, "3.db"), "on_complete", "except those of the outbox, which are sent again"},
		{link, "", "loses those that have not ended. Put --db on a disk"},
		{tempDB(t), "", ""},
	} {
		args := []string{"serve", "--listen", "127.0.0.1:0", "--db", tt.file}
		if tt.release != "" {
			args = append(args, "--outbox", db.dsn, "--outbox-release", tt.release)
		}
		s := sit(t, nil, args...)
		readyURL(t, s.stdout)
		s.stop()
		log, want := s.stderr.rest(), 1
		if tt.want == "" {
			want = 0
		}
		if n := strings.Count(log, "the jobs are kept in memory"); n != want || !strings.Contains(log, tt.want) {
			t.Errorf("%s: warned %d times:\n%s", args, n, log)
		}
	}
}

func afterAMoment() <-chan time.Time { return time.After(300 * time.Millisecond) }

// TestARelayThatIsStoppedAtItsStart: to be told to stop is a good end at any moment.
func TestARelayThatIsStoppedAtItsStart(t *testing.T) {
	db := sqliteDB(t)
	db.init(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stderr strings.Builder
	if code := run(ctx, []string{"relay", "--outbox", db.dsn, "--to", "http://127.0.0.1:9"}, nil, strings.NewReader(""), io.Discard, &stderr); code != exitOK || strings.Contains(stderr.String(), "error") {
		t.Errorf("got %d, %s", code, stderr.String())
	}
}
