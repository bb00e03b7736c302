package job

import (
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// extras collects what is given back as it came: options that the server only
// keeps, the client's own spelling of instants, and everything unknown.
func (p *parser) extras() error {
	o, n := rawjson.Object(nil), 0
	add := func(name string, v json.RawMessage) {
		o.Quoted(name, v)
		n++
	}
	for _, f := range p.opt {
		if f.is&isEchoed != 0 && string(f.v) != "null" {
			add(f.name, f.v)
		}
	}
	for _, f := range p.top {
		if f.is&(isAsked|isSystem|isAdded) != 0 || f.is&isEchoed != 0 && (string(f.v) == "null" || p.beaten(f.name)) {
			continue
		}
		add(f.name, f.v)
	}
	if name, v := p.get("scheduled_at", "delay_until"); name == "scheduled_at" && spelled(v, p.e.ScheduledAt) {
		add(name, v)
	}
	if name, v := p.get("expires_at"); spelled(v, p.e.ExpiresAt) {
		add(name, v)
	}
	rest, m := rawjson.Object(nil), 0
	for _, f := range p.opt {
		if f.is&isTop != 0 || f.is&(isAsked|isEchoed|isSystem) == 0 {
			rest.Quoted(f.name, f.v)
			m++
		}
	}
	if m > 0 {
		add("options", rest.Close())
	}
	if n > 0 {
		p.e.Extra = o.Close()
	}
	return p.checkExtras()
}

// spelled reports whether v is the client's own spelling of an instant, which is given back as it is.
func spelled(v json.RawMessage, at time.Time) bool {
	return v != nil && !at.IsZero() && string(v) != `"`+FormatTime(at)+`"`
}

// checkExtras holds the rules of the echoed options.
func (p *parser) checkExtras() error {
	if name, v := p.get("tags"); v != nil {
		err := Elements(v, func(_ int, tag json.RawMessage) error {
			_, err := text(tag, name)
			return err
		})
		if err != nil {
			return invalid(Invalid, name, "must be an array of strings, got %s", shown(v))
		}
	}
	if name, v := p.get("schema"); v != nil {
		s, err := text(v, name)
		if err != nil {
			return err
		}
		if !IsURI(s) {
			return invalid(Invalid, name, "must be a URI with a scheme, got %q", s)
		}
	}
	return nil
}
