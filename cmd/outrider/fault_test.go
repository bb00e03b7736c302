//go:build unix

package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/internal/netguard"
	"github.com/outrider-jobs/outrider/job"
)

// A store that has failed is the end of the process, whatever else ends it: also
// where the signal to stop came first, and at the same moment.
func TestAFailureIsNotForgottenInAStop(t *testing.T) {
	for _, order := range []string{"signal first", "failure first"} {
		t.Run(order, func(t *testing.T) {
			db := tempDB(t)
			p := startProcess(t, "serve", "--listen", "127.0.0.1:0", "--db", db)
			url := readyURL(t, p.stdout)
			go func() { p.stderr.rest() }()
			if status, _ := ask(t, http.DefaultClient, "POST", url+pathPush, `{"type":"a.b","args":[1]}`); status != 201 {
				t.Fatalf("push: %d", status)
			}
			if _, body := ask(t, http.DefaultClient, "POST", url+pathFetch, `{"queues":["default"]}`); !strings.Contains(body, `"a.b"`) {
				t.Fatalf("fetch: %s", body)
			}
			fail := func() {
				if err := os.Remove(db); err != nil {
					t.Fatal(err)
				}
			}
			if order == "failure first" {
				time.Sleep(time.Second) // the file is looked at once a second
				fail()
				go func() {
					_, _ = http.Post(url+pathPush, "application/json", strings.NewReader(`{"type":"a.b","args":[1]}`))
				}()
				p.signal(t)
			} else {
				p.signal(t)
				fail()
				for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
					resp, err := http.Post(url+pathPush, "application/json", strings.NewReader(`{"type":"a.b","args":[1]}`))
					if err != nil {
						break
					}
					resp.Body.Close()
				}
			}
			if code := p.end(t, 20*time.Second); code != exitStore {
				t.Errorf("got exit %d, want %d", code, exitStore)
			}
		})
	}
}

// What breaks as the server stops is its exit, also when nobody waits for it.
func TestAFaultIsFoundAfterTheStop(t *testing.T) {
	cfg := config{listen: netguard.Address{Network: "tcp", Where: "127.0.0.1:0"}, db: tempDB(t)}
	s, err := start(t.Context(), cfg, cfg.logger(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.fault(); err != nil {
		t.Errorf("a server that is well: %v", err)
	}
	time.Sleep(1100 * time.Millisecond) // the file is looked at once a second
	if err := os.Remove(cfg.db); err != nil {
		t.Fatal(err)
	}
	_ = s.store.Update(context.Background(), func(job.Tx) error { return nil }) // is refused
	if err := s.close(); err != nil {
		t.Log(err)
	}
	if err := s.fault(); exitCode(err) != exitStore {
		t.Errorf("got %v, exit %d, want %d", err, exitCode(err), exitStore)
	}
}
