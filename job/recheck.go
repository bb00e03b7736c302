package job

import (
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// Recheck is Validate for an envelope that was valid once and has been given to
// others since: nothing that was found then is trusted, and the raw JSON is read
// again. A client's own spelling of an instant that now says another time is dropped.
func (e *Envelope) Recheck() error {
	e.checked = raws{}
	if err := e.Validate(); err != nil {
		return err
	}
	e.dropSpelling("scheduled_at", e.ScheduledAt, e.Delay)
	e.dropSpelling("expires_at", e.ExpiresAt, e.TTL)
	return nil
}

// dropSpelling removes an instant from Extra, where it stands as the client wrote
// it, unless it is at and no delay will move that.
func (e *Envelope) dropSpelling(name string, at time.Time, delay time.Duration) {
	if !rawjson.Has(e.Extra, name) {
		return
	}
	same := false
	_ = Members(e.Extra, func(n string, v json.RawMessage) error { // it has just been checked
		if n == name {
			t, _, err := moment(v, name)
			same = err == nil && delay == 0 && t.UnixMilli() == at.UnixMilli()
		}
		return nil
	})
	if !same {
		e.Extra = rawjson.Without(e.Extra, name)
	}
}
