package job

import (
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// FormatTime writes an instant as the wire has it: RFC 3339 in UTC with milliseconds (contract §1.6).
func FormatTime(t time.Time) string { return t.UTC().Format(rawjson.TimeFormat) }

// View says how a job is to be shown.
type View struct {
	// ToHolder adds the lease token, which nobody but the fetching worker may see.
	ToHolder bool
	// HideTimeout leaves out timeout in seconds, which some workers read as milliseconds.
	HideTimeout bool
}

// AppendJSON appends the job's envelope as every answer carries it (contract
// §2.1): members without a value are left out, and what the client sent is
// given back byte for byte.
func (j *Job) AppendJSON(dst []byte, v View) []byte {
	w := rawjson.Object(dst)
	for _, show := range shows {
		w = show(w, j, v)
	}
	return w.Close()
}

// MarshalJSON is AppendJSON for everybody's eyes: no lease token.
func (j *Job) MarshalJSON() ([]byte, error) { return j.AppendJSON(nil, View{}), nil }
