package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// Limits lists limits; see [job.LimitService]. More than 200 are refused.
func (c *Client) Limits(ctx context.Context, f job.LimitFilter) (job.LimitPage, error) {
	if f.Limit == 0 {
		f.Limit = wire.PageDefault
	}
	if f.Limit < 1 || f.Limit > wire.PageMax || f.Offset < 0 {
		return job.LimitPage{}, job.Errorf(job.Invalid, "limit must be 1 to 200 and offset 0 or more, got %d and %d", f.Limit, f.Offset).
			With(map[string]any{"field": "limit"})
	}
	return ask(ctx, c, get("/rate-limits?"+wire.LimitsQuery(f).Encode()), wire.ReadLimits)
}

// Limit reads a limit; see [job.LimitService].
func (c *Client) Limit(ctx context.Context, key string) (job.LimitInfo, error) {
	return ask(ctx, c, get(limitPath(key)).unless(noLimit(key)), wire.ReadLimit)
}

// OverrideLimit sets what a key allows; see [job.LimitService].
func (c *Client) OverrideLimit(ctx context.Context, key string, p job.Pace) (job.LimitInfo, error) {
	if err := p.Validate(); err != nil {
		return job.LimitInfo{}, err
	}
	r := call{method: http.MethodPut, path: limitPath(key) + "/override", body: wire.PaceBody(p)}
	return ask(ctx, c, r.unless(badKey(key)), wire.ReadLimit)
}

// DropLimitOverride lets the jobs decide again; see [job.LimitService].
func (c *Client) DropLimitOverride(ctx context.Context, key string) (job.LimitInfo, error) {
	return ask(ctx, c, remove(limitPath(key)+"/override").unless(noLimit(key)), wire.ReadLimit)
}

func limitPath(key string) string { return "/rate-limits/" + url.PathEscape(key) }

func noLimit(key string) error {
	if job.ValidLimitKey(key) {
		return nil
	}
	return wire.NoLimit(key)
}

func badKey(key string) error {
	if job.ValidLimitKey(key) {
		return nil
	}
	return job.InvalidLimitKey(key)
}
