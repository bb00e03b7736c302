package job

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// Checked is an envelope that keeps every rule, and what was read of it to know
// so. Only [ParseEnvelope], [ParseChecked] and [Envelope.Check] make one, and
// nothing of it but the id can be set, so that who is given one need not look
// again. Its zero value is no envelope.
type Checked struct {
	e    Envelope
	keys *keys // nil if it names no key
}

// keys is what an envelope's unique policy and deduplication come to.
type keys struct {
	unique      UniquePolicy
	fingerprint string // empty without a policy
	dedup       deduplication
}

// Check holds an envelope that a Go program has made, or has changed, to
// ojs-core.md §5. It fills the defaults that do not depend on the server: the
// queue and MaxAttempts. The JSON in it is copied, so that its bytes may be used
// again. The first broken rule comes back as an *Error, with the field's name in
// its Details.
func (e Envelope) Check() (Checked, error) {
	c := Checked{e: e}
	for _, check := range [...]func() error{c.names, c.e.checkBounds, c.readRetry, c.readUnique, c.fingerprint, c.readDedup, c.readLimit} {
		if err := check(); err != nil {
			return Checked{}, err
		}
	}
	return c, nil
}

// names checks the members that are text, and what a Go program may have put
// into those that are JSON.
func (c *Checked) names() error {
	e := &c.e
	if err := checkType(e.Type); err != nil {
		return err
	}
	if err := e.checkRaw(); err != nil {
		return err
	}
	if e.ID != "" && !ValidID(string(e.ID)) {
		return invalidID(e.ID)
	}
	if e.Queue == "" {
		e.Queue = DefaultQueue
	}
	if err := checkQueue(e.Queue); err != nil {
		return err
	}
	if e.CustomID == "" {
		return nil
	}
	c.keyed()
	return checkCustomID(e.CustomID, "options.job_id")
}

// keyed is the keys, which are there from now on.
func (c *Checked) keyed() *keys {
	if c.keys == nil {
		c.keys = &keys{}
	}
	return c.keys
}

// readRetry reads the retry policy, which decides MaxAttempts whatever the field says.
func (c *Checked) readRetry() error {
	p, err := ParseRetry(c.e.Retry, true)
	c.e.MaxAttempts = p.MaxAttempts
	return err
}

func (c *Checked) readUnique() (err error) {
	if c.e.Unique != nil {
		c.keyed().unique, err = ParseUnique(c.e.Unique, true)
	}
	return err
}

func (c *Checked) readDedup() (err error) {
	if c.e.Deduplication != nil {
		c.keyed().dedup, err = parseDeduplication(c.e.Deduplication, "deduplication")
	}
	return err
}

// fingerprint is where a unique policy and the job it is for must agree.
func (c *Checked) fingerprint() error {
	if c.e.Unique == nil {
		return nil
	}
	text, err := c.keys.unique.canonical(&c.e)
	if err == nil {
		c.keys.fingerprint = fingerprintOf(text)
	}
	return err
}

// Clone is a copy that shares no JSON with e.
func (e Envelope) Clone() Envelope {
	for _, m := range rawRows {
		v := m.json(&e)
		*v = bytes.Clone(*v)
	}
	return e
}

// Envelope is a copy of what was checked. Raw JSON is shared: nobody writes to it.
func (c Checked) Envelope() Envelope { return c.e }

// ID is the id that was asked for, empty if the server is to make one.
func (c Checked) ID() ID { return c.e.ID }

// Queue is the queue that was asked for.
func (c *Checked) Queue() string { return c.e.Queue }

// SetID gives an envelope the id that was made for it, a UUIDv7 in lower case. It
// is Invalid for another, and for the zero Checked.
func (c *Checked) SetID(id ID) error {
	if err := c.made(); err != nil {
		return err
	}
	if !ValidID(string(id)) {
		return invalidID(id)
	}
	c.e.ID = id
	return nil
}

// made refuses the zero Checked, which nobody has checked.
func (c *Checked) made() error {
	if c.e.Type == "" { // every envelope has one that was checked
		return invalid(Invalid, "type", "is missing: a zero Checked is no envelope; make one with Envelope.Check or ParseEnvelope")
	}
	return nil
}

func invalidID(id ID) error {
	return invalid(Invalid, "id", "must be a UUIDv7 in lower case, got %q", id)
}

// Keyed reports whether the envelope names a key that a stored job may hold, so
// that the store must be asked before it is inserted.
func (c Checked) Keyed() bool { return c.keys != nil }

// UniqueKey is the fingerprint, empty without a unique policy.
func (c Checked) UniqueKey() string {
	if c.keys == nil {
		return ""
	}
	return c.keys.fingerprint
}

// Push makes a job of the envelope: scheduled, available or pending
// (ojs-core.md §7.1). Relative times count from now. The zero Checked is Invalid.
func (c *Checked) Push(now time.Time) (*Job, error) { return c.PushBehind("", now) }

// withMeta is the envelope with another meta, a valid JSON object. Only what
// depends on it is looked at again.
func (c Checked) withMeta(meta json.RawMessage) (Checked, error) {
	c.e.Meta = meta
	if err := c.e.checkBounds(); err != nil || c.keys == nil {
		return c, err
	}
	k := *c.keys
	c.keys = &k
	return c, c.fingerprint()
}

// checkRaw makes sure that what a Go program put into the envelope is JSON of the right shape.
func (e *Envelope) checkRaw() error {
	for _, m := range rawRows {
		v := m.json(e)
		if *v == nil && !m.required {
			continue
		}
		if err := CheckJSON(*v); err != nil {
			return invalid(Invalid, m.label(), "must be a JSON %s: %v", shapes[m.shape], err)
		}
		*v = bytes.Clone(bytes.TrimSpace(*v)) // the caller may use its bytes again
		if (*v)[0] != m.shape {
			return invalid(Invalid, m.label(), "must be a JSON %s, got %s", shapes[m.shape], rawjson.Kind(*v))
		}
	}
	return e.checkExtra()
}

// checkExtra makes sure that Extra says nothing that has a field of its own, and
// drops from it a client's spelling of an instant that the field does not hold.
func (e *Envelope) checkExtra() error {
	for name := range names.Set(e.Extra) {
		if is := spellings[name].is; is&(isSystem|isAdded) != 0 || is&isAsked != 0 && name != "scheduled_at" && name != "expires_at" && name != "options" {
			return invalid(Invalid, "extra", "holds %q, which has its own field or is the server's", name)
		}
	}
	if options := names.Set(rawjson.Member(e.Extra, "options")); options["job_id"] || options["jobId"] {
		return invalid(Invalid, "extra", "holds the option job_id, which has its own field, CustomID")
	}
	e.dropSpelling("scheduled_at", e.ScheduledAt, e.Delay)
	e.dropSpelling("expires_at", e.ExpiresAt, e.TTL)
	if e.Deduplication == nil {
		e.Deduplication = rawjson.Member(e.Extra, "debounce") // its older name, which is given back as it came
	}
	return nil
}

// dropSpelling removes an instant from Extra, where it stands as the client wrote
// it, unless it is at and no delay will move that: it would be shown, and another
// instant holds.
func (e *Envelope) dropSpelling(name string, at time.Time, delay time.Duration) {
	v := rawjson.Member(e.Extra, name)
	if v == nil {
		return
	}
	if t, _, err := moment(v, name); err != nil || delay != 0 || t.UnixMilli() != at.UnixMilli() {
		e.Extra = rawjson.Without(e.Extra, name)
	}
}
