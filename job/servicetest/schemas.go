package servicetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/outrider-jobs/outrider/job"
)

var schemas = []verdict{
	{"a schema is registered, read by its URI and by its type, listed and deleted", schemaLives},
	{"the latest schema of a type is the one that was registered last, and before it once that is deleted", schemaLatest},
	{"a schema is registered once, by its URI and by its type and version", schemaOnce},
	{"what is no schema is refused with the place of the fault", schemaRefused},
	{"args are held to the schema that a job names, and to that of its type and version", schemaHolds},
	{"args that do not fit say where, and nothing of the batch is stored", schemaUnfit},
	{"numbers are compared as they were written", schemaNumbers},
}

func (k *kit) register(s job.Schema) job.Schema {
	k.t.Helper()
	if s.Version == nil {
		s.Version = json.RawMessage(`"1"`)
	}
	put, err := k.s.PutSchema(k.ctx(), s)
	if err != nil {
		k.t.Fatalf("register %s %s: %v", s.Type, s.Version, err)
	}
	return put
}

func schemaLives(k *kit) {
	const text = `{"type":"array", "prefixItems":[{"type":"string"}], "x":1e2}`
	for _, s := range []job.Schema{
		{Type: "email.send", Version: json.RawMessage(`"1.0.0"`)},
		{Type: "email.send", Version: json.RawMessage("2"), URI: "https://schemas.example/email/2?a=b#c"},
		{Type: "b.c", Version: json.RawMessage(`"x/ y%"`)},
	} {
		s.Schema = json.RawMessage(text)
		put := k.register(s)
		if s.URI == "" {
			s.URI = "urn:ojs:schema:" + s.Type + ":v" + strings.NewReplacer("/", "%2F", " ", "%20", "%", "%25").Replace(s.VersionText())
		}
		if put.URI != s.URI || string(put.Version) != string(s.Version) || string(put.Schema) != text || put.Type != s.Type || put.CreatedAt.IsZero() {
			k.t.Errorf("registered %+v as %+v", s, put)
		}
		for _, name := range []string{s.URI, s.Type} {
			got, err := k.s.Schema(k.ctx(), name)
			if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", put) {
				k.t.Errorf("%s: got %+v, %v", name, got, err)
			}
		}
	}
	for _, tt := range []struct {
		f    job.SchemaFilter
		want int
	}{{job.SchemaFilter{}, 3}, {job.SchemaFilter{Type: "email.send"}, 2}, {job.SchemaFilter{Type: "email.send", Version: "2"}, 1}, {job.SchemaFilter{Type: "no.such"}, 0}} {
		all, err := k.s.Schemas(k.ctx(), tt.f)
		if err != nil || len(all) != tt.want || !slices.IsSortedFunc(all, func(a, b job.Schema) int { return strings.Compare(a.URI, b.URI) }) {
			k.t.Errorf("%+v: %d, %v", tt.f, len(all), err)
		}
	}
	all, _ := k.s.Schemas(k.ctx(), job.SchemaFilter{})
	for i, s := range all {
		gone, err := k.s.DeleteSchema(k.ctx(), s.URI)
		if err != nil || gone.URI != s.URI || string(gone.Schema) != text {
			k.t.Errorf("deleted %+v, %v", gone, err)
		}
		_, err = k.s.DeleteSchema(k.ctx(), s.URI)
		k.is("again", err, job.NotFound)
		if left, err := k.s.Schemas(k.ctx(), job.SchemaFilter{}); err != nil || len(left) != len(all)-i-1 {
			k.t.Errorf("%d are left, %v", len(left), err)
		}
	}
	for _, name := range []string{"email.send", "urn:ojs:schema:email.send:v1.0.0", "", "..", "a/b"} {
		_, err := k.s.Schema(k.ctx(), name)
		k.is(name, err, job.NotFound)
	}
}

func schemaLatest(k *kit) {
	yes := json.RawMessage("true")
	for _, v := range []string{`"10"`, `"9"`, `"11"`} {
		k.register(job.Schema{Type: "a.b", Version: json.RawMessage(v), Schema: yes})
	}
	for _, want := range []string{"11", "9", "10"} {
		s, err := k.s.Schema(k.ctx(), "a.b")
		if err != nil || s.VersionText() != want {
			k.t.Errorf("got %s, %v, want %s", s.Version, err, want)
		}
		if _, err := k.s.DeleteSchema(k.ctx(), s.URI); err != nil {
			k.t.Error(err)
		}
	}
}

func schemaOnce(k *kit) {
	yes := json.RawMessage("true")
	k.register(job.Schema{Type: "a.b", Version: json.RawMessage("2"), Schema: yes, URI: "urn:x:1"})
	for name, s := range map[string]job.Schema{
		"all of it":            {Type: "a.b", Version: json.RawMessage("2"), URI: "urn:x:1"},
		"its URI":              {Type: "a.c", Version: json.RawMessage("3"), URI: "urn:x:1"},
		"its type and version": {Type: "a.b", Version: json.RawMessage(`"2"`), URI: "urn:x:2"},
	} {
		s.Schema = yes
		_, err := k.s.PutSchema(k.ctx(), s)
		if e := k.is(name, err, job.Conflict); e.Details["resource_id"] != "urn:x:1" {
			k.t.Errorf("%s: details %v", name, e.Details)
		}
	}
	k.register(job.Schema{Type: "a.b", Version: json.RawMessage("3"), Schema: yes})
	if all, err := k.s.Schemas(k.ctx(), job.SchemaFilter{}); err != nil || len(all) != 2 {
		k.t.Errorf("%d, %v", len(all), err)
	}
}

func schemaRefused(k *kit) {
	good := func() job.Schema {
		return job.Schema{Type: "a.b", Version: json.RawMessage("1"), Schema: json.RawMessage("true")}
	}
	for _, tt := range []struct {
		change func(*job.Schema)
		kind   job.Kind
		said   string
	}{
		{func(s *job.Schema) { s.Type = "" }, job.Invalid, "type must not be empty"},
		{func(s *job.Schema) { s.Type = "A" }, job.Invalid, "type "},
		{func(s *job.Schema) { s.Version = nil }, job.Invalid, "version is required"},
		{func(s *job.Schema) { s.Version = json.RawMessage("1.5") }, job.Invalid, "version is required"},
		{func(s *job.Schema) { s.Version = json.RawMessage("-1") }, job.Invalid, "version is required"},
		{func(s *job.Schema) { s.Version = json.RawMessage(`""`) }, job.Invalid, "version must have 1 to 64"},
		{func(s *job.Schema) { s.Version = json.RawMessage(`"` + strings.Repeat("9", 65) + `"`) }, job.Invalid, "version must have 1 to 64"},
		{func(s *job.Schema) { s.URI = "no-scheme" }, job.Invalid, "uri must be a URI"},
		{func(s *job.Schema) { s.Schema = nil }, job.Invalid, "schema is required"},
		{func(s *job.Schema) { s.Schema = json.RawMessage("[]") }, job.Invalid, "schema is required"},
		{func(s *job.Schema) { s.Schema = json.RawMessage("null") }, job.Invalid, "schema is required"},
		{func(s *job.Schema) { s.Schema = json.RawMessage("{") }, job.Malformed, ""},
		{func(s *job.Schema) {
			s.Schema = json.RawMessage(`{"x":"` + strings.Repeat("y", job.MaxSchemaBytes) + `"}`)
		}, job.TooLarge, "at most"},
		{func(s *job.Schema) { s.Schema = json.RawMessage(`{"type":"strnig"}`) }, job.Invalid, "schema is no JSON Schema: schema.type: "},
		{func(s *job.Schema) { s.Schema = json.RawMessage(`{"properties":{"a":{"minimum":"x"}}}`) }, job.Invalid, "schema.properties.a.minimum: "},
		{func(s *job.Schema) { s.Schema = json.RawMessage(`{"pattern":"("}`) }, job.Invalid, "schema "},
		{func(s *job.Schema) {
			s.Schema = json.RawMessage(`{"$ref":"https://schemas.example/other"}`)
		}, job.Invalid, `schema refers to "https://schemas.example/other": it is another document`},
		{func(s *job.Schema) { s.Schema = json.RawMessage(`{"$ref":"file:///etc/passwd"}`) }, job.Invalid, "it is another document"},
	} {
		s := good()
		tt.change(&s)
		_, err := k.s.PutSchema(k.ctx(), s)
		if e := k.is(fmt.Sprintf("%.80s %.80s", s.Version, s.Schema), err, tt.kind); !strings.Contains(e.Message, tt.said) {
			k.t.Errorf("said %q, want %q", e.Message, tt.said)
		}
	}
	if all, err := k.s.Schemas(k.ctx(), job.SchemaFilter{}); err != nil || len(all) != 0 {
		k.t.Errorf("%d were stored, %v", len(all), err)
	}
}

// ask pushes a job with args, further members and a type of its own.
func (k *kit) tryArgs(kind, args, extra string) error {
	_, err := k.s.Enqueue(k.ctx(), envelope(func(e *job.Envelope) {
		e.Type, e.Args = kind, json.RawMessage(args)
		if extra != "" {
			e.Extra = json.RawMessage(extra)
		}
	}))
	return err
}

func schemaHolds(k *kit) {
	k.register(job.Schema{Type: "a.b", Version: json.RawMessage("2"), URI: "urn:two", Schema: json.RawMessage(`{"type":"object","required":["to"]}`)})
	k.register(job.Schema{Type: "a.b", Version: json.RawMessage(`"3"`), URI: "urn:three", Schema: json.RawMessage(`{"type":"array","maxItems":1,"items":{"type":"integer"}}`)})
	k.register(job.Schema{Type: "never.fits", URI: "urn:never", Schema: json.RawMessage("false")})
	for _, tt := range []struct {
		kind, args, extra string
		fits              bool
	}{
		{"a.b", `[{"to":1}]`, `{"schema":"urn:two"}`, true},
		{"a.b", `[{"to":1},7]`, `{"schema":"urn:two"}`, true}, // it describes the first
		{"a.b", `[{}]`, `{"schema":"urn:two"}`, false},
		{"a.b", `[]`, `{"schema":"urn:two"}`, false},
		{"a.b", `["to"]`, `{"schema":"urn:two"}`, false},
		{"other.type", `[{}]`, `{"schema":"urn:two"}`, false}, // the job names it
		{"a.b", `[{}]`, `{"version":2}`, false},
		{"a.b", `[{}]`, `{"version":"2"}`, false},
		{"a.b", `[{"to":null}]`, `{"version":2}`, true},
		{"a.b", `[7]`, `{"version":3}`, true},
		{"a.b", `[7,8]`, `{"version":"3"}`, false},
		{"a.b", `[7.5]`, `{"version":3}`, false},
		{"a.b", `[{}]`, `{"version":4}`, true}, // nobody registered it
		{"a.c", `[{}]`, `{"version":2}`, true},
		{"a.b", `[{}]`, "", true},
		{"a.b", `[{}]`, `{"schema":"urn:unknown"}`, true},
		{"a.b", `[{}]`, `{"schema":"urn:unknown","version":2}`, false},
		{"a.b", `[{}]`, `{"schema":"urn:three","version":2}`, false},
		{"a.b", `[1]`, `{"schema":"urn:three","version":2}`, true}, // the one that it names comes first
		{"a.b", `[]`, `{"schema":"urn:never"}`, false},
		{"never.fits", `[]`, "", true},
	} {
		err := k.tryArgs(tt.kind, tt.args, tt.extra)
		if tt.fits && err != nil {
			k.t.Errorf("%s %s %s: %v", tt.kind, tt.args, tt.extra, err)
		} else if !tt.fits {
			k.is(tt.kind+" "+tt.args+" "+tt.extra, err, job.SchemaViolation)
		}
	}
	if _, err := k.s.DeleteSchema(k.ctx(), "urn:two"); err != nil {
		k.t.Fatal(err)
	}
	if err := k.tryArgs("a.b", "[]", `{"schema":"urn:two","version":2}`); err != nil {
		k.t.Errorf("after it was deleted: %v", err)
	}
}

func schemaUnfit(k *kit) {
	k.register(job.Schema{Type: "a.b", URI: "urn:s", Schema: json.RawMessage(`{"type":"object","properties":{
		"email":{"type":"string"},"items":{"type":"array","items":{"required":["sku"]}},"odd name":{"const":1}},"required":["email"]}`)})
	extra := json.RawMessage(`{"schema":"urn:s"}`)
	fits := envelope(func(e *job.Envelope) { e.Extra, e.Args = extra, json.RawMessage(`[{"email":"x"}]`) })
	unfit := envelope(func(e *job.Envelope) {
		e.Extra, e.Args = extra, json.RawMessage(`[{"email":7,"items":[{"sku":1},{}],"odd name":2}]`)
	})
	_, err := k.s.Enqueue(k.ctx(), fits, unfit)
	e := k.is("a batch", err, job.SchemaViolation)
	raw, _ := json.Marshal(e.Details["errors"])
	for _, path := range []string{`"path":"args[0].email"`, `"path":"args[0].items[1]"`, `"path":"args[0][\"odd name\"]"`} {
		if !strings.Contains(string(raw), path) {
			k.t.Errorf("errors %s, want %s", raw, path)
		}
	}
	if i, _ := json.Marshal(e.Details["index"]); string(i) != "1" || e.Details["schema"] != "urn:s" || !strings.Contains(e.Message, "args[0]") {
		k.t.Errorf("%s, details %v", e.Message, e.Details)
	}
	if page, err := k.s.Jobs(k.ctx(), job.Filter{}); err != nil || page.Total != 0 {
		k.t.Errorf("%d jobs are stored, %v", page.Total, err)
	}
}

func schemaNumbers(k *kit) {
	k.register(job.Schema{Type: "a.b", URI: "urn:n", Schema: json.RawMessage(`{"items":{"enum":[9007199254740993, 1.0]}}`)})
	for args, fits := range map[string]bool{"[9007199254740993]": true, "[9007199254740992]": false, "[1]": true, "[1e0]": true} {
		if err := k.tryArgs("a.b", args, `{"schema":"urn:n"}`); (err == nil) != fits {
			k.t.Errorf("%s: %v", args, err)
		}
	}
}
