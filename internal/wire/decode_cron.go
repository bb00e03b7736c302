package wire

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/outrider-jobs/outrider/job"
)

// The job of a schedule comes in one of two dialects: whole, under job_template,
// or flat, its members beside those of the schedule (contract §3.15).

// A member that [job.InTemplate] knows belongs to the job when it stands beside the
// members of the schedule. So does an unknown one, which is ignored beside a
// job_template and in a change.

// cronShown are the members of a schedule that an answer holds and a request cannot
// set. They are ignored in a request, so that an answer may be sent again.
var cronShown = map[string]bool{"status": true, "last_run_at": true, "next_run_at": true, "last_job_id": true, "last_workflow_id": true,
	"run_count": true, "created_at": true, "updated_at": true}

// member is a member of an object.
type member struct {
	name string
	v    json.RawMessage
}

// cronBody is a schedule as a body has it; nil is not given.
type cronBody struct {
	id, name, expression, timezone, overlap, description, source *string

	enabled  *bool
	template json.RawMessage
	flat     []member // the members that are not the schedule's own
	beside   string   // the first of them that is known, and not null
}

// readCron reads a body. For the members of the schedule itself null is not given.
func readCron(raw []byte) (*cronBody, error) {
	var c cronBody
	if err := job.CheckJSON(raw); err != nil {
		return nil, err
	}
	if err := job.Members(raw, c.member); err != nil {
		return nil, err
	}
	if c.id != nil && c.name != nil && *c.id != *c.name {
		return nil, refuse("id", "must be left out, or be the name: a schedule has no other")
	}
	if c.template != nil && c.beside != "" {
		return &c, c.agrees()
	}
	return &c, nil
}

// agrees refuses a job_template and flat members that differ. An answer, in which they
// are the same, may be sent again.
func (c *cronBody) agrees() error {
	said := map[string]json.RawMessage{"args": []byte("[]"), "meta": []byte("{}"), "options": []byte("{}"), "queue": []byte(`"` + job.DefaultQueue + `"`), "type": []byte(`""`)}
	take := func(name string, v json.RawMessage) error {
		said[name] = v
		return nil
	}
	if err := job.Members(c.template, take); err != nil {
		return err
	}
	_ = job.Members(said["options"], func(name string, v json.RawMessage) error { // what is wrong with it is reported later
		if name == "queue" {
			return take(name, v)
		}
		return nil
	})
	for _, m := range c.flat {
		if job.InTemplate(m.name) && !isNull(m.v) && compact(m.v) != compact(said[m.name]) {
			return refuse("job_template", "must not stand beside another "+m.name+": give all of the job in one place")
		}
	}
	return nil
}

// compact is valid JSON without white space.
func compact(v json.RawMessage) string {
	var b bytes.Buffer
	_ = json.Compact(&b, v)
	return b.String()
}

func (c *cronBody) member(name string, v json.RawMessage) error {
	into := map[string]**string{"id": &c.id, "name": &c.name, "timezone": &c.timezone, "description": &c.description, "source": &c.source}[name]
	own := into != nil || name == "enabled" || name == "job_template" || cronSpellings[name] != ""
	switch {
	case cronShown[name]:
		return nil
	case !own:
		c.flat = append(c.flat, member{name, v})
		if c.beside == "" && job.InTemplate(name) && !isNull(v) {
			c.beside = name
		}
		return nil
	case isNull(v):
		return nil
	case into != nil:
		s, err := text(v, name)
		*into = &s
		return err
	case name == "enabled":
		on, err := boolean(v, name)
		c.enabled = &on
		return err
	case name == "job_template":
		if c.template = v; v[0] != '{' {
			return refuse(name, "must be an object"+got(v))
		}
		return nil
	}
	return c.spelled(cronSpellings[name], name, v)
}

// cronSpellings are the names of the members that have several.
var cronSpellings = map[string]string{"expression": "expression", "cron": "expression", "schedule": "expression",
	"overlap_policy": "overlap_policy", "overlap": "overlap_policy"}

// spelled reads a member that has several names. They must not contradict each other.
func (c *cronBody) spelled(field, name string, v json.RawMessage) error {
	into := &c.expression
	if field == "overlap_policy" {
		into = &c.overlap
	}
	s, err := text(v, name)
	if err == nil && *into != nil && **into != s {
		return refuse(field, "is given twice under different names, with different values")
	}
	*into = &s
	return err
}

func valueOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// DecodeCron reads the body of POST /ojs/v1/cron in either dialect (contract §3.15).
// The schedule is valid, except that its expression and its time zone are not checked
// here. It points into raw.
func DecodeCron(raw []byte) (job.CronSpec, error) {
	c, err := readCron(raw)
	if err != nil {
		return job.CronSpec{}, err
	}
	s := job.CronSpec{Name: valueOf(c.name), Expression: valueOf(c.expression), Timezone: valueOf(c.timezone),
		Overlap: job.Overlap(valueOf(c.overlap)), Enabled: c.enabled, Description: valueOf(c.description), Source: valueOf(c.source)}
	if len(s.Source) > maxName {
		return s, refuse("source", "must be at most 255 bytes")
	}
	if c.template != nil {
		s.Template, err = withArgs(c.template)
	} else if len(c.flat) > 0 {
		s.Template = flatTemplate(c.flat)
	}
	if err == nil {
		_, err = s.Validate()
	}
	if err == nil && c.expression == nil {
		err = refuse("expression", `is required: when the schedule fires, such as "0 3 * * *" or "@daily"`)
	}
	return s, err
}

// DecodeCronPatch reads a change of the schedule of that name (contract §3.15).
// One that changes nothing is Invalid, and so is another name. The change points
// into raw.
func DecodeCronPatch(raw []byte, name string) (job.CronPatch, error) {
	c, err := readCron(raw)
	if err != nil {
		return job.CronPatch{}, err
	}
	for _, s := range []*string{c.name, c.id} {
		if s != nil && *s != name {
			return job.CronPatch{}, refuse("name", "cannot be changed: make a schedule of the new name, and remove this one")
		}
	}
	p := job.CronPatch{Expression: c.expression, Timezone: c.timezone, Description: c.description, Enabled: c.enabled, Template: c.template}
	if c.overlap != nil {
		o := job.Overlap(*c.overlap)
		p.Overlap = &o
	}
	if p.Template == nil {
		if p.Template, err = flatPatch(c.flat); err != nil {
			return p, err
		}
	}
	if err := mergeable(p.Template); err != nil {
		return p, err
	}
	if p.Expression == nil && p.Timezone == nil && p.Overlap == nil && p.Description == nil && p.Enabled == nil && p.Template == nil {
		return p, job.Errorf(job.Invalid, "the body changes nothing: give enabled, expression, timezone, overlap_policy, description or job_template")
	}
	return p, nil
}

// DecodeCronFilter reads the query of a list of schedules (contract §3.15).
func DecodeCronFilter(q url.Values) (f job.CronFilter, p Paging, err error) {
	if p, err = pagingOf(q, PageDefault, PageMax, "enabled"); err != nil {
		return f, p, err
	}
	f = job.CronFilter{Limit: p.Limit, Offset: p.Offset, Cursor: p.Cursor}
	if q.Has("enabled") {
		f.Enabled, err = said(q, "enabled")
	}
	return f, p, err
}

// said is a parameter that is true or false.
func said(q url.Values, param string) (*bool, error) {
	b, err := boolean(json.RawMessage(q.Get(param)), param)
	return &b, err
}

// DecodeCronHistory reads the query of a schedule's history (contract §3.15). whole is
// jobs=true: each line is to hold its job.
func DecodeCronHistory(q url.Values) (whole bool, p Paging, err error) {
	if p, err = pagingOf(q, job.MaxCronRuns, job.MaxCronRuns, "jobs"); err == nil && q.Has("jobs") {
		var b *bool
		b, err = said(q, "jobs")
		whole = *b
	}
	return whole, p, err
}

// DecodeIfNew reads whether a schedule is only to be made if there is none of its name
// (contract C-16). match is the header If-None-Match.
func DecodeIfNew(q url.Values, match string) (bool, error) {
	if err := only(q, "if_not_exists"); err != nil {
		return false, err
	}
	if q.Has("if_not_exists") {
		b, err := said(q, "if_not_exists")
		return *b, err
	}
	return strings.TrimSpace(match) == "*", nil
}
