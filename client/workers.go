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
	ctx = speaking(ctx, f.Tenant)
	return ask(ctx, c, call{method: http.MethodPost, path: "/workers/fetch", body: wire.FetchBody(f), wait: f.Wait}, wire.ReadJobs)
}

// Ack ends an attempt well; see [job.Worker]. A result that is no JSON is Malformed.
func (c *Client) Ack(ctx context.Context, claim job.Claim, result json.RawMessage) (*job.Job, error) {
	if result != nil {
		if err := job.CheckJSON(result); err != nil {
			return nil, err
		}
	}
	return ask(ctx, c, post("/workers/ack", wire.AckBody(claim, result)).unless(noJob(claim.ID)), wire.ReadJob)
}

// Fail ends an attempt badly, or gives the job back; see [job.Worker]. What
// [job.Failure.Validate] refuses is not sent.
func (c *Client) Fail(ctx context.Context, claim job.Claim, f job.Failure) (*job.Job, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return ask(ctx, c, post("/workers/nack", wire.NackBody(claim, f)).unless(noJob(claim.ID)), wire.ReadJob)
}

// Beat keeps a worker's reservations alive and tells it what to do; see [job.Worker].
func (c *Client) Beat(ctx context.Context, b job.Beat) (job.BeatReply, error) {
	return ask(ctx, c, post("/workers/heartbeat", wire.BeatBody(b)), wire.ReadBeat)
}

// Register tells of a worker before its first beat; see [job.Worker]. Durations
// come in whole seconds.
func (c *Client) Register(ctx context.Context, w job.WorkerInfo) (job.Registration, error) {
	return ask(ctx, c, post("/workers/register", wire.BeatBody(job.Beat{Worker: w})), wire.ReadRegistration)
}

// Deregister forgets a worker that has stopped; see [job.Worker].
func (c *Client) Deregister(ctx context.Context, id string) ([]job.ID, error) {
	return ask(ctx, c, post("/workers/deregister", wire.DeregisterBody(id)), wire.ReadReleased)
}

// Workers lists the workers; see [job.Operator]. More than 200 are read in
// several requests, so they are not a snapshot.
func (c *Client) Workers(ctx context.Context) ([]job.WorkerInfo, error) {
	return listed(ctx, c, "/workers", wire.ReadWorkers)
}

// Worker reads one worker; see [job.Operator].
func (c *Client) Worker(ctx context.Context, id string) (job.WorkerInfo, error) {
	return ask(ctx, c, get("/workers/"+url.PathEscape(id)).unless(inPath("worker", id)), wire.ReadWorker)
}

// Direct tells a worker to be quiet, to terminate, or to go on; see [job.Operator].
func (c *Client) Direct(ctx context.Context, id, wish string) (job.WorkerInfo, error) {
	if err := new(job.WorkerInfo).Direct(wish); err != nil {
		return job.WorkerInfo{}, err
	}
	path := "/admin/workers/" + url.PathEscape(id) + "/" + wish
	return ask(ctx, c, post(path, nil).unless(inPath("worker", id)), wire.ReadWorker)
}

// DirectAll tells all known workers; see [job.Operator].
func (c *Client) DirectAll(ctx context.Context, wish string) (int, error) {
	return ask(ctx, c, post("/admin/workers/directive", wire.DirectiveBody(wish)), wire.ReadDirected)
}
