package client

import (
	"encoding/json"

	"github.com/outrider-jobs/outrider/job"
)

// Args decodes the arguments of a job in order: the first into into[0], and so
// on, as [json.Unmarshal] does. A nil pointer skips an argument. Arguments
// beyond the last pointer are ignored, so that a producer can add one; too few
// are an error. Every error is Invalid.
func Args(j *job.Job, into ...any) error {
	n := 0
	err := job.Elements(j.Args, func(i int, v json.RawMessage) error {
		n = i + 1
		if i >= len(into) || into[i] == nil {
			return nil
		}
		if err := json.Unmarshal(v, into[i]); err != nil {
			return job.Errorf(job.Invalid, "args[%d] of %s: %w", i, j.Type, err)
		}
		return nil
	})
	if err == nil && n < len(into) {
		err = job.Errorf(job.Invalid, "%s has %d args, %d are needed", j.Type, n, len(into))
	}
	return err
}
