package httpapi

import (
	"context"
	"encoding/json"

	"github.com/outrider-jobs/outrider/job"
)

// schooling fills in the schemas of args: two of the type mail.
func schooling(f *fake) {
	f.put = func(_ context.Context, s job.Schema) (job.Schema, error) {
		if s.URI == "urn:taken" {
			return s, job.Errorf(job.Conflict, "the schema urn:taken is registered already").With(map[string]any{"resource_type": "schema", "resource_id": "urn:taken"})
		}
		s, err := s.Normalize()
		s.CreatedAt = noon
		return s, err
	}
	f.schemas = func(_ context.Context, sf job.SchemaFilter) (all []job.Schema, err error) {
		for _, v := range []string{"1", "2"} {
			if (sf.Type == "" || sf.Type == "mail") && (sf.Version == "" || sf.Version == v) {
				all = append(all, job.Schema{URI: job.SchemaURI("mail", v), Type: "mail", Version: json.RawMessage(v), Schema: json.RawMessage(`{"type": "array"}`), CreatedAt: noon})
			}
		}
		return all, nil
	}
}
