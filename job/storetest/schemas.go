package storetest

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

func schemaOf(uri, jobType, version string) job.Schema {
	return job.Schema{URI: uri, Type: jobType, Version: json.RawMessage(version), Schema: json.RawMessage(`{"x": 1e2}`), CreatedAt: Now}
}

// schemas are kept in the order in which they came, each once.
func schemas(t *testing.T, s job.Store) {
	put := func(want job.Kind, refused bool, sc job.Schema) {
		t.Helper()
		err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertSchema(sc) })
		if (err != nil) != refused || refused && job.KindOf(err) != want {
			t.Errorf("%s %s %s: %v", sc.URI, sc.Type, sc.Version, err)
		}
	}
	put(0, false, schemaOf("urn:b", "a.b", "2"))
	put(0, false, schemaOf("urn:a", "a.b", `"x"`))
	put(job.Conflict, true, schemaOf("urn:a", "a.c", "1"))
	put(job.Conflict, true, schemaOf("urn:c", "a.b", `"2"`))
	put(0, false, schemaOf("urn:c", "a.c", "2"))
	order := func(want string) {
		t.Helper()
		if err := s.View(t.Context(), func(tx job.ReadTx) error {
			all, err := tx.Schemas()
			got := ""
			for _, sc := range all {
				got += fmt.Sprintf("%s %s %s %s %d\n", sc.URI, sc.Type, sc.Version, sc.Schema, sc.CreatedAt.Sub(Now))
			}
			if got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
	order("urn:b a.b 2 {\"x\": 1e2} 0\nurn:a a.b \"x\" {\"x\": 1e2} 0\nurn:c a.c 2 {\"x\": 1e2} 0\n")
	if err := s.Update(t.Context(), func(tx job.Tx) error {
		if err := tx.DeleteSchema("urn:a"); err != nil {
			return err
		}
		if err := tx.DeleteSchema("urn:a"); job.KindOf(err) != job.NotFound {
			t.Errorf("deleted twice: %v", err)
		}
		return tx.InsertSchema(schemaOf("urn:a", "a.b", `"x"`))
	}); err != nil {
		t.Error(err)
	}
	order("urn:b a.b 2 {\"x\": 1e2} 0\nurn:c a.c 2 {\"x\": 1e2} 0\nurn:a a.b \"x\" {\"x\": 1e2} 0\n")
	undone := job.Errorf(job.Conflict, "not so")
	if err := s.Update(t.Context(), func(tx job.Tx) error {
		if err := tx.DeleteSchema("urn:b"); err != nil {
			return err
		}
		return undone
	}); err != undone {
		t.Error(err)
	}
	order("urn:b a.b 2 {\"x\": 1e2} 0\nurn:c a.c 2 {\"x\": 1e2} 0\nurn:a a.b \"x\" {\"x\": 1e2} 0\n")
}
