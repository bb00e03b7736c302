package sqlitestore

import (
	"context"
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// An archive is a store as lines of JSON: a header, an object for each row, named after what it is, and an
// end. It keeps what the store keeps, so that jobs are the same jobs in another file, with their numbers where
// that file is empty. Instants are milliseconds since 1970, as in schema.sql. What is JSON stands as it is; a
// text that is none, or holds a line break, is {"$text":…}, and bytes are {"$hex":…}.

// ArchiveFormat is the version of the archives that are written here. Older ones are read.
const ArchiveFormat = 1

// archived is a table in an archive.
type archived struct {
	kind  string   // the name of its lines
	from  string   // what it is read from
	table string   // and stored in; of jobs there are two
	key   []string // the order of its rows
	uuids []string // columns that are the bytes of a UUID
	jsons []string // columns of JSON
	omit  []string // columns that the importer makes anew
	own   string   // a column that is a number of this file alone, and is not stored in another
	plain bool     // it is in an archive of some jobs, too
	asked bool     // only where it was asked for
}

const jobsKind, eventsKind = "job", "events"

// archives are the tables in the order of an archive. What is not here belongs to the file and not to the jobs: who
// it is, and how often it was opened.
var archives = []archived{
	{kind: "queue", from: "queues", table: "queues", key: []string{"name"}, plain: true,
		omit: []string{"scheduled", "available", "pending", "active", "retryable", "completed", "cancelled", "discarded", "dead", "last_seq", "last_event"}},
	{kind: "queue_settings", from: "queue_settings", table: "queue_settings", key: []string{"name"}, jsons: []string{"info"}},
	{kind: "queue_slot", from: "queue_slots", table: "queue_slots", key: []string{"queue", "slot"}},
	{kind: "schema", from: "schemas", table: "schemas", key: []string{"n"}, jsons: []string{"written", "schema"}, own: "n"},
	{kind: "limit", from: "limits", table: "limits", key: []string{"key"}, jsons: []string{"pace", "override"}},
	{kind: "schedule", from: "crons", table: "crons", key: []string{"n"}, jsons: []string{"template"}, own: "n"},
	{kind: "worker", from: "workers", table: "workers", key: []string{"id"}, jsons: []string{"info"}},
	{kind: "answer", from: "answers", table: "answers", key: []string{"key"}},
	{kind: jobsKind, from: "job_states AS s JOIN job_bodies AS b ON b.n = s.n", key: []string{"s.n"}, uuids: []string{"id_bytes"}, plain: true,
		jsons: []string{"uniq", "dedup", "retry", "extra", "meta", "args", "parent_results", "parent_errors", "rate_limit", "lost", "error", "result", "errors", "progress", "checkpoint"}},
	{kind: "workflow", from: "workflows", table: "workflows", key: []string{"id_bytes"}, uuids: []string{"id_bytes"}},
	{kind: "step", from: "workflow_nodes", table: "workflow_nodes", key: []string{"flow", "idx"}, uuids: []string{"flow", "job_id"}, jsons: []string{"results", "spec"}},
	{kind: eventsKind, from: "events", table: "events", key: []string{"first"}, plain: true},
	{kind: "webhook", from: "webhooks", table: "webhooks", key: []string{"id"}, jsons: []string{"spec"}, asked: true},
}

// archiveName is the name of a column in an archive.
func archiveName(column string) string {
	switch column {
	case "state_code":
		return "state"
	case "id_bytes":
		return "id"
	}
	return column
}

// asColumn is how a column stands in an archive.
type asColumn int

const (
	asIs asColumn = iota
	asUUID
	asRaw
	asState
)

// archiveColumn is a column of a table.
type archiveColumn struct {
	column string
	name   string // in an archive
	as     asColumn
	quoted []byte // the name as a key
	body   bool   // of a job
}

// eventData is what an event says beside its type, as if it were a column.
var eventData = archiveColumn{as: asRaw}

// columnsOf are the columns of a table in an archive, as the file of conn has them.
func (a *archived) columnsOf(conn driver.Conn) (cs []archiveColumn, err error) {
	tables := []string{a.table}
	if a.kind == jobsKind {
		tables = []string{"job_states", "job_bodies"}
	}
	for _, table := range tables {
		err = query(context.Background(), conn, "SELECT name FROM pragma_table_info('"+table+"')", func(row []driver.Value) error {
			c := archiveColumn{column: fmt.Sprint(row[0]), body: table == "job_bodies"}
			if slices.Contains(a.omit, c.column) || c.body && c.column == "n" {
				return nil
			}
			switch {
			case c.column == "state_code":
				c.as = asState
			case slices.Contains(a.uuids, c.column):
				c.as = asUUID
			case slices.Contains(a.jsons, c.column):
				c.as = asRaw
			}
			c.name = archiveName(c.column)
			c.quoted = fmt.Appendf(nil, "%q:", c.name)
			cs = append(cs, c)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return cs, nil
}

// selection reads the columns of a table behind a key, in its order.
func (a *archived) selection(cs []archiveColumn, where string) string {
	names := slices.Clone(a.key)
	for _, c := range cs {
		name := c.column
		if a.kind == jobsKind && name == "n" {
			name = "s.n"
		}
		names = append(names, name)
	}
	if where != "" {
		where = " WHERE " + where
	}
	return "SELECT " + strings.Join(names, ", ") + " FROM " + a.from + where + " ORDER BY " + strings.Join(a.key, ", ")
}

// behind is the condition for the rows behind a key.
func (a *archived) behind() string {
	if len(a.key) == 1 {
		return a.key[0] + " > ?"
	}
	return "(" + strings.Join(a.key, ", ") + ") > (?" + strings.Repeat(", ?", len(a.key)-1) + ")"
}

// appendValue writes a value as it stands in an archive.
func (c *archiveColumn) appendValue(b []byte, v driver.Value) []byte {
	switch v := v.(type) {
	case int64:
		if c.as == asState && v >= 0 && v < int64(len(job.States)) {
			return rawjson.AppendString(b, string(job.States[v]))
		}
		return fmt.Appendf(b, "%d", v)
	case string:
		switch {
		case c.as != asRaw:
			return rawjson.AppendString(b, v)
		case embeds(v):
			return append(b, v...)
		}
		return append(rawjson.AppendString(append(b, `{"$text":`...), v), '}')
	case []byte:
		if c.as == asUUID && len(v) == 16 {
			return rawjson.AppendString(b, string(job.IDOf([16]byte(v))))
		}
		b = append(b, `{"$hex":"`...)
		return append(hex.AppendEncode(b, v), `"}`...)
	}
	return append(b, "null"...)
}

// embeds reports whether a text of JSON can stand in a line as it is, and be told from the others there.
func embeds(text string) bool {
	if text == "" || text == "null" || strings.HasPrefix(text, `{"$`) || strings.ContainsAny(text, "\n\r") || text[0] <= ' ' || text[len(text)-1] <= ' ' {
		return false
	}
	_, ok := rawjson.Valid([]byte(text))
	return ok
}

// value reads what appendValue wrote.
func (c *archiveColumn) value(raw json.RawMessage) (driver.Value, error) {
	switch raw[0] {
	case 'n':
		return nil, nil
	case '{':
		if text := rawjson.Member(raw, "$text"); text != nil {
			return unquote(text)
		}
		if digits := rawjson.Member(raw, "$hex"); digits != nil {
			s, err := unquote(digits)
			if err != nil {
				return nil, err
			}
			return hex.DecodeString(s)
		}
	case '"':
		if c.as == asRaw {
			break
		}
		s, err := unquote(raw)
		switch {
		case err != nil:
			return nil, err
		case c.as == asUUID:
			id, ok := job.ID(s).Bytes()
			if !ok {
				return nil, fmt.Errorf("%q is no UUID in lower case", s)
			}
			return id[:], nil
		case c.as == asState:
			n := slices.Index(job.States, job.State(s))
			if n < 0 {
				return nil, fmt.Errorf("%q is no state", s)
			}
			return int64(n), nil
		}
		return s, nil
	}
	if c.as == asRaw {
		return string(raw), nil
	}
	var n int64
	if err := json.Unmarshal(raw, &n); err != nil {
		return nil, fmt.Errorf("%.40s is no value for it", raw)
	}
	return n, nil
}

func unquote(raw json.RawMessage) (s string, err error) {
	if raw[0] != '"' {
		return "", fmt.Errorf("%.40s is no text", raw)
	}
	err = json.Unmarshal(raw, &s)
	return s, err
}
