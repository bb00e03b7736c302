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
	young, old map[job.ID]*job.Job
	size       int // bytes in young, about
}

const maxGeneration = 8 << 20

// get returns the job, or nil.
func (c *cache) get(id job.ID) *job.Job {
	if j := c.young[id]; j != nil {
		return j
	}
	return c.old[id]
}

// put remembers a job. The caller gives j away.
func (c *cache) put(j *job.Job) {
	if c.young == nil || c.size > maxGeneration {
		c.old, c.young, c.size = c.young, map[job.ID]*job.Job{}, 0
	}
	c.young[j.ID] = j
	c.size += j.Size()
}

// drop forgets a job.
func (c *cache) drop(id job.ID) {
	delete(c.young, id)
	delete(c.old, id)
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
		w.cache.reset()
		return script(w.conn, "PRAGMA shrink_memory")
	})
}
