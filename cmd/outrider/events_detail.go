package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/outrider-jobs/outrider/job"
)

// eventDetail is what is particular to an event, in a few words.
func eventDetail(e job.Event) string {
	var d struct {
		Attempt   int         `json:"attempt"`
		Took      *int64      `json:"duration_ms"`
		Worker    string      `json:"worker_id"`
		Total     int         `json:"total_attempts"`
		Max       int         `json:"max_attempts"`
		Flow      string      `json:"workflow_id"`
		FlowName  string      `json:"name"`
		Step      string      `json:"step"`
		Reason    string      `json:"reason"`
		By        string      `json:"cancelled_by"`
		Scheduled string      `json:"scheduled_at"`
		Cron      string      `json:"cron_name"`
		Progress  *float64    `json:"progress"`
		Error     *eventError `json:"error"`
		Last      *eventError `json:"last_error"`
	}
	_ = json.Unmarshal(e.Data, &d) // what is not like that has no words
	var words []string
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	if d.FlowName != "" || d.Flow != "" {
		add("workflow %s", cmp.Or(d.FlowName, d.Flow))
	}
	if d.Step != "" {
		add("step %s", d.Step)
	}
	if d.Cron != "" {
		add("schedule %s", d.Cron)
	}
	if d.Worker != "" {
		add("worker %s", d.Worker)
	}
	switch {
	case d.Total > 0:
		add("after %s", count(int64(d.Total), "attempt", "attempts"))
	case d.Attempt > 0 && d.Max > 0:
		add("attempt %d of %d", d.Attempt, d.Max)
	case d.Attempt > 1:
		add("attempt %d", d.Attempt)
	}
	if d.Took != nil {
		add("in %d ms", *d.Took)
	}
	if d.Scheduled != "" {
		add("for %s", d.Scheduled)
	}
	if d.Progress != nil {
		add("%.0f%%", *d.Progress*100)
	}
	if d.By != "" {
		add("by %s", d.By)
	}
	if d.Reason != "" {
		add("%s", d.Reason)
	}
	if err := cmp.Or(d.Error, d.Last); err != nil {
		add("%s: %s", cmp.Or(err.Type, err.Code), err.Message)
	}
	return strings.Join(words, ", ")
}

// eventError is the error of an event.
type eventError struct {
	Type    string `json:"type"`
	Code    string `json:"code"`
	Message string `json:"message"`
}
