package sqlitestore

import (
	"context"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

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
