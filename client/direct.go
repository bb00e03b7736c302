package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// Direct tells a worker to be quiet, to terminate, or to go on; see [job.Operator].
func (c *Client) Direct(ctx context.Context, id, wish string) (job.WorkerInfo, error) {
	if err := new(job.WorkerInfo).Direct(wish); err != nil {
		return job.WorkerInfo{}, err
	}
	if badPathID(id) {
		return job.WorkerInfo{}, noWorker(id)
	}
	body, err := c.do(ctx, call{method: http.MethodPost, path: "/admin/workers/" + url.PathEscape(id) + "/" + wish})
	if err != nil {
		return job.WorkerInfo{}, err
	}
	return wire.ReadWorker(body)
}

// DirectAll tells all known workers; see [job.Operator].
func (c *Client) DirectAll(ctx context.Context, wish string) (int, error) {
	body, err := c.do(ctx, call{method: http.MethodPost, path: "/admin/workers/directive", body: wire.DirectiveBody(wish)})
	if err != nil {
		return 0, err
	}
	return wire.ReadDirected(body)
}
