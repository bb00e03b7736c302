package wire

import (
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// DecodeRegister reads the body of a worker's registration (contract §3.12),
// which is that of a BEAT without jobs.
func DecodeRegister(raw []byte) (job.WorkerInfo, error) {
	b, err := DecodeBeat(raw)
	return b.Worker, err
}

// DecodeDeregister reads the body of a worker's farewell (contract §3.12).
func DecodeDeregister(raw []byte) (id string, err error) {
	err = object(raw, "", func(member string, v json.RawMessage) (err error) {
		if member == "worker_id" {
			id, err = name(v, member)
		}
		return err
	})
	if err == nil && id == "" {
		err = refuse("worker_id", "is required")
	}
	return id, err
}

// AppendRegistered appends the answer to a registration (contract §3.12), in seconds.
func AppendRegistered(dst []byte, id string, r job.Registration) []byte {
	b := flag(append(dst, '{'), "ok", true)
	b = str(b, "worker_id", id)
	b = at(b, "server_time", r.Time)
	b = num(b, "heartbeat_interval", wholeSeconds(r.Heartbeat))
	b = num(b, "heartbeat_timeout", wholeSeconds(r.Silence))
	return append(num(b, "visibility_timeout_default", wholeSeconds(r.Visibility)), '}')
}

// wholeSeconds is d in seconds, and at least one of them unless it is 0.
func wholeSeconds(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}

// AppendDeregistered appends the answer to a farewell (contract §3.12).
func AppendDeregistered(dst []byte, id string, released []job.ID) []byte {
	b := flag(append(dst, '{'), "ok", true)
	b = flag(b, "deregistered", true)
	b = str(b, "worker_id", id)
	return append(ids(b, "released_jobs", released), '}')
}

// AppendWorkers appends a page of all workers (contract §3.12).
func AppendWorkers(dst []byte, ws []job.WorkerInfo, p Paging) []byte {
	total := len(ws)
	ws = ws[min(p.Offset, total):]
	ws = ws[:min(p.Limit, len(ws))]
	b := append(dst, `{"workers":`...)
	from := len(b)
	b = append(b, '[')
	for i, w := range ws {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendWorker(append(b, '{'), w), '}')
	}
	b = append(b, ']')
	if p.Items {
		b = again(b, "items", from, len(b))
	}
	return append(pages(b, p, int64(total), p.Offset+len(ws) < total, ""), '}')
}

// AppendWorker appends the answer about one worker: the worker under "worker",
// and its members flat beside it.
func AppendWorker(dst []byte, w job.WorkerInfo) []byte {
	b := append(dst, `{"worker":{`...)
	from := len(b)
	b = appendWorker(b, w)
	to := len(b)
	b = append(b, '}', ',')
	return append(append(b, b[from:to]...), '}')
}

// condition of a worker: what it says of itself, unless it says nothing any more.
func stateOf(w job.WorkerInfo) string {
	switch {
	case w.Stale:
		return "stale"
	case w.State == "":
		return "running"
	}
	return w.State
}

// appendWorker appends the members of a worker (contract §3.12, §3.23).
func appendWorker(b []byte, w job.WorkerInfo) []byte {
	b = str(b, "id", w.ID)
	b = str(b, "worker_id", w.ID)
	b = str(b, "state", stateOf(w))
	b = someText(b, "reported_state", w.State)
	b = someText(b, "directive", w.Directive)
	b = flag(b, "stale", w.Stale)
	b = someText(b, "hostname", w.Hostname)
	if w.PID > 0 {
		b = num(b, "pid", int64(w.PID))
	}
	b = array(b, "queues", len(w.Queues), func(b []byte, i int) []byte { return rawjson.AppendString(b, w.Queues[i]) })
	b = num(b, "concurrency", int64(w.Concurrency))
	b = num(b, "active_jobs", int64(w.Active))
	b = someMap(b, "labels", w.Labels)
	b = someText(b, "version", w.Version)
	b = at(b, "started_at", w.StartedAt)
	b = at(b, "last_heartbeat", w.BeatAt)
	return at(b, "last_heartbeat_at", w.BeatAt)
}

// AppendWorkerHealth appends how a worker is (contract §3.12).
func AppendWorkerHealth(dst []byte, w job.WorkerInfo) []byte {
	b := str(append(dst, '{'), "worker_id", w.ID)
	b = str(b, "state", stateOf(w))
	b = num(b, "active_jobs", int64(w.Active))
	return append(at(b, "last_heartbeat_at", w.BeatAt), '}')
}

// DeregisterBody is the body of a worker's farewell.
func DeregisterBody(id string) []byte { return append(str(begin(), "worker_id", id), '}') }

// ReadRegistration reads the answer to a registration.
func ReadRegistration(body []byte) (job.Registration, error) {
	var r struct {
		Time       time.Time `json:"server_time"`
		Heartbeat  int64     `json:"heartbeat_interval"`
		Silence    int64     `json:"heartbeat_timeout"`
		Visibility int64     `json:"visibility_timeout_default"`
	}
	err := read(body, &r)
	return job.Registration{Time: r.Time, Heartbeat: time.Duration(r.Heartbeat) * time.Second,
		Silence: time.Duration(r.Silence) * time.Second, Visibility: time.Duration(r.Visibility) * time.Second}, err
}

// ReadReleased reads the answer to a farewell: the jobs that were given back.
func ReadReleased(body []byte) ([]job.ID, error) {
	var r struct {
		Released []job.ID `json:"released_jobs"`
	}
	err := read(body, &r)
	return r.Released, err
}

// workerObject is a worker in a list and alone.
type workerObject struct {
	ID          string            `json:"id"`
	State       string            `json:"reported_state"`
	Directive   string            `json:"directive"`
	Stale       bool              `json:"stale"`
	Hostname    string            `json:"hostname"`
	PID         int               `json:"pid"`
	Queues      []string          `json:"queues"`
	Concurrency int               `json:"concurrency"`
	Active      int               `json:"active_jobs"`
	Labels      map[string]string `json:"labels"`
	Version     string            `json:"version"`
	StartedAt   time.Time         `json:"started_at"`
	BeatAt      time.Time         `json:"last_heartbeat_at"`
}

func (o workerObject) info() job.WorkerInfo {
	w := job.WorkerInfo{ID: o.ID, State: o.State, Directive: o.Directive, Stale: o.Stale, Hostname: o.Hostname, PID: o.PID,
		Queues: o.Queues, Concurrency: o.Concurrency, Active: o.Active, Labels: o.Labels, Version: o.Version,
		StartedAt: o.StartedAt, BeatAt: o.BeatAt}
	if len(w.Queues) == 0 {
		w.Queues = nil
	}
	return w
}

// ReadWorker reads the answer about one worker.
func ReadWorker(body []byte) (job.WorkerInfo, error) {
	var r struct {
		Worker workerObject `json:"worker"`
	}
	err := read(body, &r)
	return r.Worker.info(), err
}

// ReadWorkers reads a page of workers, and says whether there are more.
func ReadWorkers(body []byte) (ws []job.WorkerInfo, more bool, err error) {
	var r struct {
		Workers []workerObject `json:"workers"`
		Pages   pagination     `json:"pagination"`
	}
	if err := read(body, &r); err != nil {
		return nil, false, err
	}
	for _, o := range r.Workers {
		ws = append(ws, o.info())
	}
	return ws, r.Pages.More, nil
}
