package wire

import (
	"encoding/json"
	"slices"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// The template of a schedule, in the words of a request (contract §3.15).

// workflowMember is the member of a template that makes workflows. It has no args.
const workflowMember = "workflow"

// withArgs is a template with args, which may be left out of a request.
func withArgs(t json.RawMessage) (json.RawMessage, error) {
	given := false
	b := rawjson.Object(make([]byte, 0, len(t)+len(`,"args":[]`)))
	err := job.Members(t, func(name string, v json.RawMessage) error {
		if name == "args" && isNull(v) {
			return nil
		}
		given = given || name == "args" || name == workflowMember && !isNull(v)
		b.Quoted(name, v)
		return nil
	})
	if given || err != nil {
		return t, err
	}
	b.Raw("args", json.RawMessage("[]"))
	return b.Close(), nil
}

// flatTemplate makes the template of flat members.
func flatTemplate(flat []member) json.RawMessage {
	b := rawjson.Object(nil)
	args := json.RawMessage("[]")
	for _, m := range flat {
		if (m.name == "args" || m.name == workflowMember) && !isNull(m.v) {
			args = nil
		}
		if !isNull(m.v) {
			b.Quoted(m.name, m.v)
		}
	}
	if args != nil {
		b.Raw("args", args)
	}
	return b.Close()
}

// flatPatch makes the change of a template from flat members, nil for none. A member
// that may stand among the options is put there, where it counts whether the stored
// template has it there or flat.
func flatPatch(flat []member) (json.RawMessage, error) {
	top, opt := rawjson.Object(nil), rawjson.Object(nil)
	options, given, err := givenOptions(flat)
	if err != nil {
		return nil, err
	}
	for _, m := range given {
		opt.Quoted(m.name, m.v)
	}
	for _, m := range flat {
		switch {
		case m.name == "options" || !job.InTemplate(m.name):
		case m.name == "type" || m.name == "args" || m.name == workflowMember || m.name == "meta" || m.name == "metadata" || isNull(options):
			top.Quoted(m.name, m.v)
		default:
			top.Quoted(m.name, json.RawMessage("null"))
			if !slices.ContainsFunc(given, func(o member) bool { return o.name == m.name }) {
				opt.Quoted(m.name, m.v)
			}
		}
	}
	switch {
	case options != nil && isNull(options):
		top.Raw("options", options)
	case options != nil || len(opt) > 1:
		top.Raw("options", opt.Close())
	}
	if len(top) == 1 {
		return nil, nil
	}
	return top.Close(), nil
}

// givenOptions finds the options among flat members: raw, nil for none, and their
// members.
func givenOptions(flat []member) (raw json.RawMessage, given []member, err error) {
	for _, m := range flat {
		if m.name == "options" {
			raw = m.v
		}
	}
	if raw == nil || isNull(raw) {
		return raw, nil, nil
	}
	if raw[0] != '{' {
		return nil, nil, refuse("options", "must be an object"+got(raw))
	}
	err = job.Members(raw, func(name string, v json.RawMessage) error {
		given = append(given, member{name, v})
		return nil
	})
	return raw, given, err
}

// mergeable refuses a change of a template in which a name comes twice.
func mergeable(t json.RawMessage) error {
	if t == nil {
		return nil
	}
	return job.Members(t, func(name string, v json.RawMessage) error {
		if (name == "options" || name == "meta") && v[0] == '{' {
			return job.Members(v, func(string, json.RawMessage) error { return nil })
		}
		return nil
	})
}
