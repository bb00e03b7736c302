package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// CronSpec is a schedule as it was asked for (contract §3.15).
type CronSpec struct {
	Name        string          // 1 to 255 of a-z, 0-9, - and ., the first a letter or a digit
	Expression  string          // five or six fields, or a macro; see package cronsched
	Timezone    string          // an IANA name; empty: UTC, or what the expression begins with
	Overlap     Overlap         // empty: skip
	Enabled     *bool           // nil: as it is, and true for a new one
	Description string          // for people, at most 1,000 characters
	Source      string          // who keeps it: empty for the API, else a name such as "file"
	Template    json.RawMessage // each run's job, as the body of a PUSH without id; or {"workflow": …}, as that of POST /workflows without id
}

// Cron is a stored schedule and what has become of it. Zero times mean "not yet".
type Cron struct {
	CronSpec
	CreatedAt time.Time
	UpdatedAt time.Time // when the CronSpec last changed
	AnchorAt  time.Time // from when an @every counts: when its expression was set
	SeenAt    time.Time // all ticks until then are decided: fired, skipped or missed
	HoleTo    time.Time // after the clock was set back by more than a day: those after SeenAt and before HoleTo may fire again
	AheadAt   time.Time // and those from HoleTo to AheadAt are decided, too
	NextRunAt time.Time // zero while it is paused
	LastRunAt time.Time // the tick, or the instant of a trigger, that made a job or a workflow last
	LastJob   ID        // the job made last, by a tick or by hand; empty if that was a workflow
	LastFlow  ID        // the workflow made last; empty if that was a job
	RunCount  int64     // jobs and workflows made
	Runs      []CronRun // the newest MaxCronRuns ticks, the oldest first
}

// CronTemplate is what a schedule makes at each tick, checked: a job or a workflow.
type CronTemplate struct {
	Job  Checked       // the zero Checked where it makes a workflow
	Flow *WorkflowSpec // nil where it makes a job
}

// CronRun is what became of one tick, or of one trigger by hand.
type CronRun struct {
	At      time.Time // the tick
	JobID   ID        // empty when it made none
	FlowID  ID        // the workflow that it made
	Skipped string    // why it made none: see the reasons of CronSkipped
}

// MaxCronRuns is how many runs of a schedule are remembered.
const MaxCronRuns = 20

// Limits of a schedule.
const (
	MaxCronName        = 255
	maxCronDescription = 1000
)

// Overlap says what a tick does while the job of the one before has not ended:
// while that is in any state that is not final (contract §4.16).
type Overlap string

// The overlap policies.
const (
	OverlapSkip    Overlap = "skip"            // make no job; the default
	OverlapAllow   Overlap = "allow"           // make it all the same
	OverlapCancel  Overlap = "cancel_previous" // cancel the one before, and make it
	OverlapEnqueue Overlap = "enqueue"         // make it pending, until the one before has ended; also written "queue"
)

// The events of a schedule (contract §4.18).
const (
	CronTriggered = "cron.triggered" // a tick, or a person, made a job
	CronSkipped   = "cron.skipped"   // a tick made none
	CronMissed    = "cron.missed"    // ticks passed while no server ran, or its clock was elsewhere
)

// The reasons of CronSkipped.
const (
	SkippedOverlap   = "overlap"   // the job of the tick before has not ended
	SkippedDST       = "dst_skip"  // its wall time does not exist on that day
	SkippedDuplicate = "duplicate" // the template's unique policy, or its deduplication, met a job
	SkippedRejected  = "rejected"  // a middleware, or a rule of jobs, refused the job
	SkippedClock     = "clock"     // it is too long ago by the clock of the outbox's database
	SkippedElsewhere = "elsewhere" // another server of the same outbox made the job
)

// CronPatch changes parts of a schedule; nil members stay as they are. Template
// is merged: its members replace those of the same name, those of options and
// meta one by one, and null removes.
type CronPatch struct {
	Expression  *string
	Timezone    *string
	Overlap     *Overlap
	Description *string
	Enabled     *bool
	Template    json.RawMessage
}

// CronFilter chooses schedules for a list. Zero members do not restrict.
type CronFilter struct {
	Enabled *bool
	Limit   int // 1 to 1000; 0 is all
	Offset  int
	Cursor  string // CronPage.Next of the page before
}

// CronPage is one page of the schedules, by name.
type CronPage struct {
	Crons []*Cron
	Total int64  // of all pages
	Next  string // empty on the last page
}

// CronJob is one line of a schedule's history: the job or the workflow that a tick
// made, or why it made none.
type CronJob struct {
	CronRun
	Job  *Job      // nil when there was none, or it has been removed after its retention
	Flow *Workflow // the same of a workflow; in a history without its steps
}

// On reports whether the schedule fires.
func (c *Cron) On() bool { return c.Enabled == nil || *c.Enabled }

// Clone is a copy whose changes do not show in c. Raw JSON is shared: nobody writes to it.
func (c *Cron) Clone() *Cron {
	d := *c
	d.Runs = slices.Clone(c.Runs)
	return &d
}

// Made takes note that a run has made a job or a workflow.
func (c *Cron) Made(r CronRun) {
	c.LastJob, c.LastFlow, c.LastRunAt = r.JobID, r.FlowID, r.At
	c.RunCount++
}

// Note adds what became of a tick to the runs.
func (c *Cron) Note(r CronRun) {
	if n := len(c.Runs) - MaxCronRuns + 1; n > 0 {
		c.Runs = slices.Delete(c.Runs, 0, n)
	}
	c.Runs = append(c.Runs, r)
}

var cronName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)

// ValidCronName reports whether s can name a schedule (contract §3.15).
func ValidCronName(s string) bool { return len(s) <= MaxCronName && cronName.MatchString(s) }

// Validate checks all of a schedule but its expression and its time zone, fills
// the overlap policy, and returns what it makes, before any of its runs.
func (s *CronSpec) Validate() (CronTemplate, error) {
	switch {
	case s.Name == "":
		return CronTemplate{}, invalid(Invalid, "name", `is required: a name of its own, such as "nightly-report"`)
	case len(s.Name) > MaxCronName:
		return CronTemplate{}, invalid(Invalid, "name", "must be at most %d characters, got %d", MaxCronName, len(s.Name))
	case !cronName.MatchString(s.Name):
		return CronTemplate{}, invalid(Invalid, "name", "must be letters a-z, digits, hyphens and dots, a letter or a digit first, got %.80q", s.Name)
	case utf8.RuneCountInString(s.Description) > maxCronDescription:
		return CronTemplate{}, invalid(Invalid, "description", "must be at most %d characters, got %d", maxCronDescription, utf8.RuneCountInString(s.Description))
	}
	switch s.Overlap {
	case "":
		s.Overlap = OverlapSkip
	case "queue":
		s.Overlap = OverlapEnqueue
	case OverlapSkip, OverlapAllow, OverlapCancel, OverlapEnqueue:
	default:
		return CronTemplate{}, invalid(Invalid, "overlap_policy", "must be skip, allow, cancel_previous or enqueue, got %.40q", string(s.Overlap))
	}
	if len(s.Template) == 0 || s.Template[0] != '{' {
		return CronTemplate{}, invalid(Invalid, "job_template", `is required: an object with the type and the args of the jobs, such as {"type": "report.generate", "args": []}, or with a workflow`)
	}
	if err := CheckJSON(s.Template); err != nil {
		return CronTemplate{}, invalid(Invalid, "job_template", "must be a JSON object: %v", err)
	}
	if s.makesFlow() {
		w, err := s.flow()
		return CronTemplate{Flow: w}, err
	}
	c, err := s.envelope()
	return CronTemplate{Job: c}, err
}

// envelope reads the template of a job.
func (s *CronSpec) envelope() (Checked, error) {
	given, options := names.Set(s.Template), names.Set(rawjson.Member(s.Template, "options"))
	if given["id"] || slices.ContainsFunc(customIDs[:], func(name string) bool { return given[name] || options[name] }) {
		return Checked{}, invalid(Invalid, "job_template.id", "must not be given: each run has an id of its own")
	}
	c, err := ParseChecked(s.Template)
	if err != nil {
		return Checked{}, err
	}
	for _, t := range []struct {
		name string
		at   time.Time
	}{{"scheduled_at", c.e.ScheduledAt}, {"expires_at", c.e.ExpiresAt}} {
		if !t.at.IsZero() {
			return Checked{}, invalid(Invalid, t.name, "must count from each run, as delay and ttl do, and not be an instant, got %s", FormatTime(t.at))
		}
	}
	return c, s.checkRun(c)
}

// checkRun makes sure that a run has room for what it adds to the meta of the
// template, so that none is refused at night for what was taken by day.
func (s *CronSpec) checkRun(template Checked) error {
	run := Job{Envelope: template.e}
	run.Meta = runMeta(s.Name, template.e.Meta, Forever, Forever)
	run.waitFor(ID(strings.Repeat("0", 36)))
	err := run.checkBounds()
	if e := new(Error); errors.As(err, &e) {
		e.Message = "with what each run adds to the meta, " + e.Message
	}
	return err
}

// Apply is the schedule after a patch; s itself stays as it is.
func (p CronPatch) Apply(s CronSpec) (CronSpec, error) {
	if p.Expression != nil {
		s.Expression = *p.Expression
	}
	if p.Timezone != nil {
		s.Timezone = *p.Timezone
	}
	if p.Overlap != nil {
		s.Overlap = *p.Overlap
	}
	if p.Description != nil {
		s.Description = *p.Description
	}
	if p.Enabled != nil {
		s.Enabled = p.Enabled
	}
	if p.Expression != nil && p.Timezone == nil && zoned(*p.Expression) {
		s.Timezone = "" // the expression brings its own
	}
	if p.Template != nil {
		if err := CheckJSON(p.Template); err != nil {
			return s, invalid(Invalid, "job_template", "must be a JSON object: %v", err)
		}
		patch := json.RawMessage(bytes.TrimSpace(p.Template))
		if patch[0] != '{' {
			return s, invalid(Invalid, "job_template", "must be an object, got %s", rawjson.Kind(patch))
		}
		var err error
		if s.Template, err = merge(s.Template, patch, "options", "meta"); err != nil {
			return s, err
		}
	}
	return s, nil
}

// Empty reports whether a patch changes nothing.
func (p *CronPatch) Empty() bool {
	return p.Expression == nil && p.Timezone == nil && p.Overlap == nil && p.Description == nil && p.Enabled == nil && p.Template == nil
}

// zoned reports whether an expression begins with its time zone.
func zoned(expression string) bool {
	e := strings.TrimSpace(expression)
	return strings.HasPrefix(e, "CRON_TZ=") || strings.HasPrefix(e, "TZ=")
}

// merge is the object old with the members of patch in it; null removes one, and
// those named deep are merged themselves where they are objects.
func merge(old, patch json.RawMessage, deep ...string) (json.RawMessage, error) {
	var names []string
	values := map[string]json.RawMessage{}
	set := func(name string, v json.RawMessage) error {
		if _, known := values[name]; !known {
			names = append(names, name)
		}
		values[name] = v
		return nil
	}
	if err := Members(old, set); err != nil {
		return nil, err
	}
	err := Members(patch, func(name string, v json.RawMessage) (err error) {
		if slices.Contains(deep, name) && v[0] == '{' {
			was := values[name]
			if len(was) == 0 || was[0] != '{' {
				was = json.RawMessage("{}")
			}
			if v, err = merge(was, v); err != nil {
				return err
			}
		}
		return set(name, v)
	})
	o := rawjson.Object(nil)
	for _, name := range names {
		if v := values[name]; string(v) != "null" {
			o.Quoted(name, v)
		}
	}
	return o.Close(), err
}

// Same reports whether two schedules ask for the same; who keeps them does not count.
func (s *CronSpec) Same(t *CronSpec) bool {
	return s.Name == t.Name && s.Expression == t.Expression && s.Timezone == t.Timezone && s.Overlap == t.Overlap &&
		s.Description == t.Description && string(s.Template) == string(t.Template)
}

// Instance is the envelope of one run: that of the template, with what the run is
// in its meta (contract §4.16). at is the tick, now the present. The error is
// about a meta that is too large with it, or about a key that chooses members of meta.
func (c *Cron) Instance(template Checked, id ID, at, now time.Time) (Checked, error) {
	run, err := template.withMeta(runMeta(c.Name, template.e.Meta, at, now))
	run.e.ID = id
	return run, err
}

// runMeta is the meta of a run of a schedule, with that of the template in it.
func runMeta(name string, meta json.RawMessage, at, now time.Time) json.RawMessage {
	o := rawjson.Object(make([]byte, 0, len(meta)+len(name)+128))
	o.Str("cron_name", name)
	o.Time("cron_scheduled_at", at)
	o.Time("cron_triggered_at", now)
	o.Splice(withoutRun(meta))
	return o.Close()
}

// ownMeta are the members of meta that a run sets.
var ownMeta = []string{"cron_name", "cron_scheduled_at", "cron_triggered_at", "cron_after"}

func withoutRun(meta json.RawMessage) json.RawMessage {
	for _, name := range ownMeta {
		if rawjson.Member(meta, name) != nil {
			meta = rawjson.Without(meta, name)
		}
	}
	return meta
}

// Tick is a tick of a schedule for which several servers may want to make the job.
type Tick struct {
	Name     string // of the schedule
	At       time.Time
	Overlap  Overlap       // skip or allow
	Envelope Checked       // of the job, with its ID
	Flow     *WorkflowSpec // instead of Envelope: the workflow, with its ID
}

// CronEvent is an event of a schedule: kind is one of CronTriggered, CronSkipped
// and CronMissed.
func CronEvent(kind, name string, now time.Time, r CronRun) Event {
	o := rawjson.Object(make([]byte, 0, 128))
	o.Str("cron_name", name)
	o.Optional("workflow_id", string(r.FlowID))
	o.Optional("reason", r.Skipped)
	o.Time("scheduled_at", r.At)
	if late := now.Sub(r.At); kind == CronTriggered && late >= time.Second {
		o.Int("late_ms", late.Milliseconds())
	}
	return Event{Type: kind, Time: now, JobID: r.JobID, Data: o.Close()}
}

// CronMissedEvent tells of the ticks of a schedule from first to last that made no job.
func CronMissedEvent(name string, now, first, last time.Time) Event {
	o := rawjson.Object(make([]byte, 0, 128))
	o.Str("cron_name", name)
	o.Time("from", first)
	o.Time("to", last)
	return Event{Type: CronMissed, Time: now, Data: o.Close()}
}

// NoCron is the NotFound for a schedule.
func NoCron(name string) *Error {
	return Errorf(NotFound, "there is no schedule %.140q", name).
		With(map[string]any{"resource_type": "cron", "resource_id": name, "hint": "The list of schedules has the names: GET /ojs/v1/cron."})
}
