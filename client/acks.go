package client

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// What takes several ACKs at once is Outrider's own, and younger than the protocol. So the
// manifest of the server is asked for it once, and again when a connection was lost: there
// may be another server at the address then. Where it is not there the client asks what
// every server knows.

// takesMany reports whether the server takes several ACKs at once. An error means that
// there was no answer. What a proxy in trouble says is not remembered.
func (c *Client) takesMany(ctx context.Context) (bool, error) {
	if known := c.many.Load(); known != nil {
		return *known, nil
	}
	has, err := ask(ctx, c, call{method: http.MethodGet, path: "/ojs/manifest", whole: true}, wire.ReadManifest)
	switch {
	case err == nil || unknown(err):
	case job.KindOf(err) == job.Unavailable && !errors.Is(err, job.ErrForeign):
		return false, err
	default:
		return false, nil
	}
	many := slices.Contains(has, wire.BatchAck) && slices.Contains(has, wire.Next)
	c.many.Store(&many)
	return many, nil
}

// refused reports that a server did not take a request as a whole. Then it has done nothing
// of it, and its parts can be asked one by one.
func (c *Client) refused(err error) bool {
	switch kind := job.KindOf(err); {
	case err == nil:
		return false
	case unknown(err): // an older server has come to this address, or a proxy lets no more through
		c.many.Store(new(bool))
	case kind == job.Unavailable || kind == job.Internal:
		return false
	case kind == job.Invalid: // or so it seems
		c.many.Store(nil)
	}
	return true
}

// unknown reports that a server, or a proxy before it, does not know a path.
func unknown(err error) bool {
	var e *job.Error
	if !errors.As(err, &e) {
		return false
	}
	status := e.Details["status"]
	return e.Kind == job.NotFound || e.Kind == job.NotAllowed ||
		errors.Is(err, job.ErrForeign) && (status == http.StatusNotFound || status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented)
}

// AckAll ends many attempts well; see [job.Worker]. To a server that does not take many
// ACKs at once it sends one by one: then they are no transaction.
func (c *Client) AckAll(ctx context.Context, acks []job.AckRequest) ([]job.Acked, error) {
	return c.ackAll(ctx, acks, func(good []job.AckRequest) ([]job.Acked, error) {
		return ask(ctx, c, post(wire.AckPath, wire.AcksBody(good)), func(body []byte) ([]job.Acked, error) {
			return wire.ReadAcked(body, len(good))
		})
	})
}

// Next ends attempts and claims jobs; see [job.Worker]. To a server that does not know
// that it sends the ACKs, and then a FETCH.
func (c *Client) Next(ctx context.Context, acks []job.AckRequest, f job.FetchRequest) (acked []job.Acked, jobs []*job.Job, err error) {
	f.Wait = min(f.Wait, wire.MaxWait)
	ctx = speaking(ctx, f.Tenant)
	var r wire.NextReply
	asked := false
	if len(acks) > 0 {
		acked, err = c.ackAll(ctx, acks, func(good []job.AckRequest) (_ []job.Acked, err error) {
			r, err = ask(ctx, c, call{method: http.MethodPost, path: wire.NextPath, body: wire.NextBody(good, f), wait: f.Wait},
				func(body []byte) (wire.NextReply, error) { return wire.ReadNext(body, len(good)) })
			asked = err == nil
			return r.Acked, err
		})
		if err != nil {
			return nil, nil, err
		}
	}
	if asked {
		return acked, r.Jobs, r.Err
	}
	for _, v := range acked {
		if k := job.KindOf(v.Err); v.Err != nil && (k == job.Unavailable || k == job.Internal) {
			return acked, nil, v.Err // a server in trouble is asked for nothing more
		}
	}
	jobs, err = c.Fetch(ctx, f)
	return acked, jobs, err
}

// ackAll sends the ACKs as send does, where the server takes many, and one by one where
// it does not. What no server would take is not sent.
func (c *Client) ackAll(ctx context.Context, acks []job.AckRequest, send func([]job.AckRequest) ([]job.Acked, error)) ([]job.Acked, error) {
	if len(acks) > job.MaxAcks {
		return nil, job.TooManyAcks(len(acks))
	}
	good, whole := sendable(acks)
	if len(good) == 0 {
		return whole(nil), nil
	}
	many, err := c.takesMany(ctx)
	if err != nil {
		return nil, err
	}
	if many {
		acked, err := send(good)
		if err == nil {
			return whole(acked), nil
		}
		if !c.refused(err) {
			return nil, err
		}
	}
	return whole(c.ackEach(ctx, good)), nil
}

// sendable are the ACKs that a server has to judge. whole puts its verdicts on them in
// between those on the others.
func sendable(acks []job.AckRequest) (good []job.AckRequest, whole func([]job.Acked) []job.Acked) {
	var wrong map[int]error
	for i, a := range acks {
		err := noJob(a.ID)
		if err == nil && a.Result != nil {
			err = job.CheckJSON(a.Result)
		}
		if err == nil {
			continue
		}
		if wrong == nil {
			wrong = map[int]error{}
		}
		wrong[i] = err
	}
	if wrong == nil {
		return acks, func(acked []job.Acked) []job.Acked { return acked }
	}
	for i, a := range acks {
		if wrong[i] == nil {
			good = append(good, a)
		}
	}
	return good, func(acked []job.Acked) []job.Acked {
		all := make([]job.Acked, len(acks))
		for i := range all {
			if err := wrong[i]; err != nil {
				all[i].Err = err
			} else {
				all[i], acked = acked[0], acked[1:]
			}
		}
		return all
	}
}

// atOnce is how many ACKs are sent at the same time to a server that takes one at once.
const atOnce = 16

// ackEach sends ACKs one by one. Those of different jobs may be on their way at the same
// time.
func (c *Client) ackEach(ctx context.Context, acks []job.AckRequest) []job.Acked {
	acked := make([]job.Acked, len(acks))
	ack := func(i int) {
		j, err := c.Ack(ctx, acks[i].Claim, acks[i].Result)
		if acked[i].Err = err; err == nil {
			acked[i].FinishedAt = j.FinishedAt
		}
	}
	var again []int // of a job that was named before: in their order
	var sending sync.WaitGroup
	free := make(chan struct{}, atOnce)
	seen := make(map[job.ID]bool, len(acks))
	for i, a := range acks {
		if seen[a.ID] {
			again = append(again, i)
			continue
		}
		seen[a.ID] = true
		free <- struct{}{}
		sending.Go(func() {
			ack(i)
			<-free
		})
	}
	sending.Wait()
	for _, i := range again {
		ack(i)
	}
	return acked
}
