package sqlitestore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// ImportOptions sets an import up.
type ImportOptions struct {
	Log      *slog.Logger // of what opening the store tells; nil is nowhere
	Progress func(p ArchiveCount)
}

// Imported is what an import has done.
type Imported struct {
	ArchiveCount          // that were read, in all runs
	Stored       int64    // jobs, by this run
	Left         int64    // jobs whose id was there already, as they are there
	Refused      []string // the ids of the first 20 jobs that were left out as a job that was there has their unique key or their custom id
	NotTaken     int64    // how many those are
	Resumed      int64    // the line at which this run went on; 0 for the beginning
	Before       bool     // all of it had been imported before, and nothing was done
}

// Import stores what Export wrote in the store at path, which is made if there is none, and held meanwhile: Conflict where a server
// has it. What is there already stays as it is: a job with the same id is left, as are schedules, settings
// and workflows. In an empty store all numbers stay the same; in others jobs stand behind those that are there.
//
// It stores a thousand lines in a transaction, with the number of the last one, so that the same call goes on there after
// whatever ended it, and stores nothing twice. A line that cannot be stored is an Invalid with its number and the
// reason, and the lines of its transaction are not stored. So is an archive without its end, whose lines are stored.
func Import(ctx context.Context, path string, r io.Reader, o ImportOptions) (done Imported, err error) {
	lines := newArchiveLines(r)
	head, err := lines.next()
	if err != nil && (err == io.EOF || errors.Is(err, errCut)) {
		return done, job.Errorf(job.Invalid, "there is no whole line, so it is no archive; nothing was changed")
	}
	if err != nil {
		return done, err
	}
	h, err := headOfArchive(head)
	if err != nil {
		return done, err
	}
	sum := sha256.Sum256(head)
	s, err := openAlone(ctx, path, o.Log)
	if err != nil {
		return done, err
	}
	i := &importer{ctx: ctx, s: s, conn: s.w.conn, o: o, head: h, mark: "import " + hex.EncodeToString(sum[:8]), lines: lines}
	err = i.run()
	i.close()
	if err != nil && ctx.Err() == nil && code(err) != 0 {
		s.w.broken.CompareAndSwap(nil, &fault{err: err}) // so that nothing is moved on the way out
	}
	cerr := s.release()
	return i.done, translateRead(path, cmp.Or(err, translateEnd("close "+path, "its log is kept, with all that was imported; free some and import again", cerr)))
}

// openAlone opens a store that nobody asks anything: its writer does not run.
func openAlone(ctx context.Context, path string, log *slog.Logger) (*Store, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	path, err := follow(path)
	if err != nil {
		return nil, err
	}
	lock, err := take(path, log)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, lock: lock, troubles: troubles{log: log}, failed: make(chan struct{})}
	o := Options{Log: log, alone: true}
	err = create(ctx, path)
	var found survey
	if err == nil {
		err = lock.hold()
	}
	if err == nil {
		found, err = examine(path, o)
	}
	var rw *connector
	if err == nil {
		rw, err = newConnector(path, false)
	}
	for _, step := range [...]func() error{
		func() error { return s.openWriter(ctx, rw, o) },
		func() error { return s.guardFiles(ctx, found) },
		func() error { return migrate(s.w.conn, path, log) },
		s.name,
		func() error { return script(s.w.conn, "PRAGMA cache_size = -65536") },
	} {
		if err == nil {
			err = step()
		}
	}
	if err != nil {
		_ = s.release() // err is why we are here
		return nil, asDamage(path, translateEnd("open "+path, "free some and start again", err))
	}
	return s, nil
}

const (
	importLines = 1000    // in one transaction
	importBytes = 8 << 20 // at most about
	importMoves = 24      // transactions between two moves of the log into the file
)

type importer struct {
	ctx   context.Context
	s     *Store
	conn  driver.Conn
	o     ImportOptions
	head  archiveHead
	mark  string // the name of what is noted of this archive
	lines *archiveLines
	done  Imported

	tables   map[string]*importTable
	baseSeq  int64 // what is added to the numbers of jobs
	baseTold int64 // and of events
	shared   bool  // the store held jobs before
	maxSeq   int64 // that were given
	maxTold  int64
	deltas   map[string]*queueRow // what the transaction adds to the counters
	ended    bool                 // its end was read
	cut      bool                 // it has none
	packer   packer
	putEvent *stmt
	find     *stmt
	laneHead *stmt
	dropBody *stmt
}

// run imports what was not imported yet.
func (i *importer) run() error {
	at, err := i.begin()
	if err != nil {
		return err
	}
	if at < 0 {
		i.done.Before = true
		return nil
	}
	if at > 1 {
		i.done.Resumed = at + 1
	}
	for i.lines.n < at {
		line, err := i.lines.next()
		if err != nil {
			return job.Errorf(job.Invalid, "%d lines of this archive were imported before, and now it has %d: it is not the same", at, i.lines.n)
		}
		i.passed(line)
	}
	for batches := 1; !i.ended; batches++ {
		before := i.done
		if err := within(i.conn, i.batch); err != nil {
			i.done = before
			return err
		}
		if i.o.Progress != nil {
			i.o.Progress(i.done.ArchiveCount)
		}
		if i.cut && !i.ended {
			return job.Errorf(job.Invalid, "the archive was cut off: behind line %d its end is missing. What stands in it was imported; finish it with outrider export --resume and import it again, which goes on there", i.lines.n)
		}
		if err := i.ctx.Err(); err != nil {
			return err
		}
		if batches%importMoves == 0 {
			if _, _, err := checkpoint(i.conn, "PASSIVE"); err != nil {
				return err
			}
		}
	}
	return nil
}

// passed counts a line that was imported before.
func (i *importer) passed(line []byte) {
	switch kind, _ := kindOfLine(line); kind {
	case jobsKind:
		i.done.Jobs++
	case eventsKind:
		i.done.Events += countEvents(line)
	}
}

// begin finds out how far this archive was imported, or notes that it is begun.
func (i *importer) begin() (at int64, err error) {
	i.done.OfJobs = i.head.Jobs
	i.deltas = map[string]*queueRow{}
	notes := map[string]int64{}
	for _, name := range []string{"", " seq", " events", " shared"} {
		err := query(i.ctx, i.conn, "SELECT value FROM marks WHERE name = "+literal(i.mark+name), func(row []driver.Value) error {
			notes[name], _ = row[0].(int64)
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	at, begun := notes[""]
	if !begun {
		if notes[" seq"], err = number(i.conn, lastSeq); err != nil {
			return 0, err
		}
		if notes[" events"], err = number(i.conn, lastEvent); err != nil {
			return 0, err
		}
		if notes[" shared"], err = number(i.conn, "SELECT EXISTS (SELECT 1 FROM job_states) OR EXISTS (SELECT 1 FROM events)"); err != nil {
			return 0, err
		}
		at = 1
		notes[""] = at
		if err := within(i.conn, func() error { return i.note(notes) }); err != nil {
			return 0, err
		}
	}
	i.baseSeq, i.baseTold, i.shared = notes[" seq"], notes[" events"], notes[" shared"] != 0
	i.maxSeq, i.maxTold = i.baseSeq+i.head.LastJob, i.baseTold+i.head.LastEvent
	if at < 0 {
		return at, nil
	}
	return at, i.prepare()
}

// note writes what is noted of this archive.
func (i *importer) note(values map[string]int64) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := i.putMark(i.mark+name, values[name]); err != nil {
			return err
		}
	}
	return nil
}

func (i *importer) putMark(name string, value int64) error {
	return script(i.conn, "INSERT INTO marks (name, value) VALUES ("+literal(name)+", "+strconv.FormatInt(value, 10)+") ON CONFLICT (name) DO UPDATE SET value = excluded.value")
}

// batch imports the next lines, in its transaction.
func (i *importer) batch() error {
	clear(i.deltas)
	from := i.lines.bytes
	for n := 0; n < importLines && i.lines.bytes-from < importBytes; n++ {
		line, err := i.lines.next()
		if err == io.EOF || errors.Is(err, errCut) {
			i.cut = true
			break
		}
		if err != nil {
			return err
		}
		if i.ended {
			return errLine(i.lines.n, "it stands behind the end of the archive")
		}
		if err := i.line(line); err != nil {
			return explainLine(i.lines.n, err)
		}
	}
	if err := i.count(); err != nil {
		return err
	}
	at := i.lines.n
	if i.ended {
		at = -1
	}
	for name, value := range map[string]int64{i.mark: at, "seq": i.maxSeq, "events": i.maxTold} {
		if err := i.putMark(name, value); err != nil {
			return err
		}
	}
	if i.ended {
		return script(i.conn, "DELETE FROM marks WHERE name IN ("+literal(i.mark+" seq")+", "+literal(i.mark+" events")+", "+literal(i.mark+" shared")+")")
	}
	return nil
}

// line imports a line.
func (i *importer) line(line []byte) error {
	if _, ok := rawjson.Valid(line); !ok {
		return errors.New("it is not JSON")
	}
	kind, ok := kindOfLine(line)
	if !ok {
		return errors.New("it is none of an archive")
	}
	row := rawjson.Member(line, kind)
	switch kind {
	case "end":
		return i.end(row)
	case eventsKind:
		return i.events(row)
	}
	t := i.tables[kind]
	if t == nil {
		return fmt.Errorf("there is no %q in an archive of format %d", kind, ArchiveFormat)
	}
	if err := t.read(row); err != nil {
		return err
	}
	if kind == jobsKind {
		return i.job(t)
	}
	return i.other(t)
}

// count adds to the counters what the transaction has stored.
func (i *importer) count() error {
	now := time.Now().UnixMilli()
	for _, name := range slices.Sorted(maps.Keys(i.deltas)) {
		d := i.deltas[name]
		args := []driver.Value{name, cmp.Or(d.CreatedAt, now)}
		for _, n := range d.counters() {
			args = append(args, *n)
		}
		if _, err := i.tables["count"].stmt.exec(args...); err != nil {
			return err
		}
	}
	return nil
}
