package client

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// Fetch claims jobs; see [job.Worker]. When ctx ends while it waits, jobs that
// the server has just given are given back by the server, or lost to this
// worker until their reservations end.
func (c *Client) Fetch(ctx context.Context, f job.FetchRequest) ([]*job.Job, error) {
	f.Wait = min(f.Wait, wire.MaxWait)
	body, err := c.do(ctx, call{method: http.MethodPost, path: "/workers/fetch", body: wire.FetchBody(f), wait: f.Wait})
	if err != nil {
		return nil, err
	}
	return wire.ReadJobs(body)
}

// Ack ends an attempt well; see [job.Worker]. A result that is no JSON is Malformed.
func (c *Client) Ack(ctx context.Context, claim job.Claim, result json.RawMessage) (*job.Job, error) {
	if result != nil {
		if err := job.CheckJSON(result); err != nil {
			return nil, err
		}
	}
	return c.finish(ctx, claim, "/workers/ack", wire.AckBody(claim, result))
}

// Fail ends an attempt badly, or gives the job back; see [job.Worker]. Details
// that are no JSON are Malformed.
func (c *Client) Fail(ctx context.Context, claim job.Claim, f job.Failure) (*job.Job, error) {
	if f.Details != nil {
		if err := job.CheckJSON(f.Details); err != nil {
			return nil, err
		}
	}
	return c.finish(ctx, claim, "/workers/nack", wire.NackBody(claim, f))
}

func (c *Client) finish(ctx context.Context, claim job.Claim, path string, request []byte) (*job.Job, error) {
	if err := named(claim.ID); err != nil {
		return nil, err
	}
	body, err := c.do(ctx, call{method: http.MethodPost, path: path, body: request})
	if err != nil {
		return nil, err
	}
	return wire.ReadJob(body)
}

// Beat keeps a worker's reservations alive and tells it what to do; see [job.Worker].
func (c *Client) Beat(ctx context.Context, b job.Beat) (job.BeatReply, error) {
	body, err := c.do(ctx, call{method: http.MethodPost, path: "/workers/heartbeat", body: wire.BeatBody(b)})
	if err != nil {
		return job.BeatReply{}, err
	}
	return wire.ReadBeat(body)
}
