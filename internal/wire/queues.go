package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// What travels about queues (contract §3.13, and the rows of §3.23 that are about them).

// MaxAskBytes bounds the body of a request about one queue or one job.
const MaxAskBytes = 256 << 10

// optional is object for a body that may be empty.
func optional(raw []byte, fn func(name string, v json.RawMessage) error) error {
	if len(raw) == 0 {
		return nil
	}
	return object(raw, "", fn)
}

// DecodeBy reads the body of a request that pauses, drains or resumes a queue, which may
// be empty: who asks.
func DecodeBy(raw []byte) (by string, err error) {
	err = optional(raw, func(member string, v json.RawMessage) (err error) {
		if member == "by" || member == "paused_by" {
			by, err = name(v, member)
		}
		return err
	})
	return by, err
}

// ByBody is the body of a request that gives a queue a condition, nil where nobody is named.
func ByBody(by string) []byte {
	if by == "" {
		return nil
	}
	b := begin()
	return b.Str("by", by).Close()
}

// ConfigBody is the body that sets a configuration.
func ConfigBody(config json.RawMessage) []byte {
	b := begin()
	return b.Raw("config", config).Close()
}

// NewQueue is a queue that is to be made.
type NewQueue struct {
	Name   string
	Config json.RawMessage // nil where nothing is to be set
	By     string          // who asks
}

// DecodeNewQueue reads the body of POST /ojs/v1/queues. Members of the configuration
// may stand in config, or beside the name.
func DecodeNewQueue(raw []byte) (q NewQueue, err error) {
	beside := rawjson.Object(nil)
	some := false
	err = object(raw, "", func(member string, v json.RawMessage) (err error) {
		switch member {
		case "name":
			q.Name, err = name(v, member)
		case "by":
			q.By, err = name(v, member)
		case "config", "configuration":
			q.Config = v
		case "concurrency", "max_size", "overflow_policy", "rate_limit", "throttle", "retention", "visibility_timeout", "default_timeout", "default_retry", "backpressure":
			some = true
			beside.Raw(member, v)
		}
		return err
	})
	switch {
	case err != nil:
		return q, err
	case q.Name == "":
		return q, refuse("name", "is required: the name of the queue")
	case q.Config != nil && q.Config[0] != '{':
		return q, refuse("config", "must be an object"+got(q.Config))
	case q.Config == nil && some:
		q.Config = json.RawMessage(beside.Close())
	case some:
		c, err := job.QueueConfig{Raw: json.RawMessage(beside.Close())}.Patched(q.Config)
		if err != nil {
			return q, err
		}
		q.Config = c.Raw
	}
	return q, nil
}

// NewQueueBody is the body of POST /ojs/v1/queues.
func NewQueueBody(q NewQueue) []byte {
	b := begin()
	return b.Str("name", q.Name).Raw("config", q.Config).Optional("by", q.By).Close()
}

// DecodeConfig reads the body that sets a configuration: its members at the top level, or
// under config or configuration as an answer has them.
func DecodeConfig(raw []byte) (json.RawMessage, error) {
	if err := job.CheckJSON(raw); err != nil {
		return nil, err
	}
	all, n := map[string]json.RawMessage{}, 0
	if err := job.Members(raw, func(name string, v json.RawMessage) error {
		all[name] = v
		n++
		return nil
	}); err != nil {
		return nil, err
	}
	inner := all["config"]
	if inner == nil {
		inner = all["configuration"]
	}
	for name := range all {
		if name != "config" && name != "configuration" && name != "name" {
			inner = nil // it is a configuration that has a member of that name
		}
	}
	if inner != nil && inner[0] == '{' {
		return inner, nil
	}
	return raw, nil
}

// AppendConfig appends the configuration of a queue.
func AppendConfig(dst []byte, name string, c job.QueueConfig) []byte {
	raw := c.Raw
	if raw == nil {
		raw = json.RawMessage("{}")
	}
	b := rawjson.Object(dst)
	return b.Str("name", name).Raw("config", raw).Raw("configuration", raw).Close()
}

// ReadConfig reads the configuration of a queue.
func ReadConfig(body []byte) (job.QueueConfig, error) {
	var r struct {
		Config json.RawMessage `json:"config"`
	}
	if err := read(body, &r); err != nil {
		return job.QueueConfig{}, err
	}
	if string(r.Config) == "{}" {
		return job.QueueConfig{}, nil
	}
	c, err := job.ParseQueueConfig(r.Config)
	if err != nil {
		return c, unread(err)
	}
	return c, nil
}

// DecodeQueueDeletion reads the body and the query of a deletion; the body wins.
func DecodeQueueDeletion(raw []byte, q url.Values) (d job.QueueDeletion, err error) {
	d = job.QueueDeletion{Strategy: q.Get("strategy"), Target: q.Get("target_queue"), By: q.Get("by")}
	if q.Get("force") == "true" && d.Strategy == "" {
		d.Strategy = job.DeleteDiscard
	}
	err = optional(raw, func(member string, v json.RawMessage) (err error) {
		switch member {
		case "strategy":
			d.Strategy, err = name(v, member)
		case "target_queue":
			d.Target, err = name(v, member)
		case "by":
			d.By, err = name(v, member)
		case "force":
			force := false
			if force, err = boolean(v, member); force && d.Strategy == "" {
				d.Strategy = job.DeleteDiscard
			}
		}
		return err
	})
	return d, err
}

// QueueDeletionBody is the body of a deletion.
func QueueDeletionBody(d job.QueueDeletion) []byte {
	b := begin()
	return b.Optional("strategy", d.Strategy).Optional("target_queue", d.Target).Optional("by", d.By).Close()
}

// AppendQueueDeleted appends the answer to a deletion; n is how many jobs had not ended.
func AppendQueueDeleted(dst []byte, name string, n int64) []byte {
	b := rawjson.Object(dst)
	return b.Bool("deleted", true).Str("name", name).Int("jobs", n).Int("total", n).Close()
}

// DecodePurgeQueue reads the body of a purge. With confirm it must say confirm:true,
// unless it only counts.
func DecodePurgeQueue(raw []byte, confirm bool, now time.Time) (p job.Purge, err error) {
	confirmed := false
	err = object(raw, "", func(member string, v json.RawMessage) (err error) {
		switch member {
		case "states", "state":
			p.States, err = stateList(v, member)
		case "older_than":
			p.Before, err = age(v, member, now)
		case "dry_run":
			p.DryRun, err = boolean(v, member)
		case "confirm":
			confirmed, err = boolean(v, member)
		default:
			err = refuse(short(member), "is not known; a purge has states, older_than, dry_run and confirm")
		}
		return err
	})
	if err == nil && confirm && !confirmed && !p.DryRun {
		err = refuse("confirm", "must be true: the jobs are removed for good; dry_run:true only counts them")
	}
	if err == nil {
		err = p.Validate()
	}
	return p, err
}

// PurgeQueueBody is the body of a purge.
func PurgeQueueBody(p job.Purge) []byte {
	b := begin()
	rawjson.Strings(&b, "states", p.States)
	if !p.Before.IsZero() {
		b.Time("older_than", p.Before)
	}
	if p.DryRun {
		b.Bool("dry_run", true)
	}
	return b.Close()
}

// AppendPurgedQueue appends the answer to a purge.
func AppendPurgedQueue(dst []byte, p job.Purge, n int64) []byte {
	b := rawjson.Object(dst)
	if p.DryRun {
		b.Int("deleted", 0).Int("purged_count", 0).Int("would_delete", n).Bool("dry_run", true)
	} else {
		b.Int("deleted", n).Int("purged_count", n)
	}
	b.Int("total", n)
	rawjson.Strings(&b, "states", p.States)
	return b.Close()
}

// stateList is a state, or an array of states.
func stateList(v json.RawMessage, field string) (all []job.State, err error) {
	var list []string
	if v[0] == '"' {
		s, err := text(v, field)
		if err != nil {
			return nil, err
		}
		list = []string{s}
	} else if list, err = names(v, field, len(job.States)*4); err != nil {
		return nil, err
	}
	for _, s := range list {
		if !slices.Contains(job.States, job.State(s)) {
			return nil, refuse(field, "must be states of a job, got "+strconv.Quote(short(s)))
		}
		if !slices.Contains(all, job.State(s)) {
			all = append(all, job.State(s))
		}
	}
	return all, nil
}

// age is a number of seconds, or a text as ageText reads it: the instant so long
// before now.
func age(v json.RawMessage, field string, now time.Time) (time.Time, error) {
	if v[0] != '"' {
		d, err := pause(v, field)
		return now.Add(-d), err
	}
	s, err := text(v, field)
	if err != nil {
		return time.Time{}, err
	}
	if d, ok := job.ParseSpan(s); ok {
		return now.Add(-d), nil
	}
	t, err := job.ParseTime(s)
	if err != nil {
		return time.Time{}, refuse(field, "must be an age such as 7d, 24h or P7D, or an RFC 3339 time with a zone"+got(v))
	}
	return t, nil
}

// AppendQueueStatus appends the answer to a request that pauses, drains or resumes a
// queue (contract §3.13): "queue" is an object for Bare and a name for others. An
// administrator's answer is flat (§3.23).
func AppendQueueStatus(dst []byte, q job.Queue, p Profile, admin bool) []byte {
	b := rawjson.Object(dst)
	switch {
	case admin:
	case p == Bare:
		b.Object("queue").Str("name", q.Name).Bool("paused", q.Paused).Str("status", status(q)).End()
	default:
		b.Str("queue", q.Name)
	}
	b.Str("name", q.Name).Str("status", status(q)).Bool("paused", q.Paused)
	since(&b, q)
	return b.Close()
}

// since appends when the condition of a queue was set, and by whom.
func since(b *rawjson.Writer, q job.Queue) {
	if q.Since.IsZero() {
		return
	}
	b.Time(map[string]string{job.QueuePaused: "paused_at", job.QueueDraining: "draining_at", job.QueueActive: "resumed_at"}[status(q)], q.Since)
	b.Optional("by", q.By)
}

// ReadQueueStatus reads the answer about the condition of a queue.
func ReadQueueStatus(body []byte) (q job.Queue, err error) {
	var r struct {
		queueSince
		Name   string `json:"name"`
		Status string `json:"status"`
	}
	err = read(body, &r)
	q = job.Queue{Name: r.Name, Paused: r.Status == job.QueuePaused, Draining: r.Status == job.QueueDraining}
	r.set(&q)
	return q, err
}

// queueSince is what since writes.
type queueSince struct {
	By       string    `json:"by"`
	Paused   time.Time `json:"paused_at"`
	Draining time.Time `json:"draining_at"`
	Resumed  time.Time `json:"resumed_at"`
}

func (s queueSince) set(q *job.Queue) {
	q.By = s.By
	for _, at := range []time.Time{s.Paused, s.Draining, s.Resumed} {
		if !at.IsZero() {
			q.Since = at
		}
	}
}

// AppendPriorities appends how many available jobs there are of each priority, the
// highest first.
func AppendPriorities(dst []byte, queue string, counts map[int]int64) []byte {
	var order []int
	total := int64(0)
	for p, n := range counts {
		order = append(order, p)
		total += n
	}
	slices.SortFunc(order, func(a, b int) int { return b - a })
	b := rawjson.Object(dst)
	b.Str("queue", queue)
	objects(&b, "distribution", order, func(b *rawjson.Writer, p int) { b.Int("priority", int64(p)).Int("count", counts[p]) })
	b.Object("counts_by_priority")
	for _, p := range order {
		b.Int(strconv.Itoa(p), counts[p])
	}
	return b.End().Int("total", total).Close()
}

// ReadPriorities reads how many jobs there are of each priority.
func ReadPriorities(body []byte) (map[int]int64, error) {
	var r struct {
		Distribution []struct {
			Priority int   `json:"priority"`
			Count    int64 `json:"count"`
		} `json:"distribution"`
	}
	err := read(body, &r)
	counts := map[int]int64{}
	for _, d := range r.Distribution {
		counts[d.Priority] = d.Count
	}
	return counts, err
}

// DecodePriority reads the body of a change of priority (contract §3.7).
func DecodePriority(raw []byte) (int, error) {
	var n int64
	given := false
	err := object(raw, "", func(member string, v json.RawMessage) error {
		if member != "priority" {
			return refuse(short(member), "cannot be changed; of a job that is stored only its priority can")
		}
		var ok bool
		given = true
		if n, ok = rawjson.Integer(v); !ok || n < job.MinPriority || n > job.MaxPriority {
			return refuse(member, "must be an integer from -100 to 100"+got(v))
		}
		return nil
	})
	if err == nil && !given {
		err = refuse("priority", "is required: an integer from -100 to 100")
	}
	return int(n), err
}

// PriorityBody is the body of a change of priority.
func PriorityBody(n int) []byte {
	b := begin()
	return b.Int("priority", int64(n)).Close()
}

// DecodeBlock reads the header that says how long a PUSH may wait for room: seconds, or a
// length as ParseSpan reads it.
func DecodeBlock(s string) (time.Duration, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil && f >= 0 && f <= job.MaxDuration.Seconds() {
		return job.Seconds(f), nil
	}
	if d, ok := job.ParseSpan(s); ok {
		return d, nil
	}
	return 0, refuse("OJS-Block-Timeout", "must be a number of seconds, or an ISO 8601 duration such as PT5S, got "+strconv.Quote(short(s)))
}

// Shown are the places of the reports that are on a page of them.
func Shown(rs []job.QueueReport, p Paging) (places []int) {
	all := make([]int, len(rs))
	for i := range all {
		all[i] = i
	}
	places, _ = byName(all, p, func(i int) string { return rs[i].Name })
	return places
}

// Digest tells a request from all others.
func Digest(path string, body []byte) string {
	h := sha256.New()
	h.Write([]byte(path + "\x00"))
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}
