package wire

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strconv"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// orNull appends an instant; the zero time is null.
func orNull(b *rawjson.Writer, name string, t time.Time) {
	if t.IsZero() {
		b.Null(name)
		return
	}
	b.Time(name, t)
}

// shownTemplate is what an answer says of the jobs of a schedule.
type shownTemplate struct{ kind, queue, args, meta, options json.RawMessage }

// shown takes a template apart. What it does not say gets the value that its jobs get.
func shown(template json.RawMessage) shownTemplate {
	t := shownTemplate{kind: json.RawMessage(`""`), args: json.RawMessage("[]"), meta: json.RawMessage("{}"), options: json.RawMessage("{}")}
	flat := json.RawMessage(rawjson.AppendString(nil, job.DefaultQueue))
	// It is an object that was checked when it came.
	_ = job.Members(template, func(name string, v json.RawMessage) error {
		switch {
		case isNull(v):
		case name == "type":
			t.kind = v
		case name == "queue":
			flat = v
		case name == "args":
			t.args = v
		case name == "meta":
			t.meta = v
		case name == "options" && v[0] == '{':
			t.options = v
		}
		return nil
	})
	if t.queue = rawjson.Member(t.options, "queue"); t.queue == nil || isNull(t.queue) {
		t.queue = flat
	}
	return t
}

// addedOptions is appended to a template without options. The space in it tells
// [ReadCron] that the stored template has none.
const addedOptions = `, "options":{}}`

// appendTemplate appends a template as it is stored, with options added where it has
// none.
func appendTemplate(b *rawjson.Writer, template json.RawMessage) {
	template = bytes.TrimSpace(template)
	b.Raw("job_template", template)
	if len(template) > 0 && !rawjson.Has(template, "options") {
		b.Reopen()
		*b = append(*b, addedOptions...)
	}
}

// appendCron appends the members of a schedule (contract §3.15). flat leaves out cron,
// which is the whole schedule in that answer.
func appendCron(b *rawjson.Writer, c *job.Cron, flat bool) {
	t := shown(c.Template)
	b.Str("id", c.Name).Str("name", c.Name).Str("expression", c.Expression)
	if !flat {
		b.Str("cron", c.Expression)
	}
	b.Str("schedule", c.Expression)
	zone := c.Timezone
	if zone == "" {
		zone = "UTC"
	}
	b.Str("timezone", zone)
	b.Raw("type", t.kind)
	b.Raw("queue", t.queue)
	b.Raw("args", t.args)
	b.Raw("meta", t.meta)
	b.Raw("options", t.options)
	appendTemplate(b, c.Template)
	b.Str("overlap_policy", string(c.Overlap))
	b.Bool("enabled", c.On())
	b.Str("status", map[bool]string{true: "active", false: "paused"}[c.On()])
	if c.Description == "" {
		b.Null("description")
	} else {
		b.Str("description", c.Description)
	}
	orNull(b, "last_run_at", c.LastRunAt)
	orNull(b, "next_run_at", c.NextRunAt)
	b.Int("run_count", c.RunCount)
	orNull(b, "created_at", c.CreatedAt)
	orNull(b, "updated_at", c.UpdatedAt)
	b.Optional("source", c.Source).Optional("last_job_id", string(c.LastJob)).Optional("last_workflow_id", string(c.LastFlow))
}

// bothCrons appends a schedule under the two names that clients look for.
func bothCrons(b *rawjson.Writer, c *job.Cron) {
	b.Object("cron")
	from := len(*b) - 1
	appendCron(b, c, false)
	b.End()
	b.Raw("cron_job", (*b)[from:])
}

// AppendCron appends the answer to a schedule that was stored (contract §3.15).
func AppendCron(dst []byte, c *job.Cron) []byte {
	b := rawjson.Object(dst)
	bothCrons(&b, c)
	appendWarnings(&b, c.Warnings())
	return b.Close()
}

// AppendCronChanged appends the answer to a change of a schedule.
func AppendCronChanged(dst []byte, c *job.Cron) []byte {
	b := rawjson.Writer(AppendCronFlat(dst, c))
	b.Reopen()
	appendWarnings(&b, c.Warnings())
	return b.Close()
}

// AppendCronFlat appends the answer about one schedule: the schedule whole, and its
// members flat beside it, without cron.
func AppendCronFlat(dst []byte, c *job.Cron) []byte {
	b := rawjson.Object(dst)
	bothCrons(&b, c)
	appendCron(&b, c, true)
	return b.Close()
}

// AppendCronDeleted appends the answer to the removal of a schedule.
func AppendCronDeleted(dst []byte, c *job.Cron) []byte {
	b := rawjson.Object(dst)
	b.Bool("deleted", true).Str("name", c.Name)
	bothCrons(&b, c)
	return b.Close()
}

// AppendCrons appends a page of schedules. The list of the path /crons, plural, is
// under items alone.
func AppendCrons(dst []byte, page job.CronPage, p Paging, plural bool) []byte {
	first := "crons"
	if plural {
		first = "items"
	}
	b := rawjson.Object(dst)
	from := objects(&b, first, page.Crons, func(b *rawjson.Writer, c *job.Cron) { appendCron(b, c, false) })
	if list := b[from:]; !plural {
		b.Raw("cron_jobs", list).Int("count", int64(len(page.Crons)))
		if p.Items {
			b.Raw("items", list)
		}
	}
	pages(&b, p, p.listed(len(page.Crons), page.Total, false, page.Next))
	return b.Close()
}

// AppendTriggered appends the answer to a run by hand.
func AppendTriggered(dst []byte, name string, r job.CronJob) []byte {
	b := rawjson.Object(dst)
	if r.Flow != nil {
		b.Str("workflow_id", string(r.FlowID)).Optional("job_id", string(firstJob(r.Flow)))
		b.Object("workflow")
		appendWorkflow(&b, r.Flow)
		b.End()
	} else {
		b.Str("job_id", string(r.JobID))
		wholeJob(&b, r.Job)
	}
	return b.Str("cron_name", name).Close()
}

// firstJob is the first job that is stored of a workflow.
func firstJob(w *job.Workflow) job.ID {
	for _, s := range w.Steps {
		if len(s.JobIDs) > 0 {
			return s.JobIDs[0]
		}
	}
	return ""
}

// States of a line of the history that has neither a job nor a workflow.
const (
	cronSkipped = "skipped" // none was made
	cronRemoved = "removed" // it was removed after its retention
)

// AppendCronHistory appends a page of the newest runs, the newest first. runs is all
// that are kept; whole adds their jobs.
func AppendCronHistory(dst []byte, runs []job.CronJob, p Paging, whole bool) []byte {
	total := int64(len(runs))
	b := rawjson.Object(dst)
	objects(&b, "executions", page(runs, p), func(b *rawjson.Writer, r job.CronJob) { appendRun(b, r, whole) })
	return b.Int("total", total).Close()
}

func appendRun(b *rawjson.Writer, r job.CronJob, whole bool) {
	var started, ended time.Time
	state := cronRemoved
	switch {
	case r.Job != nil:
		state, started, ended = string(r.Job.State), r.Job.StartedAt, r.Job.FinishedAt
	case r.Flow != nil:
		state, started, ended = string(r.Flow.State), r.Flow.CreatedAt, r.Flow.FinishedAt
	case r.JobID == "" && r.FlowID == "":
		state = cronSkipped
	}
	if r.JobID == "" {
		b.Null("job_id")
	} else {
		b.Str("job_id", string(r.JobID))
	}
	b.Optional("workflow_id", string(r.FlowID)).Str("state", state)
	orNull(b, "scheduled_at", r.At)
	orNull(b, "started_at", started)
	orNull(b, "completed_at", ended)
	b.Optional("reason", r.Skipped)
	if whole && r.Job != nil {
		wholeJob(b, r.Job)
	}
	if whole && r.Flow != nil {
		b.Object("workflow")
		workflowHead(b, r.Flow)
		b.End()
	}
}

// CronBody is the body of POST /ojs/v1/cron. The schedule must be valid.
func CronBody(s job.CronSpec) []byte {
	b := begin()
	b.Str("name", s.Name)
	b.Str("expression", s.Expression)
	b.Optional("timezone", s.Timezone)
	b.Optional("overlap_policy", string(s.Overlap))
	if s.Enabled != nil {
		b.Bool("enabled", *s.Enabled)
	}
	b.Optional("description", s.Description)
	b.Optional("source", s.Source)
	b.Raw("job_template", s.Template)
	return b.Close()
}

// CronPatchBody is the body of a change. A template in it must be JSON.
func CronPatchBody(p job.CronPatch) []byte {
	b := begin()
	for _, m := range []struct {
		name string
		v    *string
	}{{"expression", p.Expression}, {"timezone", p.Timezone}, {"overlap_policy", (*string)(p.Overlap)}, {"description", p.Description}} {
		if m.v != nil {
			b.Str(m.name, *m.v)
		}
	}
	if p.Enabled != nil {
		b.Bool("enabled", *p.Enabled)
	}
	return b.Raw("job_template", p.Template).Close()
}

// CronsQuery is the query of a list of schedules.
func CronsQuery(f job.CronFilter) url.Values {
	q := query(map[string]string{"limit": countText(f.Limit), "offset": countText(f.Offset), "cursor": f.Cursor})
	if f.Enabled != nil {
		q.Set("enabled", strconv.FormatBool(*f.Enabled))
	}
	return q
}
