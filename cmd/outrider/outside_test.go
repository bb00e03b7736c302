//go:build linux

package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Whatever happens to the database: who asks over HTTP is told what happened and
// what to do, but neither where the file lies nor what SQLite says. The log has both.
func TestErrorsTellNoPathAndNothingOfSQLite(t *testing.T) {
	push := `{"type":"a.b","args":["` + strings.Repeat("x", 20_000) + `"]}`
	for name, tt := range map[string]struct {
		hurt         func(t *testing.T, db string) // the file of a running server
		method, path string
		want, logged string
	}{
		"another program holds it": {lockFile, "POST", pathPush,
			"begin: another program holds the database; end it, nothing but outrider may write to this file", "database is locked"},
		"it is gone": {removeFile, "POST", pathPush,
			"the database was removed or replaced while it was in use;", "outrider.db"},
		"it is damaged": {damageFile, "GET", "/ojs/v1/jobs",
			"count jobs: the database is damaged; stop the server, keep a copy of the file and restore a backup", "malformed"},
		"its disk is full": {fillDisk, "POST", pathPush,
			"there is no space left for the database; nothing was changed, free some and the server goes on by itself", "full"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "CANARY")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if name == "its disk is full" {
				if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,mode=0700"); err != nil {
					t.Skip("skipped: needs root to mount a disk of its own: ", err)
				}
				t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
			}
			db := filepath.Join(dir, "outrider.db")
			p := startProcess(t, "serve", "--listen", "127.0.0.1:0", "--db", db, "--log-level", "debug", "--shutdown-grace", "0s")
			url := readyURL(t, p.stdout)
			for range 10 {
				if status, body := ask(t, http.DefaultClient, "POST", url+pathPush, push); status != 201 {
					t.Fatalf("push: %d %s", status, body)
				}
			}
			tt.hurt(t, db)
			status, body := ask(t, http.DefaultClient, tt.method, url+tt.path, push)
			var answer struct {
				Error struct {
					Code, Message, Hint string
					Retryable           bool
					RequestID           string `json:"request_id"`
				}
			}
			if err := json.Unmarshal([]byte(body), &answer); err != nil {
				t.Fatal(err)
			}
			t.Log(status, body)
			e := answer.Error
			if status != 503 || e.Code != "backend_error" || !e.Retryable || e.Hint == "" || e.RequestID == "" || !strings.Contains(e.Message, tt.want) {
				t.Errorf("got %d %s\nwant %s", status, body, tt.want)
			}
			for _, secret := range []string{"CANARY", "outrider.db", "sqlite", "SQLITE", "locked", "malformed", "I/O", "disk image", "(5)", "(11)", "(13)"} {
				if strings.Contains(body, secret) {
					t.Errorf("the answer tells %q", secret)
				}
			}
			line := p.stderr.until(t, e.RequestID)
			if !strings.Contains(line, tt.logged) || !strings.Contains(line, "request failed") {
				t.Errorf("the log says %s", line)
			}
			_ = p.Process.Kill()
		})
	}
}

func lockFile(t *testing.T, db string) {
	t.Helper()
	other, err := sql.Open("sqlite", db)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() }) // it ends the transaction
	conn, err := other.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(context.Background(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
}

func fillDisk(t *testing.T, db string) {
	t.Helper()
	f, err := os.Create(filepath.Join(filepath.Dir(db), "other"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
}

func removeFile(t *testing.T, db string) {
	t.Helper()
	if err := os.Remove(db); err != nil {
		t.Fatal(err)
	}
}

// damageFile makes all pages of the log and of the file unreadable but the first.
func damageFile(t *testing.T, db string) {
	t.Helper()
	other, err := sql.Open("sqlite", db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(db, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	if _, err := f.WriteAt([]byte(strings.Repeat("\xff", int(st.Size())-page)), page); err != nil {
		t.Fatal(err)
	}
}
