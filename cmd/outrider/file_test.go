package main

import (
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/internal/appdb"
	"github.com/outrider-jobs/outrider/internal/testdb"
)

// TestTheFileOfAnOutboxIsReplaced: while it is gone that is told, and nobody
// makes an empty one; the rows of the next are jobs. Commands see the next too.
func TestTheFileOfAnOutboxIsReplaced(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipped: Windows deletes no file that is open")
	}
	db := sqliteDB(t)
	db.init(t)
	url, _ := inProcess(t, "--listen", "127.0.0.1:0", "--db", tempDB(t), "--shutdown-grace", "0s", "--outbox", db.dsn)
	db.insert(t, "shop.first")
	fetched(t, url, "shop.first", time.Minute)
	outboxes := func() string {
		_, body := ask(t, http.DefaultClient, "GET", url+"/ojs/v1/outbox", "")
		return body
	}
	eventually(t, "it runs", time.Minute, func() bool { return strings.Contains(outboxes(), `"state":"running"`) })
	for _, of := range []string{"-wal", "-shm", ""} {
		if err := os.Remove(db.own + of); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	eventually(t, "it says that the file is gone", time.Minute, func() bool {
		is := outboxes()
		return strings.Contains(is, `"state":"trouble"`) && strings.Contains(is, "is gone")
	})
	if _, err := os.Stat(db.own); !os.IsNotExist(err) {
		t.Errorf("somebody has made a file: %v", err)
	}
	next := &appDB{testdb.Open(t, "sqlite", "file:"+db.own+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)"), appdb.SQLite, db.dsn, db.own, ""}
	next.init(t)
	next.insert(t, "shop.next")
	fetched(t, url, "shop.next", time.Minute)
	eventually(t, "it runs again, and counts the rows of the new file", time.Minute, func() bool {
		is := outboxes()
		return strings.Contains(is, `"state":"running"`) && strings.Contains(is, `"pending":0`)
	})
}
