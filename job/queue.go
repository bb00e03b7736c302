package job

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// TemplateQueue is the name under which the configuration of all queues is kept
// that have none of their own (contract §3.13). No job can name it.
const TemplateQueue = "_default"

// The conditions of a queue (contract §3.13).
const (
	QueueActive   = "active"
	QueuePaused   = "paused"   // no job of it is claimed; PUSH goes on (contract C-14)
	QueueDraining = "draining" // PUSH is refused; what is in it is claimed
)

// The strategies of a queue that is full (contract §4.13).
const (
	OverflowReject     = "reject"
	OverflowBlock      = "block"
	OverflowDropOldest = "drop_oldest"
)

// QueueSettings is what has been set of a queue by those who run it. Settings that
// a store has handed out are shared, and must not be changed.
type QueueSettings struct {
	Name   string
	Status string      // QueueActive, QueuePaused or QueueDraining; empty is active
	Since  time.Time   // when Status was set last
	By     string      // who set it, where that was told
	Config QueueConfig // its own; see [QueueSettings.Under]
}

// Paused reports whether no job of the queue is claimed. A nil is nothing set.
func (s *QueueSettings) Paused() bool { return s != nil && s.Status == QueuePaused }

// Draining reports whether PUSH to the queue is refused.
func (s *QueueSettings) Draining() bool { return s != nil && s.Status == QueueDraining }

// Effective is the configuration that holds, the zero value where nothing is set.
func (s *QueueSettings) Effective() *QueueConfig {
	if s == nil {
		return &noConfig
	}
	return &s.Config
}

var noConfig QueueConfig

// Under is s with what its own configuration leaves open taken from a template.
// Either may be nil; the result shares with both.
func (s *QueueSettings) Under(template *QueueSettings) *QueueSettings {
	switch {
	case template == nil:
		return s
	case s == nil:
		return &QueueSettings{Config: template.Config}
	}
	over := *s
	over.Config = s.Config.over(template.Config)
	return &over
}

// QueueConfig is the configuration of a queue (contract §3.13). What is zero is left
// to the template, and then to the server.
type QueueConfig struct {
	Raw json.RawMessage // a JSON object: all as it came, with the members that are not known

	Concurrency    int   // active at once
	RateLimit      Quota // sliding window of claims
	Throttle       Quota // evenly spaced claims
	Retention      QueueRetention
	DefaultRetry   json.RawMessage // under the policy of a job that leaves a member open (ojs-retry.md §8.1)
	DefaultTimeout time.Duration   // of jobs that name none (contract §4.7)
	Visibility     time.Duration   // of jobs and FETCHes that name none (contract §4.6)
	Backpressure   Backpressure

	pools       []Pool      // of PoolsQueue
	maintenance Maintenance // of MaintenanceQueue
}

// QueueRetention is how long finished jobs of a queue stay. A nil is left open; 0
// removes at once.
type QueueRetention struct{ Completed, Discarded, Cancelled *time.Duration }

// Of is the retention of jobs that have ended in a state, nil where it is left open.
func (r QueueRetention) Of(s State) *time.Duration {
	switch s {
	case Completed:
		return r.Completed
	case Cancelled:
		return r.Cancelled
	case Discarded:
		return r.Discarded
	}
	return nil
}

// Same reports whether two retentions say the same.
func (r QueueRetention) Same(other QueueRetention) bool {
	for _, s := range States {
		a, b := r.Of(s), other.Of(s)
		if (a == nil) != (b == nil) || a != nil && *a != *b {
			return false
		}
	}
	return true
}

// Backpressure bounds the jobs of a queue that have not ended (contract §4.13).
type Backpressure struct {
	MaxDepth int64   // 0: there is no bound
	Strategy string  // OverflowReject, OverflowBlock or OverflowDropOldest; empty is reject
	Warning  float64 // the part of MaxDepth from which on a PUSH is warned; 0 is DefaultWarning
}

// DefaultWarning is the part of its bound from which on a queue is nearly full.
const DefaultWarning = 0.8

// Threshold is the part of the bound from which on a PUSH is warned.
func (b Backpressure) Threshold() float64 { return cmp.Or(b.Warning, DefaultWarning) }

// over is c with what it leaves open taken from a template, member by member.
func (c QueueConfig) over(template QueueConfig) QueueConfig {
	c.Concurrency = cmp.Or(c.Concurrency, template.Concurrency)
	c.RateLimit = cmp.Or(c.RateLimit, template.RateLimit)
	c.Throttle = cmp.Or(c.Throttle, template.Throttle)
	c.Retention.Completed = cmp.Or(c.Retention.Completed, template.Retention.Completed)
	c.Retention.Discarded = cmp.Or(c.Retention.Discarded, template.Retention.Discarded)
	c.Retention.Cancelled = cmp.Or(c.Retention.Cancelled, template.Retention.Cancelled)
	if c.DefaultRetry == nil {
		c.DefaultRetry = template.DefaultRetry
	}
	c.DefaultTimeout = cmp.Or(c.DefaultTimeout, template.DefaultTimeout)
	c.Visibility = cmp.Or(c.Visibility, template.Visibility)
	c.Backpressure.MaxDepth = cmp.Or(c.Backpressure.MaxDepth, template.Backpressure.MaxDepth)
	c.Backpressure.Strategy = cmp.Or(c.Backpressure.Strategy, template.Backpressure.Strategy)
	c.Backpressure.Warning = cmp.Or(c.Backpressure.Warning, template.Backpressure.Warning)
	return c
}

// Patched is the configuration c after another one: its members in place of those of
// the same name, those that are null taken away, and all others as they are.
func (c QueueConfig) Patched(patch json.RawMessage) (QueueConfig, error) {
	if _, err := ParseQueueConfig(patch); err != nil {
		return c, err
	}
	said := map[string]bool{}
	o := rawjson.Object(nil)
	err := Members(patch, func(name string, v json.RawMessage) error {
		if said[name] = true; string(v) != "null" {
			o.Quoted(name, v)
		}
		return nil
	})
	if err == nil && c.Raw != nil {
		err = Members(c.Raw, func(name string, v json.RawMessage) error {
			if !said[name] {
				o.Quoted(name, v)
			}
			return nil
		})
	}
	if err != nil {
		return c, err
	}
	return ParseQueueConfig(json.RawMessage(o.Close()))
}

// Info is what a store keeps of settings, beside their name.
func (s *QueueSettings) Info() []byte {
	o := rawjson.Object(nil)
	o.Optional("status", s.Status)
	if !s.Since.IsZero() {
		o.Time("since", s.Since)
	}
	o.Optional("by", s.By)
	o.Raw("config", s.Config.Raw)
	return o.Close()
}

// ParseQueueSettings reads what Info wrote. A configuration that this server does not
// take, because another one wrote it, is kept and means nothing; err says so.
func ParseQueueSettings(name string, info []byte) (s *QueueSettings, err error) {
	var v struct {
		Status string          `json:"status"`
		Since  time.Time       `json:"since"`
		By     string          `json:"by"`
		Config json.RawMessage `json:"config"`
	}
	if err := json.Unmarshal(info, &v); err != nil {
		return nil, Errorf(Unavailable, "what is set of the queue %q cannot be read: %w", name, err)
	}
	s = &QueueSettings{Name: name, Status: v.Status, Since: v.Since, By: v.By}
	if name == PoolsQueue {
		s.Config.Raw = v.Config
		if s.Config.pools, err = parsePools(v.Config); err != nil {
			err = Errorf(Unavailable, "the pools are not such as this server takes: %w", err)
		}
		return s, err
	}
	if name == MaintenanceQueue {
		s.Config.Raw = v.Config
		s.Config.maintenance, err = parseMaintenance(v.Config)
		return s, err
	}
	if s.Config, err = ParseQueueConfig(v.Config); err != nil {
		s.Config = QueueConfig{Raw: v.Config}
		err = Errorf(Unavailable, "the configuration of the queue %q is not one that this server takes: %w", name, err)
	}
	return s, err
}
