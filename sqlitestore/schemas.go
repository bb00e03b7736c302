package sqlitestore

import (
	"encoding/json"

	"github.com/outrider-jobs/outrider/job"
)

const (
	allSchemas   = `SELECT uri, type, written, schema, created_at FROM schemas ORDER BY n`
	sameSchemas  = `SELECT uri FROM schemas WHERE uri = ?1 OR type = ?2 AND version = ?3`
	insertSchema = `INSERT INTO schemas (uri, type, version, written, schema, created_at) VALUES (?, ?, ?, ?, ?, ?)`
	deleteSchema = `DELETE FROM schemas WHERE uri = ?`
)

// Schemas returns all schemas in the order in which they were registered.
func (r reader) Schemas() (all []job.Schema, err error) {
	damaged := error(nil)
	err = r.each(allSchemas, func(v *row[any]) {
		s := job.Schema{URI: v.str(), Type: v.str(), Version: json.RawMessage(v.str()), Schema: json.RawMessage(v.str()), CreatedAt: v.time()}
		if v.bad || !json.Valid(s.Version) || !json.Valid(s.Schema) {
			damaged = unreadable("the schema %q", s.URI)
			return
		}
		all = append(all, s)
	})
	if err == nil {
		err = damaged
	}
	return all, translate("read schemas", err)
}

// InsertSchema stores a schema.
func (t *tx) InsertSchema(s job.Schema) error {
	taken := ""
	if err := t.each(sameSchemas, func(v *row[any]) { taken = v.str() }, s.URI, s.Type, s.VersionText()); err != nil {
		return t.fail("look for schema", err)
	}
	if taken != "" {
		return job.Errorf(job.Conflict, "the schema %s is registered already, for %s in version %s; delete it first, or register another version", taken, s.Type, s.VersionText()).
			With(map[string]any{"resource_type": "schema", "resource_id": taken})
	}
	t.wrote = true
	_, err := t.doCold(insertSchema, s.URI, s.Type, s.VersionText(), string(s.Version), string(s.Schema), s.CreatedAt.UnixMilli())
	return t.fail("store schema", err)
}

// DeleteSchema removes a schema.
func (t *tx) DeleteSchema(uri string) error {
	t.wrote = true
	n, err := t.doCold(deleteSchema, uri)
	if err == nil && n == 0 {
		return job.NoSchema(uri)
	}
	return t.fail("delete schema", err)
}
