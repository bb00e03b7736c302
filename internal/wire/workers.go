package wire

import (
	"cmp"
	"encoding/json"
	"strings"
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
func AppendRegistered(dst []byte, w job.WorkerInfo, r job.Registration) []byte {
	b := rawjson.Object(dst)
	b.Bool("ok", true)
	b.Str("worker_id", w.ID)
	b.Time("server_time", r.Time)
	b.Int("heartbeat_interval", wholeSeconds(r.Heartbeat))
	b.Int("heartbeat_timeout", wholeSeconds(r.Silence))
	b.Int("visibility_timeout_default", wholeSeconds(r.Visibility))
	return b.Close()
}

// wholeSeconds is d in seconds, rounded up.
func wholeSeconds(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}

// AppendDeregistered appends the answer to a farewell (contract §3.12).
func AppendDeregistered(dst []byte, id string, released []job.ID) []byte {
	b := rawjson.Object(dst)
	b.Bool("ok", true).Bool("deregistered", true).Str("worker_id", id)
	rawjson.Strings(&b, "released_jobs", released)
	return b.Close()
}

// AppendWorkers appends a page of all workers (contract §3.12).
func AppendWorkers(dst []byte, ws []job.WorkerInfo, p Paging) []byte {
	ws, l := byName(ws, p, func(w job.WorkerInfo) string { return w.ID })
	b := rawjson.Object(dst)
	return endList(&b, p, objects(&b, "workers", ws, appendWorker), l)
}

// AppendWorker appends the answer about one worker: the worker under "worker",
// and its members flat beside it.
func AppendWorker(dst []byte, w job.WorkerInfo) []byte {
	b := rawjson.Object(dst)
	b.Object("worker")
	from := len(b) - 1
	appendWorker(&b, w)
	b.End()
	b.Splice(b[from:])
	return b.Close()
}

// going is the directive to a worker whom no operator wishes anything else.
const going = "running"

// stateOf is what a worker says of itself, or stale if it is silent.
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
func appendWorker(b *rawjson.Writer, w job.WorkerInfo) {
	b.Str("id", w.ID)
	b.Str("worker_id", w.ID)
	b.Str("state", stateOf(w))
	b.Optional("reported_state", w.State)
	b.Str("directive", cmp.Or(w.Directive, going))
	b.Bool("stale", w.Stale)
	b.Optional("hostname", w.Hostname)
	someInt(b, "pid", w.PID)
	rawjson.Strings(b, "queues", w.Queues)
	b.Int("concurrency", int64(w.Concurrency)).Int("active_jobs", int64(w.Active))
	appendLabels(b, w)
	b.Optional("version", w.Version)
	b.Time("started_at", w.StartedAt)
	b.Time("last_heartbeat", w.BeatAt)
	b.Time("last_heartbeat_at", w.BeatAt)
}

// appendLabels appends the labels of a worker as it gives them.
func appendLabels(b *rawjson.Writer, w job.WorkerInfo) {
	if len(w.LabelList) > 0 {
		rawjson.Strings(b, "labels", w.LabelList)
		return
	}
	someMap(b, "labels", w.Labels)
}

// AppendWorkerHealth appends how a worker is (contract §3.12).
func AppendWorkerHealth(dst []byte, w job.WorkerInfo) []byte {
	b := rawjson.Object(dst)
	b.Str("worker_id", w.ID)
	b.Str("state", stateOf(w))
	b.Int("active_jobs", int64(w.Active))
	b.Time("last_heartbeat_at", w.BeatAt)
	return b.Close()
}

// DeregisterBody is the body of a worker's farewell.
func DeregisterBody(id string) []byte {
	b := begin()
	return b.Str("worker_id", id).Close()
}

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

// workerObject is a [job.WorkerInfo] as answers hold it.
type workerObject struct {
	ID          string       `json:"id"`
	Hostname    string       `json:"hostname"`
	PID         int          `json:"pid"`
	Queues      []string     `json:"queues"`
	Concurrency int          `json:"concurrency"`
	Labels      labelsObject `json:"labels"`
	Version     string       `json:"version"`
	State       string       `json:"reported_state"`
	Directive   string       `json:"directive"`
	Active      int          `json:"active_jobs"`
	Stale       bool         `json:"stale"`
	StartedAt   time.Time    `json:"started_at"`
	BeatAt      time.Time    `json:"last_heartbeat_at"`
}

func (o workerObject) info() job.WorkerInfo {
	if len(o.Queues) == 0 {
		o.Queues = nil
	}
	return job.WorkerInfo{ID: o.ID, Hostname: o.Hostname, PID: o.PID, Queues: o.Queues, Concurrency: o.Concurrency, Labels: o.Labels.named, LabelList: o.Labels.list,
		Version: o.Version, State: o.State, Directive: strings.TrimSuffix(o.Directive, going), Active: o.Active, Stale: o.Stale, StartedAt: o.StartedAt, BeatAt: o.BeatAt}
}

// labelsObject are labels by their names, or a list of them.
type labelsObject struct {
	named map[string]string
	list  []string
}

func (l *labelsObject) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '[' {
		return json.Unmarshal(raw, &l.list)
	}
	return json.Unmarshal(raw, &l.named)
}

// ReadWorker reads the answer about one worker.
func ReadWorker(body []byte) (job.WorkerInfo, error) {
	var r struct {
		Worker workerObject `json:"worker"`
	}
	err := read(body, &r)
	return r.Worker.info(), err
}

// ReadWorkers reads a page of workers, and what comes behind it.
func ReadWorkers(body []byte) (ws []job.WorkerInfo, rest Rest, err error) {
	var r struct {
		Workers []workerObject `json:"workers"`
		Pages   pagination     `json:"pagination"`
	}
	if err := read(body, &r); err != nil {
		return nil, rest, err
	}
	for _, o := range r.Workers {
		ws = append(ws, o.info())
	}
	return ws, r.Pages.Rest, nil
}

// DecodeDirective reads the body of a directive to all workers (contract §3.23). The
// service decides what it may be.
func DecodeDirective(raw []byte) (wish string, err error) {
	err = object(raw, "", func(member string, v json.RawMessage) (err error) {
		if member == "directive" {
			wish, err = name(v, member)
		}
		return err
	})
	return wish, err
}

// AppendDirected appends the answer to a directive to all workers.
func AppendDirected(dst []byte, wish string, n int) []byte {
	b := rawjson.Object(dst)
	return b.Bool("ok", true).Str("directive", wish).Int("workers", int64(n)).Close()
}

// DirectiveBody is the body of a directive to all workers.
func DirectiveBody(wish string) []byte {
	b := begin()
	return b.Str("directive", wish).Close()
}

// ReadDirected reads the answer to a directive to all workers: how many they are.
func ReadDirected(body []byte) (int, error) {
	var r struct {
		Workers int `json:"workers"`
	}
	err := read(body, &r)
	return r.Workers, err
}
