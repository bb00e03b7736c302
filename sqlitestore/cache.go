package sqlitestore

import (
	"context"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// cache keeps the jobs that the writer touched last, as they are after the last
// call that succeeded. The writer is the only one that changes the file, so what
// it remembers is what is stored: a job that is fetched a moment after it was
// pushed, or acknowledged a moment after it was fetched, is not read again. A
// SELECT costs about as much as the UPDATE behind it.
//
// It has two generations: when the young one is full the old one is dropped and
// the young one becomes the old one. Jobs in it are never changed; who wants to
// change one takes a clone.
type cache struct {
	young, old known
	size       int // bytes in young, about
}

// known are jobs by their ids and by the numbers of their rows.
type known struct {
	byID map[job.ID]kept
	ids  map[int64]job.ID
}

func (m *known) get(id job.ID) (kept, bool) {
	k, ok := m.byID[id]
	return k, ok
}

func (m *known) at(n int64) (kept, bool) {
	id, ok := m.ids[n]
	return m.byID[id], ok
}

func (m *known) put(id job.ID, k kept) {
	if m.byID == nil {
		m.byID, m.ids = map[job.ID]kept{}, map[int64]job.ID{}
	}
	m.byID[id], m.ids[k.n] = k, id
}

func (m *known) drop(id job.ID) {
	if k, ok := m.byID[id]; ok {
		delete(m.byID, id)
		delete(m.ids, k.n)
	}
}

// clear forgets all. A map stays as large as it once was, and to range over it or
// clear it takes as long: one that was large is not used again.
func (m *known) clear() {
	if len(m.byID) > fewJobs {
		*m = known{}
		return
	}
	clear(m.byID)
	clear(m.ids)
}

const (
	maxGeneration = 4 << 20 // some 2,800 small jobs; the garbage collector looks at all of them each time
	fewJobs       = 8
)

func (c *cache) get(id job.ID) (kept, bool) {
	if k, ok := c.young.get(id); ok {
		return k, true
	}
	return c.old.get(id)
}

// at returns the job whose rows have a number.
func (c *cache) at(n int64) (kept, bool) {
	if k, ok := c.young.at(n); ok {
		return k, true
	}
	return c.old.at(n)
}

// put remembers a job. The caller gives it away.
func (c *cache) put(k kept) {
	if c.size > maxGeneration {
		c.old, c.young, c.size = c.young, known{}, 0
	}
	c.young.put(k.ID, k)
	c.size += k.Size()
}

// drop forgets a job.
func (c *cache) drop(id job.ID) {
	c.young.drop(id)
	c.old.drop(id)
}

// reset forgets everything.
func (c *cache) reset() { *c = cache{} }

// readerRest is how long a reader nobody needs keeps its pages.
const readerRest = 15 * time.Second

// Relax gives memory back that only makes things faster: the jobs that the writer
// remembers and the pages that SQLite does. It waits for its turn as any Update.
func (s *Store) Relax(ctx context.Context) error {
	return s.Update(ctx, func(t job.Tx) error {
		w := t.(*tx).w
		w.forget()
		return script(w.conn, "PRAGMA shrink_memory")
	})
}
