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
	for _, read := range [...]func() error{p.version, p.identity, p.payload, p.numbers, p.times, p.policies, p.extras,
		p.e.checkBounds, p.fingerprint} {
		if err := read(); err != nil {
			return Checked{}, err
		}
	}
	return p.Checked, nil
}

// parser holds one enqueue body, cut into members.
type parser struct {
	Checked  // what has been read so far
	speaks   uint8
	top, opt fields // the members of the body, and of its options
	topRoom  [12]field
	optRoom  [8]field
}

type field struct {
	name string
	v    json.RawMessage
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

// system names the members that only the server sets; what a client sends there is dropped (ojs-core.md §5.3).
var system = map[string]bool{
	"state": true, "attempt": true, "created_at": true, "enqueued_at": true, "started_at": true,
	"completed_at": true, "cancelled_at": true, "discarded_at": true, "activated_at": true, "error": true,
	"errors": true, "result": true, "next_retry_at": true, "next_attempt_at": true, "retry_delay_ms": true,
	"worker_id": true, "parent_results": true, "workflow_id": true, "workflow_step": true, "progress": true,
	"visible_until": true,
}

// answered names the other members that the server adds to a job which it
// answers. At the top level, where an answer may be sent again, they are dropped as those are.
var answered = map[string]bool{
	"lease_token": true, "previous_state": true, "dead_letter": true, "deduplicated": true, "duplicate_job_id": true,
	"replaced": true, "replaced_job_id": true, "replaced_job_ids": true, "rewritten_at": true,
}

// known names the members that the parser reads itself and that are not echoed from Extra.
var known = map[string]bool{
	"specversion": true, "id": true, "type": true, "args": true, "meta": true, "metadata": true,
	"options": true, "queue": true, "priority": true, "timeout_ms": true, "scheduled_at": true,
	"delay_until": true, "delay": true, "delay_ms": true, "expires_at": true, "ttl_ms": true,
	"enqueue_ttl": true, "retry": true, "retry_policy": true, "unique": true, "pending": true,
	"deduplication": true, "max_attempts": true, "job_id": true, "jobId": true, "custom_job_id": true,
}

// topOnly names those of them that mean something at the top level alone.
var topOnly = map[string]bool{"specversion": true, "id": true, "type": true, "args": true, "options": true}

// echoed names the options that are given back at the top level of the job.
var echoed = map[string]bool{
	"timeout": true, "visibility_timeout_ms": true, "visibility_timeout": true, "tags": true, "schema": true,
	"rate_limit": true, "debounce": true, "result_ttl": true, "total_timeout": true,
	"heartbeat_timeout": true, "grace_period": true,
}

func (p *parser) member(name string, v json.RawMessage) error {
	p.speaks |= speaksOf(name)
	if name != "options" {
		p.top = append(p.top, field{name, v})
		return nil
	}
	if string(v) == "null" {
		return nil
	}
	if v[0] != '{' {
		return invalid(Invalid, "options", "must be an object, got %s", rawjson.Kind(v))
	}
	return Members(v, func(name string, v json.RawMessage) error {
		p.speaks |= speaksOf(name)
		p.opt = append(p.opt, field{name, v})
		return nil
	})
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

func (p *parser) identity() (err error) {
	if v := p.top.of("type"); v == nil {
		return invalid(Invalid, "type", `is required: a dotted name such as "email.send"`)
	} else if p.e.Type, err = text(v, "type"); err != nil {
		return err
	}
	if err := checkType(p.e.Type); err != nil {
		return err
	}
	switch v := p.top.of("args"); {
	case v == nil:
		return invalid(Invalid, "args", "is required: a JSON array, which may be empty")
	case v[0] != '[':
		return invalid(Invalid, "args", "must be an array, got %s", rawjson.Kind(v))
	default:
		p.e.Args = v
	}
	if v := p.top.set("id"); v != nil {
		s, err := text(v, "id")
		if err != nil {
			return err
		}
		if !ValidID(s) {
			return invalid(Invalid, "id", "must be a UUIDv7 in lower case, got %q", s)
		}
		p.e.ID = ID(s)
	}
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

func (p *parser) numbers() error {
	if name, v := p.get("priority"); v != nil {
		if v[0] == '"' {
			s, err := text(v, name)
			n, ok := namedPriorities[strings.ToUpper(s)]
			if err != nil || !ok {
				return invalid(Invalid, name, "must be an integer from -100 to 100, or HIGH, NORMAL or LOW, got %q", s)
			}
			p.e.Priority = n
		} else {
			n, ok := integer(v)
			if !ok || n < -100 || n > 100 {
				return invalid(Invalid, name, "must be an integer from -100 to 100, got %s", shown(v))
			}
			p.e.Priority = int(n)
		}
	}
	return p.lengths()
}

func (p *parser) times() (err error) {
	if p.e.ScheduledAt, p.e.Delay, err = p.when(starts); err != nil {
		return err
	}
	if p.e.ExpiresAt, p.e.TTL, err = p.when(ends); err != nil {
		return err
	}
	if name, v := p.get("pending"); v != nil {
		if p.e.Hold, err = boolean(v); err != nil {
			return invalid(Invalid, name, "must be true or false, got %s", shown(v))
		}
	}
	return nil
}

func (p *parser) policies() error {
	if err := p.retry(); err != nil {
		return err
	}
	if p.e.Retry != nil {
		// "1s" beside ISO 8601 is taken only in the flat envelope of ojs-core.md §13.
		short := p.top.of("specversion") != nil && p.opt.of("retry") == nil && p.opt.of("retry_policy") == nil
		r, err := ParseRetry(p.e.Retry, short)
		if err != nil {
			return err
		}
		p.e.MaxAttempts = r.MaxAttempts
	} else {
		p.e.MaxAttempts = DefaultRetry().MaxAttempts
	}
	if _, p.e.Unique = p.get("unique"); p.e.Unique != nil {
		// "3600s" beside ISO 8601 is taken only in the flat envelope of ojs-core.md §13.
		short := p.top.of("specversion") != nil && p.opt.of("unique") == nil
		u, err := ParseUnique(p.e.Unique, short)
		if err != nil {
			return err
		}
		p.keyed().unique = u
	}
	return p.dedup()
}

// dedup reads what asyncmq-deduplication.md asks for (contract §2.6).
func (p *parser) dedup() error {
	name, v := p.get("deduplication")
	if v == nil {
		name, v = p.get("debounce")
	}
	if v != nil {
		d, err := parseDeduplication(v, name)
		if err != nil {
			return err
		}
		p.e.Deduplication = v
		p.keyed().dedup = d
	}
	return p.customID()
}
