package wire

import (
	"encoding/json"
	"net/url"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// MaxSchemaBytes bounds the body with which a schema is registered.
const MaxSchemaBytes = job.MaxSchemaBytes + 16<<10

// DecodeSchema reads a schema to be registered (contract §3.20). s has what the path
// says of it.
func DecodeSchema(raw []byte, s job.Schema) (job.Schema, error) {
	err := object(raw, "", func(member string, v json.RawMessage) (err error) {
		switch member {
		case "uri":
			s.URI, err = text(v, member)
		case "type", "job_type":
			was := s.Type
			if s.Type, err = text(v, member); err == nil && was != "" && was != s.Type {
				err = refuse(member, "is another type than the one beside it: give one")
			}
		case "version":
			if s.Version != nil && (job.Schema{Version: v}).VersionText() != s.VersionText() {
				return refuse(member, "is another version than that of the path")
			}
			if s.Version == nil {
				s.Version = v
			}
		case "schema":
			s.Schema = v
		}
		return err
	})
	return s, err
}

// PathVersion is a version in a path: an integer where it is written as one.
func PathVersion(s string) json.RawMessage {
	if n, ok := rawjson.Integer([]byte(s)); ok && n >= 0 {
		return json.RawMessage(s)
	}
	return rawjson.AppendString(nil, s)
}

// SchemaBody is the body with which a schema is registered.
func SchemaBody(s job.Schema) []byte {
	b := rawjson.Object(nil)
	b.Optional("uri", s.URI).Str("type", s.Type).Raw("version", s.Version).Raw("schema", s.Schema)
	return b.Close()
}

func schema(b *rawjson.Writer, s job.Schema) {
	b.Str("uri", s.URI).Str("type", s.Type).Str("job_type", s.Type).Raw("version", s.Version).Raw("schema", s.Schema).Time("created_at", s.CreatedAt)
}

// AppendSchema appends the answer about one schema.
func AppendSchema(dst []byte, s job.Schema) []byte {
	b := rawjson.Object(dst)
	b.Object("schema")
	schema(&b, s)
	b.End()
	return b.Close()
}

// AppendSchemaFlat appends a schema as a dashboard reads it.
func AppendSchemaFlat(dst []byte, s job.Schema) []byte {
	b := rawjson.Object(dst)
	schema(&b, s)
	return b.Close()
}

// AppendSchemaDeleted appends the answer about a schema that was deleted.
func AppendSchemaDeleted(dst []byte, s job.Schema) []byte {
	b := rawjson.Object(dst)
	return b.Bool("deleted", true).Str("uri", s.URI).Str("type", s.Type).Raw("version", s.Version).Close()
}

// DecodeSchemaFilter reads the query of a list of schemas.
func DecodeSchemaFilter(q url.Values) (f job.SchemaFilter, p Paging, err error) {
	p, err = pagingOf(q, PageDefault, PageMax, "type", "job_type", "version")
	f.Type, f.Version = q.Get("type"), q.Get("version")
	if f.Type == "" {
		f.Type = q.Get("job_type")
	}
	return f, p, err
}

// AppendSchemas appends a page of schemas by their URIs.
func AppendSchemas(dst []byte, all []job.Schema, p Paging) []byte {
	shown, l := byName(all, p, func(s job.Schema) string { return s.URI })
	b := rawjson.Object(dst)
	return endList(&b, p, objects(&b, "schemas", shown, schema), l)
}

// SchemasQuery asks for the schemas that f lets through.
func SchemasQuery(f job.SchemaFilter) url.Values {
	q := url.Values{}
	if f.Type != "" {
		q.Set("type", f.Type)
	}
	if f.Version != "" {
		q.Set("version", f.Version)
	}
	return q
}

type schemaBody struct {
	URI     string          `json:"uri"`
	Type    string          `json:"type"`
	Version json.RawMessage `json:"version"`
	Schema  json.RawMessage `json:"schema"`
	Created time.Time       `json:"created_at"`
}

func (s schemaBody) schema() job.Schema {
	return job.Schema{URI: s.URI, Type: s.Type, Version: s.Version, Schema: s.Schema, CreatedAt: s.Created.UTC()}
}

// ReadSchema reads the answer about one schema.
func ReadSchema(body []byte) (job.Schema, error) {
	s, err := readMember[schemaBody](body, "schema", "there is no schema in it")
	return s.schema(), err
}

// ReadSchemaDeleted reads the answer about a schema that was deleted: all but its text.
func ReadSchemaDeleted(body []byte) (job.Schema, error) {
	var s schemaBody
	err := read(body, &s)
	return s.schema(), err
}

// ReadSchemas reads a page of schemas.
func ReadSchemas(body []byte) (all []job.Schema, rest Rest, err error) {
	var r struct {
		Schemas []schemaBody `json:"schemas"`
		Pages   pagination   `json:"pagination"`
	}
	if err := read(body, &r); err != nil {
		return nil, rest, err
	}
	for _, s := range r.Schemas {
		all = append(all, s.schema())
	}
	return all, r.Pages.Rest, nil
}
