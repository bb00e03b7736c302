package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// What the client reads. An answer that docs/contract.md does not allow is Internal:
// the caller cannot do anything about it.

// unread is the error for an answer that cannot be read.
func unread(err error) error {
	return job.Errorf(job.Internal, "the server's answer cannot be read: %w", err)
}

// read decodes an answer. Raw members are copies, so that one job does not keep
// the whole answer in memory.
func read(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return unread(err)
	}
	return nil
}

// readMember reads the one member of an answer that matters. missing is the error text
// if it is not there.
func readMember[T any](body []byte, name, missing string) (v T, err error) {
	var r map[string]json.RawMessage
	if err := read(body, &r); err != nil {
		return v, err
	}
	raw := r[name]
	if raw == nil || isNull(raw) {
		return v, unread(job.Errorf(job.Malformed, "%s", missing))
	}
	err = read(raw, &v)
	return v, err
}

// oneJob is an answer about one job (contract §2.1, §3.9, §3.10).
type oneJob struct {
	Job        json.RawMessage `json:"job"`
	Previous   job.State       `json:"previous_state"`
	DeadLetter bool            `json:"dead_letter"`
}

func readOne(body []byte) (oneJob, *job.Job, error) {
	var r oneJob
	if err := read(body, &r); err != nil {
		return r, nil, err
	}
	j, err := parse(r.Job)
	if err == nil {
		j.Dead = j.Dead || r.DeadLetter
	}
	return r, j, err
}

func parse(raw json.RawMessage) (*job.Job, error) {
	if raw == nil {
		return nil, unread(job.Errorf(job.Malformed, "there is no job in it"))
	}
	j, err := job.ParseCheckedJob(raw)
	if err != nil {
		return nil, unread(err)
	}
	return j, nil
}

func parseAll(raws []json.RawMessage) ([]*job.Job, error) {
	jobs := make([]*job.Job, len(raws))
	for i, raw := range raws {
		j, err := parse(raw)
		if err != nil {
			return nil, err
		}
		jobs[i] = j
	}
	return jobs, nil
}

// ReadJob reads the answer to INFO, ACK or FAIL.
func ReadJob(body []byte) (*job.Job, error) {
	_, j, err := readOne(body)
	return j, err
}

// ReadChange reads the answer to an operator's verb: a job and the state it came from.
func ReadChange(body []byte) (job.Change, error) {
	r, j, err := readOne(body)
	return job.Change{Job: j, Previous: r.Previous}, err
}

// ReadJobs reads the answer to a FETCH: the jobs in order (contract §3.8).
func ReadJobs(body []byte) ([]*job.Job, error) {
	var r struct {
		Jobs []json.RawMessage `json:"jobs"`
	}
	if err := read(body, &r); err != nil {
		return nil, err
	}
	return parseAll(r.Jobs)
}

// pagination is what every list says of itself (contract §1.7).
type pagination struct {
	Total   int64 `json:"total"`
	AtLeast bool  `json:"total_at_least"`
	Rest
}

// Rest is what comes behind a page: whether there is more, and the cursor where that
// begins, which is empty from a server that gives none for the list.
type Rest struct {
	More bool   `json:"has_more"`
	Next string `json:"next_cursor"`
}

// ReadPage reads a list of jobs, or of dead letters (contract §3.3, §3.14).
func ReadPage(body []byte, dead bool) (job.Page, error) {
	var r struct {
		Jobs  []json.RawMessage `json:"jobs"`
		Pages pagination        `json:"pagination"`
	}
	if err := read(body, &r); err != nil {
		return job.Page{}, err
	}
	if dead {
		for i, raw := range r.Jobs {
			r.Jobs[i] = withoutTotal(raw)
		}
	}
	jobs, err := parseAll(r.Jobs)
	if err != nil {
		return job.Page{}, err
	}
	for _, j := range jobs {
		j.Dead = j.Dead || dead
	}
	return job.Page{Jobs: jobs, Total: r.Pages.Total, AtLeast: r.Pages.AtLeast, Next: r.Pages.Next}, nil
}

// withoutTotal takes total_attempts off a dead letter: the list adds it at the end of
// the job. A member of this name that the job's client sent is never the last one, and
// stays.
func withoutTotal(raw json.RawMessage) json.RawMessage {
	i := bytes.LastIndex(raw, []byte(`,"total_attempts":`))
	if i < 0 {
		return raw
	}
	n := strings.TrimSuffix(string(raw[i+len(`,"total_attempts":`):]), "}")
	if _, ok := digits(n); !ok {
		return raw
	}
	return append(raw[:i:i], '}')
}

// ReadBeat reads the answer to a BEAT (contract §3.11).
func ReadBeat(body []byte) (job.BeatReply, error) {
	var r struct {
		Directive string    `json:"state"`
		Extended  []job.ID  `json:"jobs_extended"`
		Cancelled []job.ID  `json:"cancelled_jobs"`
		Lost      []job.ID  `json:"lost_jobs"`
		Time      time.Time `json:"server_time"`
	}
	err := read(body, &r)
	return job.BeatReply(r), err
}

// queueObject is a queue and its counters, in the list and alone (contract §3.13).
type queueObject struct {
	Name      string    `json:"name"`
	IsPaused  bool      `json:"paused"`
	CreatedAt time.Time `json:"created_at"`
	Dead      int64     `json:"dead_letter"`
	Scheduled int64     `json:"scheduled"`
	Available int64     `json:"available"`
	Pending   int64     `json:"pending"`
	Active    int64     `json:"active"`
	Retryable int64     `json:"retryable"`
	Completed int64     `json:"completed"`
	Cancelled int64     `json:"cancelled"`
	Discarded int64     `json:"discarded"`
	Status    string    `json:"status"`
	queueSince
}

func (o queueObject) queue() (q job.Queue) {
	q = job.Queue{Name: o.Name, Paused: o.IsPaused, CreatedAt: o.CreatedAt, Dead: o.Dead, Counts: map[job.State]int64{
		job.Scheduled: o.Scheduled, job.Available: o.Available, job.Pending: o.Pending, job.Active: o.Active,
		job.Retryable: o.Retryable, job.Completed: o.Completed, job.Cancelled: o.Cancelled, job.Discarded: o.Discarded}}
	q.Draining = o.Status == job.QueueDraining
	o.set(&q)
	return q
}

// ReadQueue reads the answer about one queue (contract §3.13).
func ReadQueue(body []byte) (job.Queue, error) {
	var r struct {
		Queue queueObject `json:"queue"`
	}
	err := read(body, &r)
	return r.Queue.queue(), err
}

// ReadQueues reads a page of queues, and what comes behind it.
func ReadQueues(body []byte) (qs []job.Queue, rest Rest, err error) {
	var r struct {
		Queues []queueObject `json:"queues"`
		Pages  pagination    `json:"pagination"`
	}
	if err := read(body, &r); err != nil {
		return nil, rest, err
	}
	for _, o := range r.Queues {
		qs = append(qs, o.queue())
	}
	return qs, r.Pages.Rest, nil
}

// ReadDeadStats reads the counters of the dead letters (contract §3.14).
func ReadDeadStats(body []byte) (job.DeadStats, error) {
	var r struct {
		Total       int64            `json:"total"`
		ByQueue     map[string]int64 `json:"by_queue"`
		ByType      map[string]int64 `json:"by_type"`
		ByErrorType map[string]int64 `json:"by_error_type"`
		Oldest      time.Time        `json:"oldest_at"`
		Newest      time.Time        `json:"newest_at"`
	}
	err := read(body, &r)
	return job.DeadStats(r), err
}

// ReadEvents reads a page of the event log (contract §3.18).
func ReadEvents(body []byte) ([]job.Event, error) {
	var r struct {
		Events []struct {
			ID   string          `json:"id"`
			Type string          `json:"type"`
			Time time.Time       `json:"time"`
			Data json.RawMessage `json:"data"`
		} `json:"events"`
	}
	if err := read(body, &r); err != nil {
		return nil, err
	}
	es := make([]job.Event, len(r.Events))
	for i, v := range r.Events {
		es[i] = job.Event{Type: v.Type, Time: v.Time}
		var err error
		if es[i].Seq, err = ParseEventID(v.ID); err == nil {
			err = readEventData(&es[i], v.Data)
		}
		if err != nil {
			return nil, unread(err)
		}
	}
	return es, nil
}

// ReadEventSpan reads from a page of the log that begins with its oldest event which part of
// it is there.
func ReadEventSpan(body []byte) (s job.EventSpan, err error) {
	es, err := ReadEvents(body)
	if err != nil {
		return s, err
	}
	var r struct {
		Total int64 `json:"total"`
	}
	if err := read(body, &r); err != nil {
		return s, err
	}
	s.First = 1
	if len(es) > 0 {
		s.First = es[0].Seq
	}
	s.Last = s.First + r.Total - 1
	return s, nil
}

// readEventData takes the members that every event carries out of its data.
func readEventData(e *job.Event, raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	b := rawjson.Object(make([]byte, 0, len(raw)))
	err := job.Members(raw, func(name string, v json.RawMessage) (err error) {
		var s string
		switch name {
		case "job_id":
			s, err = text(v, name)
			e.JobID = job.ID(s)
		case "job_type":
			e.JobType, err = text(v, name)
		case "queue":
			e.Queue, err = text(v, name)
		default:
			b.Quoted(name, v)
		}
		return err
	})
	if len(b) > 1 {
		e.Data = b.Close()
	}
	return err
}

// ReadHealth reads how the server is (contract §3.22). What is wrong with it is not
// sent.
func ReadHealth(body []byte) (job.Health, error) {
	var r struct {
		Status  string `json:"status"`
		Uptime  int64  `json:"uptime_seconds"`
		Backend struct {
			Type    string `json:"type"`
			Latency int64  `json:"latency_ms"`
			Check   string `json:"check"`
		} `json:"backend"`
		Queues  struct{ Total, Paused int }
		Workers struct{ Total, Stale int }
		Held    maintenanceObject `json:"maintenance"`
		Time    time.Time         `json:"server_time"`
	}
	if err := read(body, &r); err != nil {
		return job.Health{}, err
	}
	if r.Status == "" {
		return job.Health{}, unread(job.Errorf(job.Malformed, "there is no status in it"))
	}
	h := job.Health{OK: r.Status == "ok" || r.Status == degraded, Degraded: r.Status == degraded, Backend: r.Backend.Type, Uptime: time.Duration(r.Uptime) * time.Second,
		Latency: time.Duration(r.Backend.Latency) * time.Millisecond, Time: r.Time,
		Queues: r.Queues.Total, Paused: r.Queues.Paused, Workers: r.Workers.Total, StaleNow: r.Workers.Stale, Check: r.Backend.Check, Maintenance: job.Maintenance(r.Held)}
	if !h.OK || h.Degraded {
		h.Problem = "the server says that it is " + r.Status
	}
	return h, nil
}
