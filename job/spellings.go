package job

import (
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// A request may say one thing in several spellings, and among its options or at
// the top level (contract §2.2). What the options say in whatever spelling beats
// the top level. At one level the spellings must agree, where contract §2.2 does
// not say which of them wins: what is passed over would be lost without a word.

// level is the options if they have one of the names, else the top level.
func (p *parser) level(names ...string) (from fields, optional bool) {
	for _, n := range names {
		if p.opt.set(n) != nil {
			return p.opt, true
		}
	}
	return p.top, false
}

// otherSpellings are the spellings of which a client's own is given back.
var otherSpellings = map[string]string{"timeout": "timeout_ms", "visibility_timeout": "visibility_timeout_ms", "visibility_timeout_ms": "visibility_timeout"}

// beaten reports whether the options say what a member of the top level says.
func (p *parser) beaten(name string) bool {
	return p.opt.set(name) != nil || otherSpellings[name] != "" && p.opt.set(otherSpellings[name]) != nil
}

// timeout reads the limit of an attempt; milliseconds beat seconds.
func (p *parser) timeout() (err error) {
	from, _ := p.level("timeout", "timeout_ms")
	if v := from.set("timeout"); v != nil {
		if p.e.Timeout, err = count(v, "timeout", time.Second); err != nil {
			return err
		}
	}
	if v := from.set("timeout_ms"); v != nil {
		p.e.Timeout, err = count(v, "timeout_ms", time.Millisecond)
	}
	return err
}

// visibility reads the length of a reservation; milliseconds beat the other spelling.
func (p *parser) visibility() (err error) {
	from, _ := p.level("visibility_timeout", "visibility_timeout_ms")
	for _, name := range [...]string{"visibility_timeout", "visibility_timeout_ms"} {
		v := from.set(name)
		switch {
		case v == nil:
			continue
		case name == "visibility_timeout_ms":
			p.e.Visibility, err = count(v, name, time.Millisecond)
		case v[0] == '"':
			p.e.Visibility, err = isoText(v, name)
		default:
			p.e.Visibility, err = count(v, name, time.Second)
		}
		if err == nil && p.e.Visibility <= 0 {
			err = invalid(Invalid, name, "must be more than 0")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// instantName is one name of an instant, which may count from the PUSH.
type instantName struct {
	name string
	read func(v json.RawMessage, field string) (time.Time, time.Duration, error)
}

var (
	starts = []instantName{{"scheduled_at", moment}, {"delay_until", moment}, {"delay", within}, {"delay_ms", withinMillis}}
	ends   = []instantName{{"expires_at", moment}, {"ttl_ms", withinMillis}, {"enqueue_ttl", withinSeconds}}
)

func within(v json.RawMessage, field string) (at time.Time, in time.Duration, err error) {
	if v[0] == '"' {
		in, err = isoText(v, field)
		return at, in, err
	}
	return withinSeconds(v, field)
}

func withinSeconds(v json.RawMessage, field string) (at time.Time, in time.Duration, err error) {
	in, err = seconds(v, field)
	return at, in, err
}

func withinMillis(v json.RawMessage, field string) (at time.Time, in time.Duration, err error) {
	in, err = count(v, field, time.Millisecond)
	return at, in, err
}

// when reads an instant, or a time from now. A time of nothing says nothing.
func (p *parser) when(spellings []instantName) (at time.Time, in time.Duration, err error) {
	for _, from := range [...]fields{p.opt, p.top} {
		said := ""
		for _, s := range spellings {
			v := from.set(s.name)
			if v == nil {
				continue
			}
			t, d, err := s.read(v, s.name)
			switch {
			case err != nil:
				return at, in, err
			case t.IsZero() && d == 0:
			case said == "":
				said, at, in = s.name, t, d
			case !t.Equal(at) || d != in:
				return at, in, invalid(Invalid, s.name, "says another time than %s beside it: give one of them", said)
			}
		}
		if said != "" {
			return at, in, nil
		}
	}
	return at, in, nil
}

// retry reads the policy as it was supplied. max_attempts beside it is a part of
// it: that is how the command line sends it, and how an answer shows it.
func (p *parser) retry() error {
	from, policyOptional := p.level("retry", "retry_policy")
	if p.e.Retry = from.set("retry"); p.e.Retry == nil {
		p.e.Retry = from.set("retry_policy")
	} else if from.set("retry_policy") != nil {
		return invalid(BadRetry, "retry_policy", "is given beside retry: one of them is enough")
	}
	from, optional := p.level("max_attempts")
	n := from.set("max_attempts")
	if n == nil || p.e.Retry != nil && p.e.Retry[0] != '{' {
		return nil
	}
	return p.maxAttempts(n, optional, policyOptional)
}

// maxAttempts makes n, the max_attempts beside the policy, a part of it. Each of the two
// came among the options or at the top level.
func (p *parser) maxAttempts(n json.RawMessage, optional, policyOptional bool) error {
	var own json.RawMessage
	o := rawjson.Object(nil)
	o.Raw("max_attempts", n)
	if p.e.Retry != nil {
		if err := eachOfPolicy(p.e.Retry, true, func(spelling, name string, v json.RawMessage) error {
			if name == "max_attempts" {
				own = v
			} else {
				o.Quoted(spelling, v)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	asked, ok := integer(n)
	switch {
	case own == nil && !optional && ok && asked == int64(DefaultRetry().MaxAttempts):
		// That is how an answer shows a job whose policy does not say.
	case own == nil, optional && !policyOptional:
		p.e.Retry = o.Close()
	case optional == policyOptional:
		if has, valid := integer(own); !ok || !valid || has != asked {
			return invalid(BadRetry, "retry.max_attempts", "is %s, and max_attempts beside the policy is %s: give one of them", shown(own), shown(n))
		}
	}
	return nil
}

// customIDs are the spellings of the caller's own name for a job (contract §2.6).
// The last is that of answers.
var customIDs = [...]string{"job_id", "jobId", "custom_job_id"}

// customID reads the caller's own name for the job, among the options or, where
// they have none, at the top level (contract §2.2).
func (p *parser) customID() error {
	from, optional := p.level(customIDs[:]...)
	said := ""
	for _, name := range customIDs {
		v := from.set(name)
		if v == nil {
			continue
		}
		field := name
		if optional {
			field = "options." + name
		}
		id, err := whole(v, field)
		if err != nil {
			return err
		}
		if said != "" && id != p.e.CustomID {
			return invalid(Invalid, field, "is another id than %s: give one of them", said)
		}
		if err := checkCustomID(id, field); err != nil {
			return err
		}
		said, p.e.CustomID = field, id
		p.keyed()
	}
	return nil
}
