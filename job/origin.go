package job

import (
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// Origin says of which row of an outbox a job was made. It is the member outbox of the
// job, among what Extra keeps: a job without one has no byte of it, and nothing decides
// by it. Whoever may enqueue may write it, so it is what the sender says. A relay
// writes over what stood there.
type Origin struct {
	Outbox  string    // its name in the settings of whoever relayed
	Row     int64     // the row's id
	Written time.Time // the row's created_at, by the clock of the app's database or of the app; zero: none that can be written
}

const (
	originName = "outbox"
	// originRoom is left for what an envelope has beside its JSON: a job that has come
	// close to MaxJobBytes goes without an origin, as that must not make it too large.
	originRoom = 4 << 10
)

// SetOrigin notes the row of which an envelope was made, in place of what it said itself.
func (c *Checked) SetOrigin(o Origin) {
	extra := withoutOrigin(c.e.Extra)
	w := rawjson.Object(make([]byte, 0, len(extra)+len(o.Outbox)+96))
	w.Splice(extra)
	w.Object(originName).Str("name", o.Outbox).Int("row", o.Row)
	if y := o.Written.UTC().Year(); y > 1 && y <= 9999 {
		w.Time("written_at", o.Written)
	}
	w.End()
	if whole := w.Close(); c.e.size()-len(c.e.Extra)+len(whole) <= MaxJobBytes-originRoom {
		extra = whole
	}
	c.e.Extra = extra
}

// Origin is the row of an outbox of which a job was made, if its sender says so in the
// form that a relay does.
func (e *Envelope) Origin() (o Origin, ok bool) {
	raw := rawjson.Member(e.Extra, originName)
	if len(raw) == 0 || raw[0] != '{' {
		return Origin{}, false
	}
	err := Members(raw, o.member)
	return o, err == nil && o.Outbox != "" && o.Row > 0
}

// member reads one member of an origin; those that are unknown are passed over.
func (o *Origin) member(name string, v json.RawMessage) (err error) {
	switch name {
	case "name":
		o.Outbox, err = text(v, name)
	case "row":
		n, ok := rawjson.Integer(v)
		if !ok {
			err = invalid(Invalid, name, "must be an integer, got %s", shown(v))
		}
		o.Row = n
	case "written_at":
		o.Written, err = instants.take(name, v)
	}
	return err
}

// sameExtra compares further members by what they say. Of which row a job was made
// does not make it another job.
func sameExtra(a, b json.RawMessage) bool {
	return sameObject(withoutOrigin(a), withoutOrigin(b))
}

func withoutOrigin(extra json.RawMessage) json.RawMessage {
	if !rawjson.Has(extra, originName) {
		return extra
	}
	return rawjson.Without(extra, originName)
}
