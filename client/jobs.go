package client

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"strconv"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// Enqueue stores all envelopes or none; see [job.Enqueuer].
//
// On the wire an ID that is stored already is a Duplicate. The client then
// reads the stored job, and when it has the same type and args, byte for byte,
// answers with it and sends the rest again. That takes one request per envelope
// that has an ID, and only in this case. Still all of the rest is stored or none.
func (c *Client) Enqueue(ctx context.Context, es ...job.Envelope) ([]job.Receipt, error) {
	cs := make([]job.Checked, len(es))
	for i, e := range es {
		// The server checks this too, but only a valid envelope can be encoded.
		var err error
		if cs[i], err = e.Check(); err != nil {
			return nil, atIndex(err, i, len(es))
		}
	}
	return c.EnqueueChecked(ctx, cs...)
}

// EnqueueChecked is Enqueue for envelopes that are checked; see [job.Enqueuer].
func (c *Client) EnqueueChecked(ctx context.Context, cs ...job.Checked) ([]job.Receipt, error) {
	b := batch{c: c, cs: cs, receipts: make([]job.Receipt, len(cs))}
	for i := range cs {
		b.open = append(b.open, i)
	}
	if err := b.send(ctx); err != nil {
		return nil, err
	}
	for _, t := range b.twins {
		b.receipts[t[0]] = again(b.receipts[t[1]])
	}
	return b.receipts, nil
}

// again is the receipt for an envelope that comes a second time in one call: it meets
// the job that the first one stored or met.
func again(first job.Receipt) job.Receipt {
	if first.Existing {
		return first
	}
	return job.Receipt{Job: first.Job, Existing: true, Verdict: job.SameID}
}

// batch is an Enqueue under way.
type batch struct {
	c        *Client
	cs       []job.Checked
	open     []int    // indices of the envelopes that have no receipt yet
	twins    [][2]int // an envelope, and an earlier one with the same ID and content
	receipts []job.Receipt
}

// send pushes what is open until all of it is stored. Each round after a
// Duplicate has found at least one job stored, so the rounds come to an end.
func (b *batch) send(ctx context.Context) error {
	for len(b.open) > 0 {
		err := b.push(ctx)
		if err == nil {
			return nil
		}
		err = b.original(err)
		if job.KindOf(err) != job.Duplicate || !b.ours(err) {
			return err
		}
		before := len(b.open)
		if err := b.settle(ctx); err != nil {
			return err
		}
		if len(b.open) == before {
			return err
		}
	}
	return nil
}

// push sends the open envelopes, alone or as a batch.
func (b *batch) push(ctx context.Context) (err error) {
	if len(b.open) == 1 {
		i := b.open[0]
		b.receipts[i], err = ask(ctx, b.c, post("/jobs", wire.PushBody(&b.cs[i])).blocking(ctx), wire.ReadReceipt)
		return err
	}
	cs := make([]job.Checked, len(b.open))
	for n, i := range b.open {
		cs[n] = b.cs[i]
	}
	rs, err := ask(ctx, b.c, post("/jobs/batch", wire.BatchBody(cs)).blocking(ctx), wire.ReadBatch)
	if err == nil && len(rs) != len(cs) {
		err = job.Errorf(job.Internal, "the server answered for %d jobs of %d", len(rs), len(cs))
	}
	if err != nil {
		return err
	}
	for n, i := range b.open {
		b.receipts[i] = rs[n]
	}
	return nil
}

// original is err with the caller's index instead of the place among the open envelopes.
func (b *batch) original(err error) error {
	n := 0
	if len(b.open) > 1 {
		var ok bool
		if n, ok = indexOf(err); !ok || n >= len(b.open) {
			return err
		}
	}
	return atIndex(err, b.open[n], len(b.cs))
}

// ours reports whether a Duplicate is about an ID that the caller gave, and not
// about another job with the same unique key.
func (b *batch) ours(err error) bool {
	var e *job.Error
	if !errors.As(err, &e) {
		return false
	}
	if _, unique := e.Details["unique_key"]; unique {
		return false
	}
	id, _ := e.Details["existing_job_id"].(string)
	for _, i := range b.open {
		if id != "" && b.cs[i].ID() == job.ID(id) {
			return true
		}
	}
	return false
}

// settle gives a receipt to every open envelope whose job is stored already,
// and sets those aside that come twice in this call. One that is stored with
// another content makes the whole Enqueue a Duplicate.
func (b *batch) settle(ctx context.Context) error {
	var open []int
	firsts := map[job.ID]int{}
	for _, i := range b.open {
		stored, err := b.stored(ctx, i)
		if err != nil {
			return err
		}
		if stored != nil {
			b.receipts[i] = job.Receipt{Job: stored, Existing: true, Verdict: job.SameID}
			continue
		}
		id := b.cs[i].ID()
		if first, again := firsts[id]; again && id != "" {
			e, before := b.cs[i].Envelope(), &job.Job{Envelope: b.cs[first].Envelope()}
			if !e.SameAs(before) {
				return b.taken(before, i)
			}
			b.twins = append(b.twins, [2]int{i, first})
			continue
		}
		firsts[id] = i
		open = append(open, i)
	}
	b.open = open
	return nil
}

// stored is the stored job with the ID of envelope i, and nil if there is none.
func (b *batch) stored(ctx context.Context, i int) (*job.Job, error) {
	e := b.cs[i].Envelope()
	if e.ID == "" {
		return nil, nil
	}
	j, err := b.c.Job(ctx, e.ID)
	switch {
	case err != nil && job.KindOf(err) == job.NotFound:
		return nil, nil
	case err == nil && !e.SameAs(j):
		return nil, b.taken(j, i)
	}
	return j, err
}

// taken is the Duplicate of an envelope whose ID is stored with another content.
func (b *batch) taken(stored *job.Job, i int) error {
	e := job.Errorf(job.Duplicate, "job %s exists already with another type or other args; choose another id", stored.ID)
	e.Details = map[string]any{"existing_job_id": string(stored.ID)}
	if stored.State != job.None {
		e.Details["existing_job_state"] = string(stored.State)
	}
	return atIndex(e, i, len(b.cs))
}

// atIndex adds the index of the envelope to an error about one of several.
func atIndex(err error, i, of int) error {
	var e *job.Error
	if of == 1 || !errors.As(err, &e) {
		return err
	}
	if e.Kind == job.Internal || e.Kind == job.Unavailable {
		return err // not about the envelope
	}
	at := *e
	at.Details = maps.Clone(e.Details)
	if at.Details == nil {
		at.Details = map[string]any{}
	}
	if _, told := at.Details["index"]; !told {
		at.Message = "jobs[" + strconv.Itoa(i) + "]: " + at.Message
	}
	at.Details["index"] = i
	return &at
}

// indexOf is the index that the server names in an error about a batch.
func indexOf(err error) (int, bool) {
	var e *job.Error
	if !errors.As(err, &e) {
		return 0, false
	}
	i, ok := e.Details["index"].(int)
	return i, ok && i >= 0
}

// jobPath is the path of a job below a collection.
func jobPath(collection string, id job.ID) string {
	return collection + "/" + url.PathEscape(string(id))
}

// Job reads a job; see [job.Operator].
func (c *Client) Job(ctx context.Context, id job.ID) (*job.Job, error) {
	return ask(ctx, c, get(jobPath("/jobs", id)).unless(noJob(id)), wire.ReadJob)
}

// noJob is the NotFound for what cannot be the id of any job.
func noJob(id job.ID) error {
	if job.ValidID(string(id)) {
		return nil
	}
	return wire.NoJob(string(id))
}
