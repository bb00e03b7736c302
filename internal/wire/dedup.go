package wire

import (
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// AppendDedupOwner appends who holds a deduplication key (contract §3.13); older
// adds the name that the key had before. The owner is there whole, too.
func AppendDedupOwner(dst []byte, queue, id string, owner *job.Job, older bool) []byte {
	b := rawjson.Object(dst)
	b.Str("queue", queue).Str("deduplication_id", id)
	if older {
		b.Str("debounce_id", id)
	}
	b.Str("job_id", string(owner.ID))
	b.Str("mode", owner.DedupMode())
	b.Time("expires_at", owner.DedupUntil)
	b.Key("job")
	b = owner.AppendJSON(b, job.View{})
	return b.Close()
}

// ReadDedupOwner reads who holds a deduplication key.
func ReadDedupOwner(body []byte) (*job.Job, error) {
	var r struct {
		Job   json.RawMessage `json:"job"`
		Until time.Time       `json:"expires_at"`
	}
	if err := read(body, &r); err != nil {
		return nil, err
	}
	j, err := parse(r.Job)
	if err == nil {
		j.DedupUntil = r.Until
	}
	return j, err
}

// AppendReleasedDedup appends the answer to the release of a deduplication key.
func AppendReleasedDedup(dst []byte, released bool) []byte {
	b := rawjson.Object(dst)
	return b.Bool("released", released).Close()
}

// ReadReleasedDedup reads whether there was a deduplication key to release.
func ReadReleasedDedup(body []byte) (bool, error) {
	var r struct {
		Released *bool `json:"released"`
	}
	if err := read(body, &r); err != nil {
		return false, err
	}
	if r.Released == nil {
		return false, unread(job.Errorf(job.Malformed, "it does not say whether anything was released"))
	}
	return *r.Released, nil
}
