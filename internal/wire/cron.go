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

// orNull appends an instant; a zero one is null.
func orNull(b []byte, name string, t time.Time) []byte {
	if t.IsZero() {
		return append(key(b, name), "null"...)
	}
	return at(b, name, t)
}

// shownTemplate is what an answer says of the jobs of a schedule.
type shownTemplate struct{ kind, queue, args, meta, options json.RawMessage }

// shown cuts a template. What it does not say has the value that its jobs get.
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
	_ = job.Members(t.options, func(name string, v json.RawMessage) error {
		if name == "queue" && !isNull(v) {
			t.queue = v
		}
		return nil
	})
	if t.queue == nil {
		t.queue = flat
	}
	return t
}

// addedOptions is put behind a template without options. The space in it tells
// [ReadCron] that it was not in what is stored.
const addedOptions = `, "options":{}}`

// appendTemplate appends a template as it is stored, and with options.
func appendTemplate(b []byte, template json.RawMessage) []byte {
	template = bytes.TrimSpace(template)
	given := false
	_ = job.Members(template, func(name string, _ json.RawMessage) error {
		given = given || name == "options"
		return nil
	})
	b = append(key(b, "job_template"), template...)
	if given || len(template) == 0 {
		return b
	}
	return append(b[:len(b)-1], addedOptions...)
}

// appendCron appends the members of a schedule (contract §3.15). Those that stand
// flat beside whole ones leave out cron, which is a schedule there.
func appendCron(b []byte, c *job.Cron, flat bool) []byte {
	t := shown(c.Template)
	b = str(b, "id", c.Name)
	b = str(b, "name", c.Name)
	b = str(b, "expression", c.Expression)
	if !flat {
		b = str(b, "cron", c.Expression)
	}
	b = str(b, "schedule", c.Expression)
	zone := c.Timezone
	if zone == "" {
		zone = "UTC"
	}
	b = str(b, "timezone", zone)
	b = append(key(b, "type"), t.kind...)
	b = append(key(b, "queue"), t.queue...)
	b = append(key(b, "args"), t.args...)
	b = append(key(b, "meta"), t.meta...)
	b = append(key(b, "options"), t.options...)
	b = appendTemplate(b, c.Template)
	b = str(b, "overlap_policy", string(c.Overlap))
	b = flag(b, "enabled", c.On())
	b = str(b, "status", map[bool]string{true: "active", false: "paused"}[c.On()])
	if c.Description == "" {
		b = append(key(b, "description"), "null"...)
	} else {
		b = str(b, "description", c.Description)
	}
	b = orNull(b, "last_run_at", c.LastRunAt)
	b = orNull(b, "next_run_at", c.NextRunAt)
	b = num(b, "run_count", c.RunCount)
	b = orNull(b, "created_at", c.CreatedAt)
	b = orNull(b, "updated_at", c.UpdatedAt)
	b = someText(b, "source", c.Source)
	return someText(b, "last_job_id", string(c.LastJob))
}

// bothCrons appends a schedule under the two names that clients look for.
func bothCrons(b []byte, c *job.Cron) []byte {
	b = append(key(b, "cron"), '{')
	from := len(b) - 1
	b = append(appendCron(b, c, false), '}')
	return again(b, "cron_job", from, len(b))
}

// AppendCron appends the answer to a schedule that was stored (contract §3.15).
func AppendCron(dst []byte, c *job.Cron) []byte {
	return append(appendWarnings(bothCrons(append(dst, '{'), c), c.Warnings()), '}')
}

// AppendCronChanged appends the answer to a change of a schedule.
func AppendCronChanged(dst []byte, c *job.Cron) []byte {
	b := AppendCronFlat(dst, c)
	return append(appendWarnings(b[:len(b)-1], c.Warnings()), '}')
}

// AppendCronFlat appends the answer about one schedule: the schedule, and its
// members flat beside it but for those two names.
func AppendCronFlat(dst []byte, c *job.Cron) []byte {
	return append(appendCron(bothCrons(append(dst, '{'), c), c, true), '}')
}

// AppendCronDeleted appends the answer to the removal of a schedule.
func AppendCronDeleted(dst []byte, c *job.Cron) []byte {
	b := str(flag(append(dst, '{'), "deleted", true), "name", c.Name)
	return append(bothCrons(b, c), '}')
}

// AppendCrons appends a page of schedules. The list of the other path, plural, is
// under items alone.
func AppendCrons(dst []byte, page job.CronPage, p Paging, plural bool) []byte {
	first := "crons"
	if plural {
		first = "items"
	}
	b := append(key(append(dst, '{'), first), '[')
	from := len(b) - 1
	for i, c := range page.Crons {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendCron(append(b, '{'), c, false), '}')
	}
	b = append(b, ']')
	to := len(b)
	if !plural {
		b = num(again(b, "cron_jobs", from, to), "count", int64(len(page.Crons)))
		if p.Items {
			b = again(b, "items", from, to)
		}
	}
	return append(pages(b, p, page.Total, int64(p.Offset+len(page.Crons)) < page.Total, ""), '}')
}

// AppendTriggered appends the answer to a run by hand.
func AppendTriggered(dst []byte, name string, j *job.Job) []byte {
	b := str(append(dst, '{'), "job_id", string(j.ID))
	b = j.AppendJSON(key(b, "job"), job.View{})
	return append(str(b, "cron_name", name), '}')
}

// What a line of the history says in place of the state of a job.
const (
	cronSkipped = "skipped" // there was none
	cronRemoved = "removed" // it is gone, after its retention
)

// AppendCronHistory appends a page of the newest runs, the newest first; whole
// adds their jobs. runs is all that are remembered.
func AppendCronHistory(dst []byte, runs []job.CronJob, p Paging, whole bool) []byte {
	total := int64(len(runs))
	runs = runs[min(p.Offset, len(runs)):]
	runs = runs[:min(p.Limit, len(runs))]
	b := array(append(dst, '{'), "executions", len(runs), func(b []byte, i int) []byte {
		return appendRun(append(b, '{'), runs[i], whole)
	})
	return append(num(b, "total", total), '}')
}

func appendRun(b []byte, r job.CronJob, whole bool) []byte {
	var started, ended time.Time
	if r.JobID == "" {
		b = str(append(key(b, "job_id"), "null"...), "state", cronSkipped)
	} else {
		state := cronRemoved
		if r.Job != nil {
			state, started, ended = string(r.Job.State), r.Job.StartedAt, r.Job.FinishedAt
		}
		b = str(str(b, "job_id", string(r.JobID)), "state", state)
	}
	b = orNull(b, "scheduled_at", r.At)
	b = orNull(b, "started_at", started)
	b = orNull(b, "completed_at", ended)
	b = someText(b, "reason", r.Skipped)
	if whole && r.Job != nil {
		b = r.Job.AppendJSON(key(b, "job"), job.View{})
	}
	return append(b, '}')
}

// CronBody is the body of POST /ojs/v1/cron. The schedule must be valid.
func CronBody(s job.CronSpec) []byte {
	b := str(str(begin(), "name", s.Name), "expression", s.Expression)
	b = someText(b, "timezone", s.Timezone)
	b = someText(b, "overlap_policy", string(s.Overlap))
	if s.Enabled != nil {
		b = flag(b, "enabled", *s.Enabled)
	}
	b = someText(b, "description", s.Description)
	b = someText(b, "source", s.Source)
	return append(someJSON(b, "job_template", s.Template), '}')
}

// CronPatchBody is the body of a change. A template in it must be JSON.
func CronPatchBody(p job.CronPatch) []byte {
	b := begin()
	for _, m := range []struct {
		name string
		v    *string
	}{{"expression", p.Expression}, {"timezone", p.Timezone}, {"overlap_policy", (*string)(p.Overlap)}, {"description", p.Description}} {
		if m.v != nil {
			b = str(b, m.name, *m.v)
		}
	}
	if p.Enabled != nil {
		b = flag(b, "enabled", *p.Enabled)
	}
	return append(someJSON(b, "job_template", p.Template), '}')
}

// CronsQuery is the query of a list of schedules.
func CronsQuery(f job.CronFilter) url.Values {
	q := query(map[string]string{"limit": countText(f.Limit), "offset": countText(f.Offset)})
	if f.Enabled != nil {
		q.Set("enabled", strconv.FormatBool(*f.Enabled))
	}
	return q
}
