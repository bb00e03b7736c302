package memory

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// Where the memory of a server goes. SQLite's is not the Go runtime's, which does
// not see it: the pages that each connection caches take 2 MB, of the writer's 8 MB,
// and it holds a row of the largest job while it reads or writes it.
const (
	offHeap = 64 << 20 // of SQLite: 8 readers, the writer and the checkpointer
	atRest  = 48 << 20 // of a server without large bodies: connections, stacks, the writer's cache, garbage
)

// Allowance is how much the server may take, in bytes.
type Allowance struct {
	All    int64 // of the process
	Heap   int64 // of it, for the Go runtime
	Bodies int64 // of it, for the bodies of requests and answers
}

// bounded works out what the server may take: as much as the setting says, and no
// more than a control group leaves it, of which a tenth is for the system's own
// books. group is 0 without one, own the operator's GOMEMLIMIT or 0.
func bounded(setting, group, own int64) Allowance {
	m := Allowance{All: setting}
	if group > 0 {
		m.All = min(m.All, group/10*9)
	}
	m.Heap = max(m.All-offHeap, m.All/2)
	if own > 0 {
		m.Heap = min(m.Heap, own)
	}
	m.Bodies = max(m.Heap-atRest, m.Heap/2)
	return m
}

// Limit tells the runtime how much it may take of setting, and says what holds. Until
// stop, which may be called twice, it has to do with less while little is in use. The
// runtime collects harder the nearer it comes, also where GOGC would have it wait. own is the operator's GOMEMLIMIT, or empty. group is the limit of the control
// group, or 0.
func Limit(setting int64, own string) (m Allowance, group int64, stop func()) {
	group = groupLimit()
	bytes, _ := ParseSize(own) // 0 for what is no size
	m = bounded(setting, group, bytes)
	return m, group, keep(m.Heap)
}

// ParseSize reads a number of bytes: 268435456, 256MB or 256MiB, which are the same.
func ParseSize(v string) (int64, error) {
	shift := 0
	for i, unit := range []string{"K", "M", "G", "T"} {
		for _, name := range []string{unit + "iB", unit + "B"} {
			if number, ok := strings.CutSuffix(v, name); ok && shift == 0 {
				v, shift = number, 10*(i+1)
			}
		}
	}
	if shift == 0 {
		v = strings.TrimSuffix(v, "B")
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("must be a size such as 256MB, 1GB or a number of bytes")
	}
	return n << shift, nil
}

// Least is the smallest limit with which a server works.
const Least = 64 << 20

const (
	giveLook  = 2 * time.Second // between two looks at what can be given back
	giveAfter = 5 * time.Second // without a large body
	giveLeast = 16 << 20        // that is worth it
)

// relaxer is what gives back memory that is not the runtime's.
type relaxer interface {
	Relax(ctx context.Context) error
}

// Bodies knows whether large bodies are in memory.
type Bodies interface {
	Used() int64
	LastUsed() time.Time
}

// GiveBack returns memory to the system when those who took it have gone: the
// runtime alone would keep what it once had for many minutes, and SQLite for ever.
func GiveBack(ctx context.Context, b Bodies, store relaxer, log *slog.Logger) error {
	look := time.NewTicker(giveLook)
	defer look.Stop()
	for r := (rest{least: footprint()}); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		now := time.Now()
		if b.Used() > 0 || now.Sub(b.LastUsed()) < giveAfter || !r.due(footprint(), allocated(), b.LastUsed()) {
			continue
		}
		if err := store.Relax(ctx); err != nil && ctx.Err() == nil {
			log.Debug("the store did not release memory", "error", err)
		}
		debug.FreeOSMemory() // twice: what pools hold outlives one collection
		debug.FreeOSMemory()
		r.given(footprint())
	}
}

// rest decides whether there is something to give back: once after large bodies,
// and once whenever a busy server has come to rest.
type rest struct {
	least     uint64 // footprint after memory was last given back
	allocated uint64 // at the last look
	large     time.Time
}

func (r *rest) due(footprint, allocated uint64, large time.Time) bool {
	calm := allocated-r.allocated < giveLeast
	r.allocated = allocated
	peaked := large.After(r.large)
	r.large = large
	return peaked || calm && footprint > r.least+giveLeast
}

func (r *rest) given(footprint uint64) { r.least = footprint }

// footprint is how much memory the runtime has from the system at the moment, in bytes.
func footprint() uint64 {
	return metric("/memory/classes/total:bytes") - metric("/memory/classes/heap/released:bytes")
}

// allocated is how much memory the program has asked the runtime for since its start, in bytes.
func allocated() uint64 { return metric("/gc/heap/allocs:bytes") }

func metric(name string) uint64 {
	s := []metrics.Sample{{Name: name}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
