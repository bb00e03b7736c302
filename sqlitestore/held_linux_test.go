//go:build !race

package sqlitestore

import (
	"database/sql/driver"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

// anonymous is how much memory of its own this process has, Go's and SQLite's.
func anonymous(t *testing.T) (kib int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "RssAnon:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib
}

// Readers that have looked at a large store keep little of it, however many they are.
func TestReadersKeepFewPages(t *testing.T) {
	const readers, most = 8, 3 << 10 // KiB each
	s := opened(t)
	write(t, s, 80) // 20 MB
	from, err := newConnector(s.path, true)
	if err != nil {
		t.Fatal(err)
	}
	before := anonymous(t)
	for range readers {
		conn, err := from.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if err := query(t.Context(), conn, "SELECT sum(length(args)) FROM job_bodies", func([]driver.Value) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if took := anonymous(t) - before; took > readers*most {
		t.Errorf("%d readers keep %d KiB each, want %d at most", readers, took/readers, most)
	}
}

// What the writer remembers of jobs is bounded by what it takes, not by how many they are.
func TestTheWriterRemembersSoMuch(t *testing.T) {
	const most = 12 << 20
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var c cache
	before := used()
	n := int64(0)
	for ; n < 20_000 || c.size <= maxGeneration; n++ { // until both generations are full
		c.put(kept{&job.Job{Envelope: job.Envelope{
			ID: job.IDOf([16]byte{byte(n), byte(n >> 8), 15: 1}), Type: "t", Queue: "q", Args: make([]byte, 300)}}, n})
	}
	if took := used() - before; took > most {
		t.Errorf("the cache takes %d bytes, want %d at most", took, most)
	}
	if _, ok := c.at(n - 3000); !ok {
		t.Error("a job that was touched a moment ago is not remembered")
	}
	runtime.KeepAlive(&c)
}
