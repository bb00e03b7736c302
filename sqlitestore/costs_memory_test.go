//go:build !race

package sqlitestore

import (
	"database/sql/driver"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/internal/costs"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/sidecar"
)

// Allocations of each operation in process: the sidecar, the store and the driver.
func TestCostsInMemory(t *testing.T) {
	table := costs.Table{
		About: `What an operation allocates in process: sidecar, store and driver, all goroutines. The mean of 300.
A figure holds where it is within half an allocation of the file, and within 5 % or 32 bytes.`,
		Columns: costs.MemoryColumns,
	}
	const warm, n = 100, 300
	for _, c := range []struct {
		name  string
		ready func(p *shop) func(i int)
	}{
		{"PUSH", func(p *shop) func(int) {
			es := p.envelopes(warm+n, nil)
			return func(i int) { p.send(es[i]) }
		}},
		{"PUSH, with a unique key", func(p *shop) func(int) {
			es := p.envelopes(warm+n, unique)
			return func(i int) { p.send(es[i]) }
		}},
		{"PUSH, a batch of 10", func(p *shop) func(int) {
			es := p.envelopes(10*(warm+n), nil)
			return func(i int) { p.send(es[10*i : 10*i+10]...) }
		}},
		{"FETCH", func(p *shop) func(int) {
			p.push(warm+n, nil)
			return func(int) { p.fetch(1, 1) }
		}},
		{"FETCH, of an empty queue", func(p *shop) func(int) { return func(int) { p.fetch(1, 0) } }},
		{"ACK", func(p *shop) func(int) {
			js := p.running(warm + n)
			return func(i int) { p.ack(js[i]) }
		}},
		{"PUSH, FETCH, ACK", func(p *shop) func(int) {
			es := p.envelopes(warm+n, nil)
			return func(i int) { p.send(es[i]); p.ack(p.fetch(1, 1)...) }
		}},
	} {
		bubbled(t, Options{alone: true, watch: hasty}, func(p *shop) {
			p.Sidecar = sidecar.New(p.store, sidecar.Options{}) // ids and tokens as they are made
			p.Recover(p.t.Context())
			do := c.ready(p)
			time.Sleep(time.Second) // the checkpointer has looked
			table.Add(c.name, costs.Memory(warm, n, do)...)
		})
	}
	table.Check(t, "testdata/memory.golden", *updateGolden)
}

func (p *shop) envelopes(n int, change func(*job.Envelope)) []job.Envelope {
	es := make([]job.Envelope, n)
	for i := range es {
		es[i] = p.envelope(change)
	}
	return es
}

func (p *shop) send(es ...job.Envelope) {
	if _, err := p.Enqueue(p.t.Context(), es...); err != nil {
		p.t.Error(err)
	}
}

// hasty does not wait for the disk.
func hasty(conn driver.Conn, _ bool) driver.Conn {
	_ = script(conn, "PRAGMA synchronous=OFF")
	return conn
}
