package outbox_test

import (
	"database/sql"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

// TestZeroDialectIsInvalid: a Dialect that no adapter has made is told as the
// caller's mistake, and no table is asked for.
func TestZeroDialectIsInvalid(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "app.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	var zero outbox.Dialect
	_, added := outbox.New(zero).Add(t.Context(), db, job.Envelope{Type: "a", Args: json.RawMessage(`[]`)})
	for name, err := range map[string]error{
		"Add":   added,
		"Init":  outbox.Init(t.Context(), db, zero),
		"Check": outbox.Check(t.Context(), db, zero),
		"Run":   outbox.NewRelay(db, zero, nil, outbox.RelayOptions{}).Run(t.Context()),
	} {
		if job.KindOf(err) != job.Invalid {
			t.Errorf("%s: got %v, want Invalid", name, err)
		}
	}
}
