package job

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// Schema is a JSON Schema, draft 2020-12, that args of a type of jobs are held to
// (contract §3.20, §4.20).
type Schema struct {
	URI       string          // names it, and no other; empty: of its type and version
	Type      string          // of the jobs
	Version   json.RawMessage // a string or an integer, as it was given
	Schema    json.RawMessage // an object, true or false
	CreatedAt time.Time       // when it was registered; the latest of a type is the newest
}

// At the limits of what a schema may be.
const (
	MaxSchemaBytes = 256 << 10
	MaxSchemas     = 10_000
	maxURILen      = 2048
	maxVersionLen  = 64
)

// VersionText is the version as text: "2" and 2 are the same.
func (s Schema) VersionText() string { return versionText(s.Version) }

func versionText(v json.RawMessage) string {
	if len(v) > 0 && v[0] == '"' {
		return rawjson.Unquote(v)
	}
	return string(v)
}

// SchemaURI is the URI of a schema that was given none.
func SchemaURI(jobType, version string) string {
	return "urn:ojs:schema:" + jobType + ":v" + url.PathEscape(version)
}

// IsURI reports whether a text is a URI with a scheme.
func IsURI(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme != "" && s != u.Scheme+":" && !strings.ContainsAny(s, " \x00")
}

// Normalize is the schema with its URI, if all but the schema itself can be what it says:
// whether that is one, the service finds out. Invalid, Malformed, TooLarge.
func (s Schema) Normalize() (Schema, error) {
	if err := checkType(s.Type); err != nil {
		return s, err
	}
	n, integer := rawjson.Integer(s.Version)
	text := versionText(s.Version)
	switch {
	case len(s.Version) == 0, s.Version[0] != '"' && (!integer || n < 0):
		return s, invalid(Invalid, "version", "is required: a string such as \"1.0.0\", or an integer from 0")
	case text == "" || len(text) > maxVersionLen:
		return s, invalid(Invalid, "version", "must have 1 to %d characters", maxVersionLen)
	}
	if integer && s.Version[0] != '"' {
		s.Version = strconv.AppendInt(nil, n, 10)
	}
	if s.URI == "" {
		s.URI = SchemaURI(s.Type, text)
	}
	if !IsURI(s.URI) || len(s.URI) > maxURILen {
		return s, invalid(Invalid, "uri", "must be a URI with a scheme, of at most %d characters, got %.80q", maxURILen, s.URI)
	}
	s.Schema = bytes.TrimSpace(s.Schema)
	if len(s.Schema) > MaxSchemaBytes {
		return s, Errorf(TooLarge, "schema %s is %d bytes, at most %d are taken", s.URI, len(s.Schema), MaxSchemaBytes).
			With(map[string]any{"size": len(s.Schema), "limit": MaxSchemaBytes})
	}
	if len(s.Schema) == 0 || s.Schema[0] != '{' && string(s.Schema) != "true" && string(s.Schema) != "false" {
		return s, invalid(Invalid, "schema", "is required: a JSON Schema, which is an object, true or false")
	}
	return s, CheckJSON(s.Schema)
}

// SchemaFilter chooses schemas. Zero members do not restrict.
type SchemaFilter struct {
	Type    string
	Version string
}

// SchemaNames are what an envelope says about the schemas of its args: the URI of its
// member schema, and the text of its version; both may be empty.
func (e *Envelope) SchemaNames() (uri, version string) {
	if len(e.Extra) == 0 {
		return "", ""
	}
	return versionText(rawjson.Member(e.Extra, "schema")), versionText(rawjson.Member(e.Extra, "version"))
}

// SchemaFault is one place where args are not what their schema says.
type SchemaFault struct {
	Path    string `json:"path"` // args[0].email
	Message string `json:"message"`
}

// Unfit is the error for args that their schema refuses.
func Unfit(uri string, faults []SchemaFault) error {
	e := Errorf(SchemaViolation, "%s: %s; the schema is %s", faults[0].Path, faults[0].Message, uri)
	return e.With(map[string]any{"schema": uri, "errors": faults})
}

// NoSchema is the NotFound for a schema, by its URI or its type.
func NoSchema(name string) error {
	return Errorf(NotFound, "there is no schema %.200q", name).With(map[string]any{"resource_type": "schema", "resource_id": name})
}

// Latest is the schema that a name means among those in the order of their
// registration: that of the URI, or the newest of a type. NotFound.
func Latest(all []Schema, name string) (Schema, error) {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].URI == name || all[i].Type == name && !IsURI(name) {
			return all[i], nil
		}
	}
	return Schema{}, NoSchema(name)
}
