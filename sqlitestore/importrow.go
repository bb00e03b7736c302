package sqlitestore

import (
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// importTable stores the lines of one kind.
type importTable struct {
	*archived
	columns []archiveColumn
	places  map[string]int // of the columns, by their names in an archive
	names   rawjson.Names
	values  []driver.Value // of the line that was read
	stmt    *stmt          // of a job that of its state
	body    *stmt
	asJob   []int // the places of what jobFrom reads
	of      map[string]int
}

// prepare makes the statements.
func (i *importer) prepare() error {
	i.tables = map[string]*importTable{}
	for n := range archives {
		a := &archives[n]
		if a.kind == eventsKind {
			continue
		}
		t, err := i.table(a)
		if err != nil {
			return err
		}
		i.tables[a.kind] = t
	}
	var set []string
	for _, s := range counted {
		set = append(set, fmt.Sprintf("%s = %[1]s + excluded.%[1]s", s))
	}
	counts, err := prepare(i.conn, "INSERT INTO queues (name, paused, created_at, "+strings.Join(countColumns(), ", ")+")\nVALUES (?, 0, ?"+strings.Repeat(", ?", len(set))+")\nON CONFLICT (name) DO UPDATE SET "+strings.Join(set, ", "))
	if err != nil {
		return err
	}
	i.tables["count"] = &importTable{stmt: counts}
	for sql, into := range map[string]**stmt{
		"INSERT INTO events (first, at, packed) VALUES (?, ?, ?)":                                      &i.putEvent,
		"SELECT n FROM job_bodies WHERE id_bytes = ?":                                                  &i.find,
		"SELECT 1 FROM job_states WHERE lane = ? AND state_code = 1 AND behind = 0 AND n <= ? LIMIT 1": &i.laneHead,
		"DELETE FROM job_bodies WHERE n = ?":                                                           &i.dropBody,
	} {
		if *into, err = prepare(i.conn, sql); err != nil {
			return err
		}
	}
	return nil
}

func countColumns() (names []string) {
	for _, s := range counted {
		names = append(names, string(s))
	}
	return names
}

// table prepares the import of a table.
func (i *importer) table(a *archived) (t *importTable, err error) {
	t = &importTable{archived: a, places: map[string]int{}, of: map[string]int{}, names: rawjson.Names{}}
	if t.columns, err = a.columnsOf(i.conn); err != nil {
		return nil, err
	}
	for n, c := range t.columns {
		t.places[c.name], t.of[c.column], t.names[c.name] = n, n, c.name
	}
	t.values = make([]driver.Value, len(t.columns))
	insert := func(table string, wanted func(archiveColumn) bool, more ...string) (*stmt, error) {
		var names []string
		for _, c := range t.columns {
			if wanted(c) && c.column != a.own {
				names = append(names, c.column)
			}
		}
		values := "?" + strings.Repeat(", ?", len(names)-1)
		for _, name := range more {
			names, values = append(names, name), values+", 0"
		}
		return prepare(i.conn, "INSERT INTO "+table+" ("+strings.Join(names, ", ")+")\nVALUES ("+values+")")
	}
	switch a.kind {
	case jobsKind:
		for _, c := range allColumns {
			t.asJob = append(t.asJob, t.of[c.Name])
		}
		if t.stmt, err = insert("job_states", func(c archiveColumn) bool { return !c.body }); err == nil {
			t.body, err = prepare(i.conn, "INSERT INTO job_bodies (n, "+strings.Join(bodyNames(t.columns), ", ")+")\nVALUES (?"+strings.Repeat(", ?", len(bodyNames(t.columns)))+")")
		}
	case "queue":
		t.stmt, err = insert(a.table, func(archiveColumn) bool { return true }, countColumns()...)
	default:
		t.stmt, err = insert(a.table, func(archiveColumn) bool { return true })
	}
	return t, err
}

func bodyNames(cs []archiveColumn) (names []string) {
	for _, c := range cs {
		if c.body {
			names = append(names, c.column)
		}
	}
	return names
}

// read reads a line into values.
func (t *importTable) read(row json.RawMessage) error {
	clear(t.values)
	return t.names.Members(row, func(name string, raw json.RawMessage) error {
		at, ok := t.places[name]
		if !ok {
			return fmt.Errorf("a %s has no %q", t.kind, name)
		}
		v, err := t.columns[at].value(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		t.values[at] = v
		return nil
	})
}

// stored are the values but for those that are this file's own.
func (t *importTable) stored(wanted func(archiveColumn) bool) (vs []driver.Value) {
	for n, c := range t.columns {
		if wanted(c) && c.column != t.own {
			vs = append(vs, t.values[n])
		}
	}
	return vs
}

// explainLine is why a line cannot be stored.
func explainLine(n int64, err error) error {
	if code(err) == sqlite3.SQLITE_CONSTRAINT || code(err) == sqlite3.SQLITE_MISMATCH {
		return errLine(n, "it is not what such a line may hold (%w)", err)
	}
	var mine *job.Error
	if code(err) != 0 || errors.As(err, &mine) && mine.Kind == job.Invalid {
		return err
	}
	return badLine(n, err)
}

// taken reports whether a statement was refused because of what is there already.
func taken(err error) bool {
	c := extended(err)
	return c == sqlite3.SQLITE_CONSTRAINT_UNIQUE || c == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
}

// maxRefused is how many refused jobs are named.
const maxRefused = 20

// job stores a job, or leaves the one that is there.
func (i *importer) job(t *importTable) error {
	full := make([]driver.Value, 0, len(t.asJob)+1)
	full = append(full, t.values[t.of["n"]])
	for _, at := range t.asJob {
		full = append(full, t.values[at])
	}
	k, err := jobFrom(full)
	if err != nil || k.n < 1 || k.Seq < 1 {
		return errors.New("it is no job: something that every job has is missing, or is not what it may be")
	}
	i.done.Jobs++
	n, seq := k.n+i.baseSeq, k.Seq+i.baseSeq
	id, _ := k.ID.Bytes()
	there := false
	if err := i.find.each(func([]driver.Value) error { there = true; return nil }, id[:]); err != nil {
		return err
	}
	if there {
		i.done.Left++
		return nil
	}
	t.values[t.of["n"]], t.values[t.of["seq"]] = n, seq
	if k.LastEvent > 0 {
		t.values[t.of["told"]] = k.LastEvent + i.baseTold
	}
	if i.shared && k.Lane != "" && k.State == job.Available {
		if err := i.laneHead.each(func([]driver.Value) error { t.values[t.of["behind"]] = int64(1); return nil }, k.Lane, i.baseSeq); err != nil {
			return err
		}
	}
	if _, err := t.body.exec(append([]driver.Value{n}, t.stored(func(c archiveColumn) bool { return c.body })...)...); err != nil {
		return err
	}
	if _, err := t.stmt.exec(t.stored(func(c archiveColumn) bool { return !c.body })...); err != nil {
		if extended(err) != sqlite3.SQLITE_CONSTRAINT_UNIQUE || !i.shared {
			return err
		}
		i.done.NotTaken++
		if len(i.done.Refused) < maxRefused {
			i.done.Refused = append(i.done.Refused, string(k.ID))
		}
		_, err := i.dropBody.exec(n)
		return err
	}
	i.done.Stored++
	i.maxSeq = max(i.maxSeq, n, seq)
	i.tally(k.Job)
	return nil
}

// tally counts a job that was stored.
func (i *importer) tally(j *job.Job) {
	d := i.deltas[j.Queue]
	if d == nil {
		d = &queueRow{Name: j.Queue, CreatedAt: j.CreatedAt.UnixMilli()}
		i.deltas[j.Queue] = d
	}
	*d.counter(j.State)++
	if j.Dead {
		d.Dead++
	}
}

// other stores what is no job, and leaves what is there.
func (i *importer) other(t *importTable) error {
	if t.kind == "webhook" {
		at := t.of["after"]
		if after, ok := t.values[at].(int64); ok {
			t.values[at] = after + i.baseTold
		}
	}
	_, err := t.stmt.exec(t.stored(func(archiveColumn) bool { return true })...)
	if taken(err) {
		return nil
	}
	return err
}

// end compares what was read with what the archive says of itself.
func (i *importer) end(row json.RawMessage) error {
	var want struct{ Jobs, Events int64 }
	if err := json.Unmarshal(row, &want); err != nil {
		return err
	}
	if want.Jobs != i.done.Jobs || want.Events != i.done.Events {
		return fmt.Errorf("the archive should hold %d jobs and %d events, and %d and %d were read: lines are missing", want.Jobs, want.Events, i.done.Jobs, i.done.Events)
	}
	i.ended = true
	return nil
}

// close gives the statements up.
func (i *importer) close() {
	for _, t := range i.tables {
		for _, s := range []*stmt{t.stmt, t.body} {
			if s != nil {
				_ = s.s.Close() // each of its runs has been judged
			}
		}
	}
	for _, s := range []*stmt{i.putEvent, i.find, i.laneHead, i.dropBody} {
		if s != nil {
			_ = s.s.Close()
		}
	}
}
