package storetest

import (
	"encoding/json"

	"github.com/outrider-jobs/outrider/job"
)

// soundErrors checks that each error of a job is an object with a type and a
// message, and no member twice, and that at most 25 are kept (ojs-core.md §8.1,
// contract §4.5).
func soundErrors(t Reporter, j *job.Job) {
	t.Helper()
	n := 0
	check := func(_ int, e json.RawMessage) error {
		n++
		said := map[string]string{}
		if err := job.Members(e, func(name string, v json.RawMessage) error {
			said[name] = string(v)
			return nil
		}); err != nil {
			t.Errorf("audit: job %s has an error that is none: %.300s: %v", j.ID, e, err)
			return nil
		}
		if said["type"] == "" || said["type"] == `""` || said["message"] == "" {
			t.Errorf("audit: job %s has an error without a type or a message: %.300s", j.ID, e)
		}
		return nil
	}
	if j.Errors != nil {
		if err := job.Elements(j.Errors, check); err != nil || n > 25 {
			t.Errorf("audit: job %s keeps %d errors, %v", j.ID, n, err)
		}
	}
	if j.Error != nil {
		_ = check(0, j.Error) // which tells it itself
	}
}
