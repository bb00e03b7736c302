package httpapi

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// Outbox is an outbox that this process relays, as an operator sees it. Its
// methods may be called by many goroutines at once.
type Outbox interface {
	// Name tells this outbox from the others in paths: letters, digits, dots,
	// dashes and underscores.
	Name() string
	// Status never fails: a database that does not answer is a status too.
	Status(ctx context.Context) OutboxStatus
	// Parked are at most limit rows that can never be jobs, above an id, by id.
	Parked(ctx context.Context, after int64, limit int) ([]OutboxRow, error)
	// Replay makes parked rows pending again and says how many; without ids it is all.
	Replay(ctx context.Context, ids ...int64) (int64, error)
	// Discard removes parked rows for good and says how many; without ids it is all.
	Discard(ctx context.Context, ids ...int64) (int64, error)
	// Poke says that there may be new rows to relay. It does not block.
	Poke()
}

// OutboxStatus is how an outbox is.
type OutboxStatus = wire.OutboxStatus

// OutboxRelay is a job server that relays an outbox, or has lately.
type OutboxRelay = wire.OutboxRelay

// OutboxRow is a row of an outbox that can never be a job.
type OutboxRow = wire.OutboxRow

// outboxPatience is how long a list of outboxes waits for the databases of the app.
const outboxPatience = 5 * time.Second

// outboxList tells how the outboxes are. Their databases are asked side by side.
func (a *api) outboxList(ctx context.Context) ([]OutboxStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, outboxPatience)
	defer cancel()
	all := make([]OutboxStatus, len(a.Outboxes))
	var asked sync.WaitGroup
	for i, o := range a.Outboxes {
		asked.Go(func() { all[i] = o.Status(ctx) })
	}
	asked.Wait()
	return all, nil
}

// poke tells every relay to look for rows: the app has committed some.
func (a *api) poke(c echo.Context) error {
	for _, o := range a.Outboxes {
		o.Poke()
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendPoked(dst, len(a.Outboxes)) })
}

// outbox is the one that the path names.
func (a *api) outbox(c echo.Context) (Outbox, error) {
	name := param(c, "name")
	for _, o := range a.Outboxes {
		if o.Name() == name {
			return o, nil
		}
	}
	return nil, job.Errorf(job.NotFound, "no outbox %.80q is relayed here", name).With(map[string]any{"resource_type": "outbox", "resource_id": name})
}

// parked shows a page of rows that can never be jobs.
func (a *api) parked(c echo.Context) error {
	o, err := a.outbox(c)
	if err != nil {
		return err
	}
	after, p, err := listed(c, wire.DecodeRowPaging)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	rows, err := o.Parked(ctx, after, p.Limit+1)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendParked(dst, rows, o.Status(ctx).Parked, p) })
}

// onRows does something to parked rows.
func (a *api) onRows(done string, do func(Outbox, context.Context, ...int64) (int64, error)) echo.HandlerFunc {
	return func(c echo.Context) error {
		o, err := a.outbox(c)
		if err != nil {
			return err
		}
		ids, err := decoded(c, job.MaxJobBytes, wire.DecodeRows)
		if err != nil {
			return err
		}
		n, err := do(o, c.Request().Context(), ids...)
		if err != nil {
			return err
		}
		return reply(c, http.StatusOK, func(dst []byte) []byte { return wire.AppendRowsDone(dst, o.Name(), done, n) })
	}
}
