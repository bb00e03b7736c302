package sqlitestore

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	outrider "github.com/outrider-jobs/outrider"
	"github.com/outrider-jobs/outrider/job"
)

// Facts is what stands in the file of a store.
type Facts struct {
	Path      string
	Schema    int64
	Identity  string // see [Store.Identity]
	Bytes     int64
	Log       int64 // bytes of its log
	Free      int64 // bytes of the file that hold nothing
	Jobs      int64
	States    map[job.State]int64
	Dead      int64 // of the discarded, those that are dead letters
	Queues    int64
	Schedules int64
	Workflows int64
	Events    int64     // that are kept, about
	Oldest    time.Time // when the oldest job was stored; zero where there is none
	Held      bool      // a server has the file
	HeldBy    string    // its process, where that can be seen
	Disk      uint64    // bytes that are free on its disk
}

type depth int

const (
	wholeFile depth = iota // the file's structure, the counters, and that what belongs together is there
	everyRow               // also each job, and each event
)

// Verify looks at the whole file of a store or of a backup, and changes nothing; a server may be working
// on it. What is wrong is a [DamageError] that names it. It must not be called in a process that
// has the store open.
func Verify(ctx context.Context, path string) (*Facts, error) {
	path, params, still, err := forReading(path)
	if err != nil {
		return nil, err
	}
	var f *Facts
	err = gentle(func() error {
		f, err = verify(ctx, path, params, everyRow)
		return err
	})
	if err := cmp.Or(still(), err); err != nil {
		return nil, err
	}
	f.surround(path)
	return f, nil
}

// Look returns what stands in the file of a store without looking for damage. Like [Verify] it changes nothing.
func Look(ctx context.Context, path string) (*Facts, error) {
	path, params, _, err := forReading(path)
	if err != nil {
		return nil, err
	}
	conn, err := connect(ctx, path, params)
	if err != nil {
		return nil, asDamage(path, translate("open "+path, err))
	}
	defer conn.Close()
	f := &Facts{Path: path}
	if err := f.read(conn); err != nil {
		return nil, asDamage(path, translate("read "+path, err))
	}
	f.surround(path)
	return f, nil
}

// surround adds what is around the file.
func (f *Facts) surround(path string) {
	f.Held, f.HeldBy, _ = isHeld(path)
	if st, err := os.Stat(path + "-wal"); err == nil {
		f.Log = st.Size()
	}
	f.Disk, _, _ = spaceFor(folder(path))
}

// read reads the facts from one snapshot.
func (f *Facts) read(conn driver.Conn) error {
	if err := script(conn, "BEGIN"); err != nil {
		return err
	}
	defer func() { _ = script(conn, "COMMIT") }() // nothing was written
	return f.readIn(conn)
}

// readIn reads the facts from the snapshot that conn has.
func (f *Facts) readIn(conn driver.Conn) error {
	for sql, into := range map[string]*int64{
		"PRAGMA user_version": &f.Schema,
		"SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()":         &f.Bytes,
		"SELECT freelist_count * page_size FROM pragma_freelist_count(), pragma_page_size()": &f.Free,
	} {
		var err error
		if *into, err = number(conn, sql); err != nil {
			return err
		}
	}
	if err := judge(f.Path, applicationID, f.Schema); err != nil || f.Schema < version {
		return err // what an older schema holds its own takeover knows
	}
	for sql, into := range map[string]*int64{
		"SELECT count(*) FROM queues":               &f.Queues,
		"SELECT count(*) FROM crons":                &f.Schedules,
		"SELECT count(*) FROM workflows":            &f.Workflows,
		"SELECT coalesce(sum(dead), 0) FROM queues": &f.Dead,
		"SELECT coalesce(max(0, (" + lastEvent + ") - (SELECT min(first) FROM events) + 1), 0)": &f.Events,
	} {
		var err error
		if *into, err = number(conn, sql); err != nil {
			return err
		}
	}
	f.States = map[job.State]int64{}
	for _, s := range job.States {
		n, err := number(conn, "SELECT coalesce(sum("+string(s)+"), 0) FROM queues")
		if err != nil {
			return err
		}
		f.States[s] = n
		f.Jobs += n
	}
	id, err := number(conn, "SELECT coalesce((SELECT value FROM marks WHERE name = 'identity'), 0)")
	if err != nil {
		return err
	}
	f.Identity = fmt.Sprintf("%016x", id)
	oldest, err := number(conn, "SELECT coalesce((SELECT created_at FROM job_states ORDER BY n LIMIT 1), 0)")
	if oldest > 0 {
		f.Oldest = time.UnixMilli(oldest).UTC()
	}
	return err
}

// verify is Verify for a file that may be opened as params say.
func verify(ctx context.Context, path, params string, d depth) (*Facts, error) {
	conn, err := connect(ctx, path, params)
	if err != nil {
		return nil, asDamage(path, translate("open "+path, err))
	}
	defer conn.Close()
	f := &Facts{Path: path}
	if err := f.read(conn); err != nil {
		return nil, asDamage(path, translate("read "+path, err))
	}
	found, err := problems(ctx, conn, f.Schema, d)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		found = append(found, err.Error())
	}
	if len(found) == 0 {
		return f, nil
	}
	const shown = 5
	more := ""
	if len(found) > shown {
		more = fmt.Sprintf("; and %d more", len(found)-shown)
	}
	return nil, damagef("%s is damaged: %s%s. Nothing was changed. Do not use it as a backup; if it is the server's own file, stop the server, keep copies of %s, %s-wal and %s-shm, and restore a backup",
		path, strings.Join(found[:min(shown, len(found))], "; "), more, path, path, path)
}

// problems is what is wrong with a store.
func problems(ctx context.Context, conn driver.Conn, schema int64, d depth) (found []string, err error) {
	c := &check{conn: conn}
	if d == everyRow {
		found, err = c.tables(ctx) // table by table: no snapshot is held for long
	}
	if err == nil && len(found) == 0 {
		var said []string
		said, err = c.column(ctx, "PRAGMA integrity_check")
		found = append(found, slices.DeleteFunc(said, func(s string) bool { return s == "ok" })...)
	}
	if err != nil || len(found) > 0 || schema < version {
		return found, err
	}
	looks := []func(context.Context, driver.Conn) ([]string, error){missingTables, miscounted, unpaired}
	if d == everyRow {
		looks = append(looks, unreadableRows)
	}
	for _, look := range looks {
		said, err := look(ctx, conn)
		if found = append(found, said...); err != nil {
			return found, err
		}
	}
	return found, nil
}

// missingTables compares the tables and indexes with those of schema.sql.
func missingTables(ctx context.Context, conn driver.Conn) (found []string, err error) {
	want, err := schemaNames()
	if err != nil {
		return nil, err
	}
	got := map[string]bool{}
	if err := query(ctx, conn, namesInSchema, func(row []driver.Value) error { got[fmt.Sprint(row[0])] = true; return nil }); err != nil {
		return nil, err
	}
	for _, name := range want {
		if !got[name] {
			found = append(found, "the "+name+" is missing")
		}
	}
	return found, nil
}

const namesInSchema = `SELECT type || ' ' || name FROM sqlite_schema WHERE name NOT LIKE 'sqlite%' ORDER BY 1`

// schemaNames are the tables and indexes of schema.sql.
func schemaNames() (names []string, err error) {
	conn, err := connect(context.Background(), ":memory:", "")
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := script(conn, outrider.Schema); err != nil {
		return nil, err
	}
	err = query(context.Background(), conn, namesInSchema, func(row []driver.Value) error {
		names = append(names, fmt.Sprint(row[0]))
		return nil
	})
	return names, err
}

// miscounted compares the counters of the queues with the jobs, in one snapshot.
func miscounted(ctx context.Context, conn driver.Conn) (found []string, err error) {
	if err := script(conn, "BEGIN"); err != nil {
		return nil, err
	}
	defer func() { _ = script(conn, "COMMIT") }() // nothing was written
	type key struct{ queue, of string }
	diff := map[key]int64{}
	err = query(ctx, conn, countJobs, func(v []driver.Value) error {
		r := &row[driver.Value]{v: v}
		queue, state, n, dead := r.str(), r.int(), r.int(), r.int()
		if state < 0 || state >= int64(len(job.States)) {
			found = append(found, fmt.Sprintf("%d jobs have the state %d, which there is not", n, state))
			return nil
		}
		diff[key{queue, string(job.States[state])}] += n
		diff[key{queue, "dead"}] += dead
		return nil
	})
	if err != nil {
		return found, err
	}
	err = query(ctx, conn, allQueues, func(v []driver.Value) error {
		r := &row[driver.Value]{v: v}
		q := &queueRow{Name: r.str(), Paused: r.int(), CreatedAt: r.int()}
		for i, n := range q.counters() {
			*n = r.int()
			name := "dead"
			if i < len(job.States) {
				name = string(job.States[i])
			}
			diff[key{q.Name, name}] -= *n
		}
		return nil
	})
	for _, k := range slices.SortedFunc(maps.Keys(diff), func(a, b key) int { return cmp.Or(cmp.Compare(a.queue, b.queue), cmp.Compare(a.of, b.of)) }) {
		if n := diff[k]; n != 0 {
			found = append(found, fmt.Sprintf("the queue %q holds %+d %s jobs beside those that are counted", k.queue, n, k.of))
		}
	}
	return found, err
}

// pairs are questions to which the answer must be none, and what it means if there are some.
var pairs = [][2]string{
	{`SELECT count(*) FROM job_bodies WHERE n NOT IN (SELECT n FROM job_states)`, "%d jobs have no state"},
	{`SELECT count(*) FROM job_states WHERE n NOT IN (SELECT n FROM job_bodies)`, "%d jobs have a state and nothing else"},
	{`SELECT count(*) FROM job_states WHERE told > (` + lastEvent + `)`, "%d jobs name an event that was never given"},
	{`SELECT coalesce(sum(c - 1), 0) FROM (SELECT count(*) AS c FROM job_states WHERE state_code = 1 GROUP BY queue, seq HAVING c > 1)`, "%d jobs have the place of another in their queue"},
	{`SELECT count(*) FROM job_states WHERE (state_code = 3) <> (lease_token IS NOT NULL)`, "%d jobs are leased and not active, or active and not leased"},
	{`SELECT count(*) FROM workflows AS w WHERE nodes <> (SELECT count(*) FROM workflow_nodes WHERE flow = w.id_bytes)`, "%d workflows have lost steps"},
}

// unpaired looks for what belongs together and is not.
func unpaired(ctx context.Context, conn driver.Conn) (found []string, err error) {
	for _, p := range pairs {
		if err := query(ctx, conn, p[0], func(row []driver.Value) error {
			if n, _ := row[0].(int64); n > 0 {
				found = append(found, fmt.Sprintf(p[1], n))
			}
			return nil
		}); err != nil {
			return found, err
		}
	}
	return found, nil
}

// unreadableRows reads each job and each event.
func unreadableRows(ctx context.Context, conn driver.Conn) (found []string, err error) {
	err = query(ctx, conn, "SELECT "+jobColumns+byState, func(v []driver.Value) error {
		if _, err := jobFrom(v); err != nil {
			found = append(found, err.Error())
		}
		return nil
	})
	if err != nil {
		return found, err
	}
	err = query(ctx, conn, "SELECT first, packed FROM events", func(v []driver.Value) error {
		if err := eachEvent(v[0], v[1], func(note) bool { return true }); err != nil {
			found = append(found, err.Error())
		}
		return nil
	})
	return found, err
}
