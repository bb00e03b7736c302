package storetest

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/outrider-jobs/outrider/job"
)

func tenants(t *testing.T, s job.Store) {
	behind := func(after string, n int, want ...string) {
		t.Helper()
		view(t, s, func(tx job.ReadTx) error {
			got, err := tx.Tenants(after, n)
			if !slices.Equal(got, want) {
				t.Errorf("%d behind %q: %v, want %v", n, after, got, want)
			}
			return err
		})
	}
	behind("", 10)
	var gone job.ID
	for _, name := range []string{"b", "a", "", "b", "c"} {
		j := New(t, "q", func(j *job.Job) {
			if name != "" {
				j.Meta = json.RawMessage(`{"tenant_id":"` + name + `"}`)
			}
		})
		if name == "c" {
			gone = j.ID
		}
		update(t, s, func(tx job.Tx) error { return tx.InsertJob(j) })
	}
	behind("", 10, "a", "b", "c")
	behind("", 2, "a", "b")
	behind("a", 1, "b")
	behind("c", 10)
	behind("", 0)
	update(t, s, func(tx job.Tx) error { return tx.DeleteJob(gone) })
	behind("", 10, "a", "b")
}
