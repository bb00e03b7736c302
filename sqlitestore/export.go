package sqlitestore

import (
	"bufio"
	"cmp"
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// ExportOptions says what an archive holds.
type ExportOptions struct {
	MadeBy   string    // who writes it, such as "outrider v1.2.3"
	Now      time.Time // when
	States   []job.State
	Queues   []string
	Types    []string  // exact, or a prefix that ends in *
	Since    time.Time // jobs that were stored then or later
	Webhooks bool      // with their secrets

	From     *ArchivePlace // goes on behind an archive that was cut; nil begins one
	Progress func(p ArchiveCount)
}

// ArchiveCount is what was written or read of an archive.
type ArchiveCount struct {
	Jobs, Events int64
	OfJobs       int64 // how many there are in all
}

// some reports whether the archive holds some jobs and not the whole store.
func (o *ExportOptions) some() bool {
	return len(o.States)+len(o.Queues)+len(o.Types) > 0 || !o.Since.IsZero()
}

// archiveHead is the first line of an archive.
type archiveHead struct {
	Format    int      `json:"outrider_export"`
	MadeBy    string   `json:"made_by"`
	At        string   `json:"at"`
	Schema    int      `json:"schema"`
	Store     string   `json:"store"` // its identity
	Jobs      int64    `json:"jobs"`
	LastJob   int64    `json:"last_job"` // the last numbers that were given
	LastEvent int64    `json:"last_event"`
	Only      []string `json:"only,omitempty"` // how the jobs were chosen
}

// Export writes the store at path as lines of JSON, as of one instant. A server may be working on it: SQLite's log grows
// meanwhile by what is written. Behind o.From it goes on as of now: what changed
// since that was written is as it was then, in the lines that stand there.
//
// Without a choice of jobs it is everything but the file's own identity; with one the jobs, their events and their queues, and what was a step of a
// workflow, or waits for a limit, is a job of its own.
// It must not be called in a process that has the store open.
func Export(ctx context.Context, path string, w io.Writer, o ExportOptions) (count ArchiveCount, err error) {
	path, params, still, err := forReading(path)
	if err != nil {
		return count, err
	}
	conn, err := connect(ctx, path, params)
	if err != nil {
		return count, translate("open "+path, err)
	}
	defer conn.Close()
	e := &exporter{ctx: ctx, conn: conn, o: o, still: still, w: bufio.NewWriterSize(w, 256<<10)}
	err = e.run(path)
	if err == nil {
		err = e.w.Flush()
	}
	return e.count, asDamage(path, translateRead(path, err))
}

// translateRead leaves the errors of whoever reads or writes an archive as they are.
func translateRead(path string, err error) error {
	if code(err) == 0 {
		return err
	}
	return translate("read "+path, err)
}

type exporter struct {
	ctx    context.Context
	conn   driver.Conn
	o      ExportOptions
	w      *bufio.Writer
	line   []byte
	count  ArchiveCount
	where  string       // which jobs
	still  func() error // that the file was at rest, if it was read so
	chosen map[[16]byte]struct{}
}

func (e *exporter) run(path string) error {
	if err := script(e.conn, "BEGIN"); err != nil {
		return err
	}
	f := &Facts{Path: path}
	if err := f.readIn(e.conn); err != nil {
		return err
	}
	if f.Schema != version {
		return job.Errorf(job.Unavailable, "%s has schema %d, and this outrider exports schema %d; start a server of this version on it once, or export with the one that wrote it", path, f.Schema, version)
	}
	e.where = e.o.condition()
	if err := e.head(f); err != nil {
		return err
	}
	skip := ""
	if e.o.From != nil {
		skip = e.o.From.kind
	}
	for i := range archives {
		a := &archives[i]
		if a.asked && !e.o.Webhooks || !a.plain && e.o.some() {
			continue
		}
		if skip != "" && skip != a.kind {
			continue
		}
		if err := e.table(a, skip != ""); err != nil {
			return err
		}
		skip = ""
	}
	if err := e.still(); err != nil {
		return err
	}
	e.line = fmt.Appendf(e.line[:0], `{"end":{"jobs":%d,"events":%d}}`+"\n", e.count.Jobs, e.count.Events)
	_, err := e.w.Write(e.line)
	return err
}

// head writes the first line, but behind an archive that has one.
func (e *exporter) head(f *Facts) error {
	e.count.OfJobs = f.Jobs
	if e.where != "" {
		var err error
		if e.count.OfJobs, err = number(e.conn, "SELECT count(*) FROM "+archives[slices.IndexFunc(archives, isJobs)].from+" WHERE "+e.where); err != nil {
			return err
		}
		if err := e.choose(); err != nil {
			return err
		}
	}
	if p := e.o.From; p != nil {
		e.count.Jobs, e.count.Events = p.Jobs, p.Events
		if p.store != f.Identity {
			return job.Errorf(job.Conflict, "the archive is of another store (%s) than %s (%s): it cannot be gone on with", p.store, f.Path, f.Identity)
		}
		if only := e.o.only(); !slices.Equal(only, p.only) {
			return job.Errorf(job.Conflict, "the archive was begun with other filters (%s): go on with the same ones", cmp.Or(strings.Join(p.only, " "), "none"))
		}
		if p.kind != "" {
			return nil
		}
	}
	h := archiveHead{Format: ArchiveFormat, MadeBy: e.o.MadeBy, At: job.FormatTime(e.o.Now), Schema: version, Store: f.Identity, Jobs: e.count.OfJobs, Only: e.o.only()}
	var err error
	if h.LastJob, err = number(e.conn, lastSeq); err == nil {
		h.LastEvent, err = number(e.conn, lastEvent)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(e.w).Encode(h)
}

func isJobs(a archived) bool { return a.kind == jobsKind }

// table writes the rows of a table.
func (e *exporter) table(a *archived, behind bool) error {
	cs, err := a.columnsOf(e.conn)
	if err != nil {
		return err
	}
	var where []string
	var args []driver.NamedValue
	if behind {
		where = append(where, a.behind())
		for i, v := range e.o.From.key {
			args = append(args, driver.NamedValue{Ordinal: i + 1, Value: v})
		}
	}
	switch {
	case e.where == "":
	case a.kind == jobsKind:
		where = append(where, e.where)
	case a.kind == "queue":
		where = append(where, "name IN (SELECT queue FROM "+archives[slices.IndexFunc(archives, isJobs)].from+" WHERE "+e.where+")")
	}
	rows, err := e.conn.(driver.QueryerContext).QueryContext(e.ctx, a.selection(cs, strings.Join(where, " AND ")), args)
	if err != nil {
		return err
	}
	n := 0
	return drain(rows, make([]driver.Value, len(rows.Columns())), func(row []driver.Value) error {
		if n++; n%512 == 0 {
			if err := e.ctx.Err(); err != nil {
				return err
			}
			if e.o.Progress != nil {
				e.o.Progress(e.count)
			}
		}
		values := row[len(a.key):]
		if a.kind == eventsKind {
			return e.events(values)
		}
		if a.kind == jobsKind {
			e.count.Jobs++
			if e.where != "" {
				alone(cs, values)
			}
		}
		return e.row(a, cs, values)
	})
}

// alone makes a job of its own of one that is not exported with what it belongs to.
func alone(cs []archiveColumn, values []driver.Value) {
	for i := range cs {
		switch cs[i].column {
		case "flow", "lane":
			values[i] = nil
		case "behind":
			values[i] = int64(0)
		}
	}
}

func (e *exporter) row(a *archived, cs []archiveColumn, values []driver.Value) error {
	b := append(e.line[:0], `{"`...)
	b = append(append(b, a.kind...), `":{`...)
	for i := range cs {
		if values[i] == nil {
			continue
		}
		b = cs[i].appendValue(append(b, cs[i].quoted...), values[i])
		b = append(b, ',')
	}
	if b[len(b)-1] == ',' {
		b = b[:len(b)-1]
	}
	e.line = append(b, "}}\n"...)
	_, err := e.w.Write(e.line)
	return err
}

// events writes the events of one row: those of a commit.
func (e *exporter) events(row []driver.Value) error {
	b := append(e.line[:0], `{"`+eventsKind+`":[`...)
	empty := len(b)
	err := eachEvent(row[0], row[2], func(n note) bool {
		if !e.wants(n.JobID) {
			return true
		}
		if len(b) > empty {
			b = append(b, ',')
		}
		e.count.Events++
		w := rawjson.Object(b)
		w.Int("seq", n.Seq).Str("type", n.Type).Int("at", n.Time.UnixMilli()).Optional("job", string(n.JobID)).
			Optional("job_type", n.JobType).Optional("queue", n.Queue)
		if n.prev > 0 {
			w.Int("prev", n.prev)
		}
		if len(n.Data) > 0 {
			w.Raw("data", eventData.appendValue(nil, string(n.Data)))
		}
		b = w.Close()
		return true
	})
	e.line = b
	if err != nil || len(b) == empty {
		return err
	}
	e.line = append(b, "]}\n"...)
	_, err = e.w.Write(e.line)
	return err
}

// wants reports whether an event is of a job that is exported.
func (e *exporter) wants(id job.ID) bool {
	if e.where == "" {
		return true
	}
	b, ok := id.Bytes()
	_, chosen := e.chosen[b]
	return ok && chosen
}

// choose notes the jobs whose events are exported.
func (e *exporter) choose() error {
	e.chosen = map[[16]byte]struct{}{}
	return query(e.ctx, e.conn, "SELECT id_bytes FROM "+archives[slices.IndexFunc(archives, isJobs)].from+" WHERE "+e.where, func(row []driver.Value) error {
		if id, ok := row[0].([]byte); ok && len(id) == 16 {
			e.chosen[[16]byte(id)] = struct{}{}
		}
		return nil
	})
}
