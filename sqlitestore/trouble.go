package sqlitestore

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// trouble is a kind of fault that a store may have for a time. Of several, Trouble
// returns the one that stands first here.
type trouble int

const (
	failed      trouble = iota // nothing can be written any more until the store is opened again
	damaged                    // something was read that cannot have been written, or a check has found it
	noSpace                    // the disk is full, or nearly
	lockHeld                   // another program holds the lock
	unwritable                 // a write fails for another reason
	rottenIndex                // an index disagrees with its table, and is built anew
	logGrown                   // the log grows, as somebody keeps it in use
	slow                       // the disk takes seconds for a flush
)

// String is the name of the kind: job.TroubleKinds has them in the order of the constants.
func (t trouble) String() string { return job.TroubleKinds[t] }

// troubles is what is wrong with a store at present. Each is logged once when it
// begins and once when it is over, however often it is noticed. It is safe for
// concurrent use.
type troubles struct {
	log *slog.Logger

	mu   sync.Mutex
	have map[trouble]error
}

// begin notes that there is a trouble of this kind. err is logged as it is: what happened, to what, and what to do.
func (t *troubles) begin(kind trouble, level slog.Level, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.have[kind]; known {
		return
	}
	if t.have == nil {
		t.have = map[trouble]error{}
	}
	t.have[kind] = err
	t.log.Log(context.Background(), level, err.Error())
}

// renew is begin for a trouble whose text changes while it lasts: Trouble has the newest.
func (t *troubles) renew(kind trouble, err error) {
	t.begin(kind, slog.LevelWarn, err)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.have[kind] = err
}

// has reports whether there is a trouble of this kind.
func (t *troubles) has(kind trouble) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.have[kind]
	return known
}

// any reports whether there is a trouble.
func (t *troubles) any() bool { return t.worst() != nil }

// end notes that a trouble of this kind is over; if there was one, well is logged.
func (t *troubles) end(kind trouble, well string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, had := t.have[kind]; !had {
		return
	}
	delete(t.have, kind)
	t.log.Info(well)
}

// worst is the trouble that stands first, nil when all is well.
func (t *troubles) worst() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.have) == 0 {
		return nil
	}
	return t.have[slices.Min(slices.Collect(maps.Keys(t.have)))]
}

// kinds are the names of all that is wrong, the worst first.
func (t *troubles) kinds() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := make([]string, 0, len(t.have))
	for _, kind := range slices.Sorted(maps.Keys(t.have)) {
		names = append(names, kind.String())
	}
	return names
}

// Facts is what the store shows of itself; see [job.StoreFacts]. It looks at the
// names of two files and waits for nothing.
func (s *Store) Facts() job.StoreFacts {
	f := job.StoreFacts{Troubles: s.troubles.kinds(), FileBytes: sizeOf(s.path), LogBytes: sizeOf(s.path + "-wal")}
	if ago, was := s.w.gauge.since(&s.w.gauge.flushed); was {
		f.LastCommit = time.Now().Add(-ago)
	}
	return f
}

// sizeOf is the length of a file, 0 where there is none.
func sizeOf(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return st.Size()
}

// Trouble is what is wrong with the store at present; see [job.Store].
func (s *Store) Trouble() error { return s.troubles.worst() }

// Failed is closed when nothing can be written any more until the store is opened
// again: a flush has failed, or the file is not what was opened. Trouble says
// which. What was acknowledged before is recovered from the log by the next
// [Open], so a server does best to end, and to be started again.
func (s *Store) Failed() <-chan struct{} { return s.failed }
