package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

func queuePath(name string) string { return "/queues/" + url.PathEscape(name) }

// verbs are the paths under which a queue is given a condition.
var verbs = map[string]string{job.QueuePaused: "pause", job.QueueActive: "resume", job.QueueDraining: "drain"}

// SetQueueStatus pauses, drains or resumes a queue; see [job.QueueService].
func (c *Client) SetQueueStatus(ctx context.Context, name, status, by string) (job.Queue, error) {
	if err := job.CheckQueueName(name); err != nil {
		return job.Queue{}, err
	}
	var none *job.QueueSettings
	if _, _, err := none.Turn(name, status, by, time.Time{}); err != nil {
		return job.Queue{}, err
	}
	if _, err := ask(ctx, c, post(queuePath(name)+"/"+verbs[status], wire.ByBody(by)), wire.ReadQueueStatus); err != nil {
		return job.Queue{}, err
	}
	return c.Queue(ctx, name)
}

// CreateQueue makes a queue; see [job.QueueService].
func (c *Client) CreateQueue(ctx context.Context, name string, config json.RawMessage, by string) (job.Queue, error) {
	if err := job.CheckQueueName(name); err != nil {
		return job.Queue{}, err
	}
	if config != nil {
		if err := job.CheckJSON(config); err != nil {
			return job.Queue{}, err
		}
	}
	return ask(ctx, c, post("/queues", wire.NewQueueBody(wire.NewQueue{Name: name, Config: config, By: by})), wire.ReadQueue)
}

// DeleteQueue removes a queue; see [job.QueueService]. After an error it is not known
// how many jobs it was about.
func (c *Client) DeleteQueue(ctx context.Context, name string, d job.QueueDeletion) (int64, error) {
	if err := d.Validate(name); err != nil {
		return 0, err
	}
	r := remove(queuePath(name))
	r.body = wire.QueueDeletionBody(d)
	return ask(ctx, c, r.unless(inPath("queue", name)), wire.ReadCount)
}

// PurgeQueue removes finished jobs of a queue; see [job.QueueService]. After an error it
// is not known how many were removed.
func (c *Client) PurgeQueue(ctx context.Context, name string, p job.Purge) (int64, error) {
	if err := p.Validate(); err != nil {
		return 0, err
	}
	return ask(ctx, c, post(queuePath(name)+"/purge", wire.PurgeQueueBody(p)).unless(inPath("queue", name)), wire.ReadCount)
}

// QueueConfig reads a configuration; see [job.QueueService].
func (c *Client) QueueConfig(ctx context.Context, name string) (job.QueueConfig, error) {
	if err := job.CheckConfigured(name); err != nil {
		return job.QueueConfig{}, err
	}
	return ask(ctx, c, get(queuePath(name)+"/config"), wire.ReadConfig)
}

// SetQueueConfig sets a configuration; see [job.QueueService].
func (c *Client) SetQueueConfig(ctx context.Context, name string, config json.RawMessage, patch bool) (job.QueueConfig, error) {
	if err := job.CheckConfigured(name); err != nil {
		return job.QueueConfig{}, err
	}
	if config == nil {
		config = json.RawMessage("{}")
	}
	if err := job.CheckJSON(config); err != nil {
		return job.QueueConfig{}, err
	}
	r := call{method: http.MethodPut, path: queuePath(name) + "/config", body: wire.ConfigBody(config)}
	if patch {
		r.method = http.MethodPatch
	}
	return ask(ctx, c, r, wire.ReadConfig)
}

// QueueStats reads what happened in a queue; see [job.QueueService]. Rates have three
// decimals, and of all queues together the counters alone are read.
func (c *Client) QueueStats(ctx context.Context, name string) (job.QueueReport, error) {
	if name == "" {
		return ask(ctx, c, get("/admin/stats"), wire.ReadOverview)
	}
	return ask(ctx, c, get(queuePath(name)+"/stats"), wire.ReadQueueStats)
}

// Slots reads the tallies of a queue; see [job.QueueService].
func (c *Client) Slots(ctx context.Context, queue string, from time.Time) ([]job.Slot, error) {
	if from.IsZero() {
		from = time.UnixMilli(0).UTC()
	}
	return ask(ctx, c, get("/admin/stats/history?"+wire.StatsHistoryQuery(queue, from).Encode()), wire.ReadSlots)
}

// Priorities counts the available jobs of a queue by their priority; see [job.QueueService].
func (c *Client) Priorities(ctx context.Context, queue string) (map[int]int64, error) {
	return ask(ctx, c, get(queuePath(queue)+"/priority-stats"), wire.ReadPriorities)
}

// Reprioritize changes the priority of a job; see [job.QueueService].
func (c *Client) Reprioritize(ctx context.Context, id job.ID, priority int) (job.Change, error) {
	r := call{method: http.MethodPatch, path: jobPath("/jobs", id), body: wire.PriorityBody(priority)}
	return ask(ctx, c, r.unless(noJob(id)), wire.ReadChange)
}

// PushEach stores many jobs; see [job.BulkService]. The digest of the request is the server's.
func (c *Client) PushEach(ctx context.Context, p job.BulkPush) (job.BulkResult, error) {
	return c.bulk(ctx, post("/jobs/bulk", wire.BulkPushBody(p)))
}

// Bulk does one thing to many jobs; see [job.BulkService]. The digest of the request is
// the server's.
func (c *Client) Bulk(ctx context.Context, a job.BulkAct) (job.BulkResult, error) {
	if err := a.Validate(); err != nil {
		return job.BulkResult{}, err
	}
	return c.bulk(ctx, post("/jobs/bulk/"+a.Action, wire.BulkActBody(a)))
}

// bulk asks about many jobs: an answer that none of them was stored is one, too.
func (c *Client) bulk(ctx context.Context, r call) (job.BulkResult, error) {
	status, body, err := c.send(ctx, r)
	if err != nil {
		return job.BulkResult{}, err
	}
	if status >= 300 && !wire.IsBulk(status, body) {
		return job.BulkResult{}, wire.DecodeError(status, body)
	}
	return wire.ReadBulk(body)
}
