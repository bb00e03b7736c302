package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// queue shows a queue with its configuration.
func (a *api) queue(c echo.Context) error {
	ctx, name := c.Request().Context(), param(c, "name")
	q, err := a.svc.Queue(ctx, name)
	if err != nil {
		return err
	}
	config, err := a.configOf(ctx, name)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendQueue(dst, q, config) })
}

// configOf is the configuration of a queue that is there, whatever it is named.
func (a *api) configOf(ctx context.Context, name string) (job.QueueConfig, error) {
	if job.CheckConfigured(name) != nil { // of an older build
		return job.QueueConfig{}, nil
	}
	return a.svc.QueueConfig(ctx, name)
}

// queueStats shows a queue's counters; a queue that no job ever named has zeros.
func (a *api) queueStats(c echo.Context) error {
	r, err := a.svc.QueueStats(c.Request().Context(), param(c, "name"))
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendQueueStats(dst, r, profile(c)) })
}

func (a *api) createQueue(c echo.Context) error {
	q, err := decoded(c, wire.MaxAskBytes, wire.DecodeNewQueue)
	if err != nil {
		return err
	}
	made, err := a.svc.CreateQueue(c.Request().Context(), q.Name, q.Config, q.By)
	if err != nil {
		return err
	}
	return reply(c, http.StatusCreated, func(dst []byte) []byte { return wire.AppendQueue(dst, made, job.QueueConfig{Raw: q.Config}) })
}

// deleteQueue removes a queue. What becomes of its jobs a body says, or the query.
func (a *api) deleteQueue(c echo.Context) error {
	q, err := query(c)
	if err != nil {
		return err
	}
	raw, err := body(c, wire.MaxAskBytes)
	if err != nil {
		return err
	}
	d, err := wire.DecodeQueueDeletion(raw, q)
	if err != nil {
		return err
	}
	name := param(c, "name")
	n, err := a.svc.DeleteQueue(c.Request().Context(), name, d)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendQueueDeleted(dst, name, n) })
}

// setStatus pauses, resumes or drains a queue.
func (a *api) setStatus(status string, admin bool) echo.HandlerFunc {
	return func(c echo.Context) error {
		by, err := decoded(c, wire.MaxAskBytes, wire.DecodeBy)
		if err != nil {
			return err
		}
		q, err := a.svc.SetQueueStatus(c.Request().Context(), param(c, "name"), status, by)
		if err != nil {
			return err
		}
		return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendQueueStatus(dst, q, profile(c), admin) })
	}
}

// config shows the configuration of a queue as it was set.
func (a *api) config(c echo.Context) error {
	name := param(c, "name")
	config, err := a.svc.QueueConfig(c.Request().Context(), name)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendConfig(dst, name, config) })
}

// setConfig sets the configuration of a queue, or changes what a patch names.
func (a *api) setConfig(decode func([]byte) (json.RawMessage, error), patch bool) echo.HandlerFunc {
	return func(c echo.Context) error {
		raw, err := decoded(c, wire.MaxAskBytes, decode)
		if err != nil {
			return err
		}
		name := param(c, "name")
		config, err := a.svc.SetQueueConfig(c.Request().Context(), name, raw, patch)
		if err != nil {
			return err
		}
		return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendConfig(dst, name, config) })
	}
}

// purgeQueue removes finished jobs of a queue; an administrator must confirm it.
func (a *api) purgeQueue(confirm bool) echo.HandlerFunc {
	return func(c echo.Context) error {
		p, err := decoded(c, wire.MaxAskBytes, func(raw []byte) (job.Purge, error) { return wire.DecodePurgeQueue(raw, confirm, a.Now()) })
		if err != nil {
			return err
		}
		n, err := a.svc.PurgeQueue(c.Request().Context(), param(c, "name"), p)
		if err != nil {
			return err
		}
		return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendPurgedQueue(dst, p, n) })
	}
}

func (a *api) priorities(c echo.Context) error {
	name := param(c, "name")
	counts, err := a.svc.Priorities(c.Request().Context(), name)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendPriorities(dst, name, counts) })
}

// reprioritize changes the priority of a job.
func (a *api) reprioritize(c echo.Context) error {
	id, err := jobID(c)
	if err != nil {
		return err
	}
	priority, err := decoded(c, wire.MaxAskBytes, wire.DecodePriority)
	if err != nil {
		return err
	}
	ch, err := a.svc.Reprioritize(c.Request().Context(), id, priority)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return appendChange(dst, ch) })
}

// adminQueues lists the queues with what happened in them.
func (a *api) adminQueues(c echo.Context) error {
	ctx := c.Request().Context()
	q, err := query(c)
	if err != nil {
		return err
	}
	p, err := wire.DecodePages(q)
	if err != nil {
		return err
	}
	qs, err := a.svc.Queues(ctx)
	if err != nil {
		return err
	}
	rs := make([]job.QueueReport, len(qs))
	for i, q := range qs { // those that are not on the page are cut by their names alone
		rs[i].Queue = q
	}
	for _, i := range wire.Shown(rs, p) {
		r, err := a.svc.QueueStats(ctx, rs[i].Name)
		if err != nil {
			return err
		}
		r.Queue = rs[i].Queue
		rs[i] = r
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendAdminQueues(dst, rs, p) })
}

// adminQueue shows one queue with what happened in it.
func (a *api) adminQueue(c echo.Context) error {
	ctx, name := c.Request().Context(), param(c, "name")
	q, err := a.svc.Queue(ctx, name)
	if err != nil {
		return err
	}
	r, err := a.svc.QueueStats(ctx, name)
	if err != nil {
		return err
	}
	config, err := a.configOf(ctx, name)
	if err != nil {
		return err
	}
	r.Queue = q
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendAdminQueue(dst, r, config) })
}

// overview shows all queues as one, or one of them.
func (a *api) overview(c echo.Context) error {
	ctx := c.Request().Context()
	q, err := query(c)
	if err != nil {
		return err
	}
	o := wire.Overview{Uptime: a.Now().Sub(a.started)}
	if o.QueueReport, err = a.svc.QueueStats(ctx, q.Get("queue")); err != nil {
		return err
	}
	if o.Queues, err = a.svc.Queues(ctx); err != nil {
		return err
	}
	if o.Workers, err = a.svc.Workers(ctx); err != nil {
		return err
	}
	if o.Held, err = a.svc.Maintenance(ctx); err != nil {
		return err
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendOverview(dst, o) })
}

// statsHistory shows what happened, by time.
func (a *api) statsHistory(c echo.Context) error {
	q, err := query(c)
	if err != nil {
		return err
	}
	h, err := wire.DecodeStatsHistory(q, a.Now())
	if err != nil {
		return err
	}
	slots, err := a.svc.Slots(c.Request().Context(), h.Queue, h.Since)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendSlots(dst, h.Period, h.Points(slots)) })
}

// The headers of backpressure (contract §4.13).
const (
	headerDepth    = "X-Ojs-Queue-Depth"
	headerBound    = "X-Ojs-Queue-Bound"
	headerPressure = "X-Ojs-Queue-Pressure"
	headerBlock    = "Ojs-Block-Timeout"
)

// blocking is the context of a PUSH: how long it may wait for room in its queue.
func blocking(c echo.Context) (context.Context, error) {
	ctx := c.Request().Context()
	s := first(c.Request().Header, headerBlock)
	if s == "" {
		return ctx, nil
	}
	d, err := wire.DecodeBlock(s)
	if err != nil {
		return ctx, err
	}
	return job.WithBlock(ctx, d), nil
}

// pressed sets the headers that say how full the fullest queue of a PUSH is.
func pressed(c echo.Context, rs []job.Receipt) {
	var most *job.Pressure
	for i := range rs {
		if p := rs[i].Pressure; p != nil && (most == nil || p.Part() > most.Part()) {
			most = p
		}
	}
	if most == nil {
		return
	}
	h := c.Response().Header()
	h[headerDepth] = []string{strconv.FormatInt(most.Depth, 10)}
	h[headerBound] = []string{strconv.FormatInt(most.Bound, 10)}
	h[headerPressure] = []string{strconv.FormatFloat(most.Part(), 'f', 2, 64)}
}

// refusedFull sets the headers of the answer to a PUSH to a queue without room.
func refusedFull(h http.Header, err error) {
	h.Set("Retry-After", "1")
	d := job.DetailsOf(err)
	for name, key := range map[string]string{headerDepth: "depth", headerBound: "bound"} {
		if n, ok := d[key].(int); ok {
			h[name] = []string{strconv.Itoa(n)}
		}
	}
}

const headerKey = "Idempotency-Key"

// bulkPush stores many jobs, each for itself or all together.
func (a *api) bulkPush(c echo.Context) error {
	raw, err := body(c, wire.MaxBatchBytes)
	if err != nil {
		return sized(c, err)
	}
	p, err := wire.DecodeBulkPush(raw)
	if err != nil {
		return sized(c, err)
	}
	keyFrom(c, &p.Idempotency, raw)
	if err := exchange(c).charge.await(c.Request().Context(), int64(len(p.Jobs))*perJob); err != nil {
		return err
	}
	r, err := a.svc.PushEach(c.Request().Context(), p)
	if err != nil {
		return err
	}
	return answerBulk(c, r)
}

// bulkAct does one thing to many jobs.
func (a *api) bulkAct(action string, confirm bool) echo.HandlerFunc {
	return func(c echo.Context) error {
		raw, err := body(c, wire.MaxBatchBytes)
		if err != nil {
			return sized(c, err)
		}
		act, err := wire.DecodeBulkAct(raw, action, confirm, a.Now())
		if err != nil {
			return err
		}
		keyFrom(c, &act.Idempotency, raw)
		r, err := a.svc.Bulk(c.Request().Context(), act)
		if err != nil {
			return sized(c, err)
		}
		return answerBulk(c, r)
	}
}

// keyFrom completes an idempotency key: a header beats the body.
func keyFrom(c echo.Context, id *job.Idempotency, raw []byte) {
	if key := first(c.Request().Header, headerKey); key != "" {
		id.Key = key
	}
	if id.Key != "" {
		id.Digest = wire.Digest(c.Path(), raw)
	}
}

func answerBulk(c echo.Context, r job.BulkResult) error {
	c.Response().Header().Set("X-OJS-Batch-Size", strconv.FormatInt(r.Total, 10))
	return reply(c, wire.BulkStatus(r), func(dst []byte) []byte { return wire.AppendBulk(dst, r) })
}

// sized tells with a TooLarge how many jobs one request may name.
func sized(c echo.Context, err error) error {
	if err != nil && job.KindOf(err) == job.TooLarge {
		c.Response().Header().Set("X-OJS-Max-Batch-Size", strconv.Itoa(job.MaxBatch))
	}
	return err
}
