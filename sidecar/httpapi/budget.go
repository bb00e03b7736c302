package httpapi

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// DefaultBudget is what the bodies of all requests and answers may take together
// unless another size is given, in bytes.
const DefaultBudget = 144 << 20

const (
	// small is what every request may hold without asking, so that callers with small
	// jobs never wait for those with large ones. All of it together is bounded by the
	// number of connections.
	small = 32 << 10
	// copies is how many bytes of memory a byte of a body takes while it is worked on:
	// the body or the row, the job that is made of it, and the answer.
	copies = 3
	// perJob is what a job of a batch takes beside its bytes: the envelope, the job,
	// the receipt and the store's copy of it.
	perJob = 4 << 10

	patience = time.Second           // how long a large body waits for others to leave
	look     = 10 * time.Millisecond // how often it looks whether they have
)

// Budget is the memory that the bodies of requests and answers take together. A caller
// for whom there is none left is told to come again. It is safe for concurrent use.
type Budget struct {
	size int64
	used atomic.Int64
	last atomic.Int64 // when anything of it was used, in nanoseconds since 1970

	pages chan struct{} // has room for each list that is being read and written out
	after chan struct{} // has room for one more list, after others have kept it waiting for long
}

// NewBudget makes a Budget of so many bytes; 0 is DefaultBudget.
func NewBudget(bytes int64) *Budget {
	if bytes <= 0 {
		bytes = DefaultBudget
	}
	// More lists at once would only keep small requests waiting (measured: with two of
	// them on two processors the p99 of PUSH is 105 ms, with one 75).
	return &Budget{size: bytes, pages: make(chan struct{}, max(1, runtime.NumCPU()-1)), after: make(chan struct{}, 1)}
}

// turn waits until a list may be read, and returns what lets the next one in. A
// list that takes long does not keep all others waiting.
func (b *Budget) turn(ctx context.Context) (done func(), err error) {
	var after chan struct{}
	long := time.NewTimer(patience)
	defer long.Stop()
	for {
		select {
		case b.pages <- struct{}{}:
			return func() { <-b.pages }, nil
		case after <- struct{}{}:
			return func() { <-b.after }, nil
		case <-long.C:
			after = b.after
		case <-ctx.Done():
			return nil, job.Errorf(job.Unavailable, "the caller left before its turn: %w", ctx.Err())
		}
	}
}

// Used is how much is taken at the moment, in bytes.
func (b *Budget) Used() int64 { return b.used.Load() }

// LastUsed is when a large body last took some of it or gave some back; the zero time
// is never.
func (b *Budget) LastUsed() time.Time {
	if n := b.last.Load(); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}

// try takes n bytes if they are there; it always takes none.
func (b *Budget) try(n int64) bool {
	if n == 0 {
		return true
	}
	for {
		used := b.used.Load()
		if n > b.size-used {
			return false
		}
		if b.used.CompareAndSwap(used, used+n) {
			b.last.Store(time.Now().UnixNano())
			return true
		}
	}
}

// wait is try, but waits a while for others to give theirs back.
func (b *Budget) wait(ctx context.Context, n int64) bool {
	if n > b.size {
		return false
	}
	for over := time.Now().Add(patience); !b.try(n); {
		if time.Now().After(over) {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(look):
		}
	}
	return true
}

// add takes n bytes whether they are there or not, or gives them back when negative.
func (b *Budget) add(n int64) {
	if n != 0 {
		b.used.Add(n)
		b.last.Store(time.Now().UnixNano())
	}
}

// A charge is what one request has taken of the budget. The first small bytes of
// it cost nothing.
type charge struct {
	of   *Budget // nil is without bounds
	held int64   // bytes, including those that cost nothing
}

// cost is what holding so many bytes takes of the budget.
func cost(held int64) int64 { return max(0, held-small) }

// grow makes the charge n bytes larger if they are there.
func (c *charge) grow(n int64) bool {
	if c.of == nil || c.of.try(cost(c.held+n)-cost(c.held)) {
		c.held += n
		return true
	}
	return false
}

// await is grow, but waits a while. The error says why there is no memory.
func (c *charge) await(ctx context.Context, n int64) error {
	if c.of == nil || c.of.wait(ctx, cost(c.held+n)-cost(c.held)) {
		c.held += n
		return nil
	}
	if need := cost(c.held + n); need > c.of.size {
		return job.Errorf(job.TooLarge, "this request would take about %d MB of memory, and the server may use %d MB for all of them; send it in smaller parts, or raise the server's memory limit", need>>20, c.of.size>>20).
			With(map[string]any{"limit": c.of.size / copies})
	}
	return job.Errorf(job.Unavailable, "the server is busy with other large bodies and has no memory left for this one; nothing was done, so send it again, or in smaller parts, or raise the server's memory limit")
}

// settle sets the charge to held bytes, whether they are there or not.
func (c *charge) settle(held int64) {
	if c.of != nil {
		c.of.add(cost(held) - cost(c.held))
	}
	c.held = held
}
