package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

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

// Fail ends an attempt badly, or gives the job back; see [job.Worker]. What
// [job.Failure.Validate] refuses is not sent.
func (c *Client) Fail(ctx context.Context, claim job.Claim, f job.Failure) (*job.Job, error) {
	if err := f.Validate(); err != nil {
		return nil, err
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

// Register tells of a worker before its first beat; see [job.Worker]. Durations
// come in whole seconds.
func (c *Client) Register(ctx context.Context, w job.WorkerInfo) (job.Registration, error) {
	body, err := c.do(ctx, call{method: http.MethodPost, path: "/workers/register", body: wire.BeatBody(job.Beat{Worker: w})})
	if err != nil {
		return job.Registration{}, err
	}
	return wire.ReadRegistration(body)
}

// Deregister forgets a worker that has stopped; see [job.Worker].
func (c *Client) Deregister(ctx context.Context, id string) ([]job.ID, error) {
	body, err := c.do(ctx, call{method: http.MethodPost, path: "/workers/deregister", body: wire.DeregisterBody(id)})
	if err != nil {
		return nil, err
	}
	return wire.ReadReleased(body)
}

// Workers lists the workers; see [job.Operator]. More than 200 are read in
// several requests, so they are no snapshot of one instant.
func (c *Client) Workers(ctx context.Context) ([]job.WorkerInfo, error) {
	return listed(ctx, c, "/workers", wire.ReadWorkers)
}

// Worker reads one worker; see [job.Operator].
func (c *Client) Worker(ctx context.Context, id string) (job.WorkerInfo, error) {
	if badPathID(id) {
		return job.WorkerInfo{}, noWorker(id)
	}
	body, err := c.do(ctx, call{method: http.MethodGet, path: "/workers/" + url.PathEscape(id)})
	if err != nil {
		return job.WorkerInfo{}, err
	}
	return wire.ReadWorker(body)
}

// badPathID reports whether a path with this name in it leads elsewhere.
func badPathID(id string) bool { return id == "" || id == "." || id == ".." }

func noWorker(id string) error {
	e := job.Errorf(job.NotFound, "there is no worker %q", id)
	e.Details = map[string]any{"resource_type": "worker", "resource_id": id}
	return e
}
