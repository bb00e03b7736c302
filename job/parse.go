package job

import (
	"encoding/json"
	"strings"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// ParseEnvelope reads the body of an enqueue: the flat envelope of ojs-core.md
// §5 or the binding's shape with "options", and every alias of contract §2.2.
// A value in options beats the same value at the top level. System-managed
// members are dropped, unknown ones are kept in Extra. The first rule that is
// broken comes back as an *Error whose Details name the field.
//
// raw must not be changed afterwards: the envelope points into it.
func ParseEnvelope(raw []byte) (Checked, error) {
	if err := CheckJSON(raw); err != nil {
		return Checked{}, err
	}
	return ParseChecked(raw)
}

// ParseChecked is ParseEnvelope for JSON that CheckJSON has already passed,
// such as an element of a batch.
func ParseChecked(raw []byte) (Checked, error) {
	if len(raw) > MaxJobBytes {
		return Checked{}, tooLarge("the job", len(raw), MaxJobBytes)
	}
	var p parser
	p.top, p.opt = p.topRoom[:0], p.optRoom[:0]
	if err := Members(raw, p.member); err != nil {
		return Checked{}, err
	}
	for _, r := range read {
		if r.member&p.said == 0 && r.member != ^uint64(0) {
			continue
		}
		if err := r.read(&p); err != nil {
			return Checked{}, err
		}
	}
	for _, check := range [...]func() error{p.extras, p.e.checkBounds, p.fingerprint} {
		if err := check(); err != nil {
			return Checked{}, err
		}
	}
	return p.Checked, nil
}

// parser holds one enqueue body, cut into members.
type parser struct {
	Checked         // what has been read so far
	said     uint64 // the bits of the rows that the body has a word of
	top, opt fields // the members of the body, and of its options
	topRoom  [12]field
	optRoom  [8]field
}

type field struct {
	name string
	v    json.RawMessage
	is   meaning
}

// fields are members in the order in which they came. There are few of them.
type fields []field

// of is the value of a name, nil if it was not given.
func (fs fields) of(name string) json.RawMessage {
	for _, f := range fs {
		if f.name == name {
			return f.v
		}
	}
	return nil
}

// set is of for values other than null.
func (fs fields) set(name string) json.RawMessage {
	if v := fs.of(name); string(v) != "null" {
		return v
	}
	return nil
}

func (p *parser) member(name string, v json.RawMessage) error {
	if name != "options" {
		p.top = append(p.top, p.hear(name, v))
		return nil
	}
	if string(v) == "null" {
		return nil
	}
	if v[0] != '{' {
		return invalid(Invalid, "options", "must be an object, got %s", rawjson.Kind(v))
	}
	return Members(v, func(name string, v json.RawMessage) error {
		p.opt = append(p.opt, p.hear(name, v))
		return nil
	})
}

// hear notes of which row a name speaks.
func (p *parser) hear(name string, v json.RawMessage) field {
	s := spellings[name]
	p.said |= s.member
	return field{name, v, s.is}
}

// get is the value of an option and whether it was given; null counts as not given.
func (p *parser) get(names ...string) (string, json.RawMessage) {
	for _, from := range [...]fields{p.opt, p.top} {
		for _, n := range names {
			if v := from.set(n); v != nil {
				return n, v
			}
		}
	}
	return names[0], nil
}

func (p *parser) version() error {
	v := p.top.of("specversion")
	if v == nil {
		return nil
	}
	switch s, err := text(v, "specversion"); {
	case err != nil:
		return err
	case s != SpecVersion && s != "1.0" && s != "1.0.0":
		return invalid(Invalid, "specversion", "must be %q, got %q", SpecVersion, s)
	}
	return nil
}

func (p *parser) jobType() (err error) {
	v := p.top.of("type")
	if v == nil {
		return invalid(Invalid, "type", `is required: a dotted name such as "email.send"`)
	}
	if p.e.Type, err = text(v, "type"); err != nil {
		return err
	}
	return checkType(p.e.Type)
}

func (p *parser) args() error {
	switch v := p.top.of("args"); {
	case v == nil:
		return invalid(Invalid, "args", "is required: a JSON array, which may be empty")
	case v[0] != '[':
		return invalid(Invalid, "args", "must be an array, got %s", rawjson.Kind(v))
	default:
		p.e.Args = v
	}
	return nil
}

func (p *parser) id() error {
	v := p.top.set("id")
	if v == nil {
		return nil
	}
	s, err := text(v, "id")
	if err == nil && !ValidID(s) {
		err = invalid(Invalid, "id", "must be a UUIDv7 in lower case, got %q", s)
	}
	p.e.ID = ID(s)
	return err
}

func (p *parser) queue() (err error) {
	name, v := p.get("queue")
	if v == nil {
		p.e.Queue = DefaultQueue
		return nil
	}
	if p.e.Queue, err = text(v, name); err != nil {
		return err
	}
	return checkQueue(p.e.Queue)
}

// payload reads meta, with the older spellings merged under it.
func (p *parser) payload() error {
	var sources []json.RawMessage
	for _, s := range [...]struct {
		from fields
		name string
	}{{p.top, "meta"}, {p.opt, "meta"}, {p.top, "metadata"}, {p.opt, "metadata"}} {
		v := s.from.set(s.name)
		if v == nil {
			continue
		}
		if v[0] != '{' {
			return invalid(Invalid, s.name, "must be an object, got %s", rawjson.Kind(v))
		}
		sources = append(sources, v)
	}
	switch len(sources) {
	case 0:
		return nil
	case 1:
		p.e.Meta = sources[0]
		return nil
	}
	o, seen := rawjson.Object(nil), map[string]bool{}
	for _, src := range sources {
		err := Members(src, func(name string, v json.RawMessage) error {
			if !seen[name] {
				seen[name] = true
				o.Quoted(name, v)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	p.e.Meta = o.Close()
	return nil
}

var namedPriorities = map[string]int{"HIGH": 10, "NORMAL": 0, "LOW": -10}

func (p *parser) priority() error {
	name, v := p.get("priority")
	if v == nil {
		return nil
	}
	if v[0] == '"' {
		s, err := text(v, name)
		n, ok := namedPriorities[strings.ToUpper(s)]
		if err != nil || !ok {
			return invalid(Invalid, name, "must be an integer from -100 to 100, or HIGH, NORMAL or LOW, got %q", s)
		}
		p.e.Priority = n
		return nil
	}
	n, ok := integer(v)
	if !ok || n < -100 || n > 100 {
		return invalid(Invalid, name, "must be an integer from -100 to 100, got %s", shown(v))
	}
	p.e.Priority = int(n)
	return nil
}

func (p *parser) start() (err error) {
	p.e.ScheduledAt, p.e.Delay, err = p.when(starts)
	return err
}

func (p *parser) end() (err error) {
	p.e.ExpiresAt, p.e.TTL, err = p.when(ends)
	return err
}

func (p *parser) hold() (err error) {
	if name, v := p.get("pending"); v != nil {
		if p.e.Hold, err = boolean(v); err != nil {
			return invalid(Invalid, name, "must be true or false, got %s", shown(v))
		}
	}
	return nil
}

// flat reports whether the body is the flat envelope of ojs-core.md §13, in which
// alone "1s" is taken beside ISO 8601, as far as a policy of these names goes.
func (p *parser) flat(names ...string) bool {
	for _, name := range names {
		if p.opt.of(name) != nil {
			return false
		}
	}
	return p.top.of("specversion") != nil
}

func (p *parser) retryPolicy() error {
	p.e.MaxAttempts = DefaultRetry().MaxAttempts
	if err := p.retry(); err != nil || p.e.Retry == nil {
		return err
	}
	r, err := ParseRetry(p.e.Retry, p.flat("retry", "retry_policy"))
	p.e.MaxAttempts = r.MaxAttempts
	return err
}

func (p *parser) uniquePolicy() (err error) {
	if _, p.e.Unique = p.get("unique"); p.e.Unique != nil {
		p.keyed().unique, err = ParseUnique(p.e.Unique, p.flat("unique"))
	}
	return err
}

// dedup reads what asyncmq-deduplication.md asks for (contract §2.6).
func (p *parser) dedup() (err error) {
	name, v := p.get("deduplication")
	if v == nil {
		name, v = p.get("debounce")
	}
	if v != nil {
		p.e.Deduplication = v
		p.keyed().dedup, err = parseDeduplication(v, name)
	}
	return err
}
