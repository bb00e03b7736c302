package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// Pools reads all pools; see [job.PoolService].
func (c *Client) Pools(ctx context.Context) ([]job.Pool, error) {
	return listed(ctx, c, "/admin/pools", wire.ReadPools)
}

// PutPool stores a pool; see [job.PoolService].
func (c *Client) PutPool(ctx context.Context, p job.Pool) (fresh bool, err error) {
	if err := p.Validate(); err != nil {
		return false, err
	}
	status, body, err := c.send(ctx, call{method: http.MethodPut, path: poolPath(p.Name), body: wire.PoolBody(p)})
	if err != nil {
		return false, err
	}
	if status != http.StatusOK && status != http.StatusCreated {
		return false, wire.DecodeError(status, body)
	}
	_, err = wire.ReadPool(body)
	return status == http.StatusCreated, err
}

// DeletePool removes a pool; see [job.PoolService].
func (c *Client) DeletePool(ctx context.Context, name string) error {
	_, err := c.do(ctx, remove(poolPath(name)))
	return err
}

// Dispatch reads how the starts were shared; see [job.PoolService].
func (c *Client) Dispatch(ctx context.Context) (job.DispatchReport, error) {
	return ask(ctx, c, get("/admin/scheduling/stats"), wire.ReadDispatch)
}

func poolPath(name string) string { return "/admin/pools/" + url.PathEscape(name) }
