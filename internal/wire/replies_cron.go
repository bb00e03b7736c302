package wire

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// cronObject is a schedule in a list and alone (contract §3.15).
type cronObject struct {
	Name        string          `json:"name"`
	Expression  string          `json:"expression"`
	Timezone    string          `json:"timezone"`
	Template    json.RawMessage `json:"job_template"`
	Overlap     job.Overlap     `json:"overlap_policy"`
	Enabled     *bool           `json:"enabled"`
	Description string          `json:"description"`
	Source      string          `json:"source"`
	LastRunAt   time.Time       `json:"last_run_at"`
	NextRunAt   time.Time       `json:"next_run_at"`
	LastJob     job.ID          `json:"last_job_id"`
	LastFlow    job.ID          `json:"last_workflow_id"`
	RunCount    int64           `json:"run_count"`
	CreatedAt   time.Time       `json:"created_at"`
	UpdatedAt   time.Time       `json:"updated_at"`
}

func (o *cronObject) cron() (*job.Cron, error) {
	if o == nil || o.Name == "" || len(o.Template) == 0 {
		return nil, unread(job.Errorf(job.Malformed, "there is no schedule in it"))
	}
	if t, added := bytes.CutSuffix(o.Template, []byte(addedOptions)); added {
		o.Template = append(t, '}')
	}
	return &job.Cron{CronSpec: job.CronSpec{Name: o.Name, Expression: o.Expression, Timezone: o.Timezone, Overlap: o.Overlap,
		Enabled: o.Enabled, Description: o.Description, Source: o.Source, Template: o.Template},
		CreatedAt: o.CreatedAt, UpdatedAt: o.UpdatedAt, NextRunAt: o.NextRunAt, LastRunAt: o.LastRunAt,
		LastJob: o.LastJob, LastFlow: o.LastFlow, RunCount: o.RunCount}, nil
}

// ReadCron reads an answer about one schedule. What is never sent is zero: AnchorAt,
// SeenAt, HoleTo, AheadAt and Runs.
func ReadCron(body []byte) (*job.Cron, error) {
	var r struct {
		Cron *cronObject `json:"cron"`
	}
	if err := read(body, &r); err != nil {
		return nil, err
	}
	return r.Cron.cron()
}

// ReadCrons reads a page of schedules.
func ReadCrons(body []byte) (job.CronPage, error) {
	var r struct {
		Crons []*cronObject `json:"crons"`
		Pages *pagination   `json:"pagination"`
	}
	if err := read(body, &r); err != nil {
		return job.CronPage{}, err
	}
	if r.Pages == nil {
		return job.CronPage{}, unread(job.Errorf(job.Malformed, "there are no schedules in it"))
	}
	page := job.CronPage{Crons: make([]*job.Cron, len(r.Crons)), Total: r.Pages.Total, Next: r.Pages.Next}
	for i, o := range r.Crons {
		var err error
		if page.Crons[i], err = o.cron(); err != nil {
			return job.CronPage{}, err
		}
	}
	return page, nil
}

// ReadCronHistory reads the runs of a schedule, with their jobs where those were asked for.
func ReadCronHistory(body []byte) ([]job.CronJob, error) {
	var r struct {
		Runs []struct {
			At     time.Time       `json:"scheduled_at"`
			JobID  job.ID          `json:"job_id"`
			FlowID job.ID          `json:"workflow_id"`
			Reason string          `json:"reason"`
			Job    json.RawMessage `json:"job"`
			Flow   *workflowObject `json:"workflow"`
		} `json:"executions"`
		Total *int64 `json:"total"`
	}
	if err := read(body, &r); err != nil {
		return nil, err
	}
	if r.Total == nil {
		return nil, unread(job.Errorf(job.Malformed, "there is no history in it"))
	}
	runs := make([]job.CronJob, len(r.Runs))
	for i, v := range r.Runs {
		runs[i].CronRun = job.CronRun{At: v.At, JobID: v.JobID, FlowID: v.FlowID, Skipped: v.Reason}
		var err error
		if v.Job != nil {
			runs[i].Job, err = parse(v.Job)
		}
		if v.Flow != nil && err == nil {
			runs[i].Flow, err = v.Flow.workflow()
		}
		if err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// ReadTriggered reads the answer to a run by hand. Its time is zero: it is not sent.
func ReadTriggered(body []byte) (r job.CronJob, err error) {
	var o struct {
		Flow *workflowObject `json:"workflow"`
	}
	if err := read(body, &o); err != nil {
		return r, err
	}
	if o.Flow != nil {
		if r.Flow, err = o.Flow.workflow(); err == nil {
			r.FlowID = r.Flow.ID
		}
		return r, err
	}
	if r.Job, err = ReadJob(body); err == nil {
		r.JobID = r.Job.ID
	}
	return r, err
}
