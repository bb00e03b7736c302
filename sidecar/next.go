package sidecar

import (
	"cmp"
	"context"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// ackBytes is about how much memory the jobs that one transaction of ACKs reads may
// take. Where they are larger, those that follow go into the next one.
const ackBytes = 4 << 20

// AckAll ends many attempts well; see [job.Worker].
func (s *Sidecar) AckAll(ctx context.Context, acks []job.AckRequest) ([]job.Acked, error) {
	if len(acks) == 0 {
		return nil, nil
	}
	acked, _, _, err := s.ackAll(ctx, acks, nil)
	return acked, err
}

// Next ends attempts and claims jobs; see [job.Worker]. The jobs that are there are
// claimed in the transaction of the acks: that is one commit less.
func (s *Sidecar) Next(ctx context.Context, acks []job.AckRequest, f job.FetchRequest) (acked []job.Acked, jobs []*job.Job, err error) {
	if len(acks) == 0 {
		jobs, err = s.Fetch(ctx, f)
		return nil, jobs, err
	}
	f.Tenant = cmp.Or(f.Tenant, job.TenantOf(ctx))
	may, err := s.mayFetch(ctx, f)
	if !may {
		acked, failed := s.AckAll(ctx, acks)
		if failed != nil {
			err = failed
		}
		return acked, nil, err
	}
	jobs, err = s.fetch(ctx, f, func(ctx context.Context, f job.FetchRequest) ([]*job.Job, error) {
		if acked == nil {
			got, more, err := s.ackAndClaim(ctx, acks, f, &acked)
			if err != nil || len(got) > 0 || !more {
				return got, err
			}
		}
		return s.claim(ctx, f)
	})
	return acked, jobs, err
}

// ackAndClaim is AckAll and then claimSlice. It sets acked once the acks are on disk.
func (s *Sidecar) ackAndClaim(ctx context.Context, acks []job.AckRequest, f job.FetchRequest, acked *[]job.Acked) (got []*job.Job, more bool, err error) {
	c := s.beginClaim(f)
	defer c.asked.over()
	done, claimed, refused, err := s.ackAll(ctx, acks, c.do)
	if err != nil {
		return nil, false, err
	}
	if *acked = done; refused != nil {
		return nil, false, refused
	}
	if !claimed { // what the claim holds was undone with the last ack
		return nil, true, nil
	}
	return c.end()
}

// maxSpoilt is how many acks of a call are left out because their jobs cannot be read or
// stored; with more of them it is the store that fails.
const maxSpoilt = 16

// ackAll is AckAll, and claims behind the last ack in the same transaction, where claim
// is not nil; claimed reports that this transaction is on disk. A claim that fails must not
// take the acks with it: they are stored without it then, and refused says why it was.
func (s *Sidecar) ackAll(ctx context.Context, acks []job.AckRequest, claim func(*turn) error) (acked []job.Acked, claimed bool, refused, err error) {
	if len(acks) > job.MaxAcks {
		return nil, false, nil, job.TooManyAcks(len(acks))
	}
	a := acking{acks: acks, judged: malformed(acks), most: len(acks), now: s.now(), acked: make([]job.Acked, len(acks)), claim: claim}
	for spoilt := 0; a.from < len(acks); {
		a.refused, a.spoils = nil, nil // it may not come to do
		err := s.update(ctx, a.do)
		switch {
		case err == nil:
			claimed = a.to == len(acks) && a.claim != nil
			a.from = a.to
		case a.refused != nil:
			refused, a.claim = a.refused, nil
		case a.spoils != nil && spoilt < maxSpoilt: // which is no fault of the others
			spoilt++
			a.judged[a.to] = err
		case job.KindOf(err) == job.Unavailable && a.from == 0:
			return nil, false, nil, err
		case job.KindOf(err) == job.Unavailable: // those before are on disk
			for i := a.from; i < len(acks); i++ {
				a.acked[i] = job.Acked{Err: err}
			}
			return a.acked, false, err, nil
		case a.most > 1:
			a.most = 1 // it is not known which of them it was
		default:
			a.acked[a.from] = job.Acked{Err: err}
			a.from++
		}
	}
	return a.acked, claimed, refused, nil
}

// malformed are the acks whose result is no JSON, by their place.
func malformed(acks []job.AckRequest) map[int]error {
	wrong := map[int]error{}
	for i, a := range acks {
		if a.Result == nil {
			continue
		}
		if err := job.CheckJSON(a.Result); err != nil {
			wrong[i] = err
		}
	}
	return wrong
}

// acking is an AckAll under way.
type acking struct {
	acks     []job.AckRequest
	judged   map[int]error // before they come to their job
	most     int           // of them in one transaction
	now      time.Time
	acked    []job.Acked
	from, to int               // those of the present transaction
	claim    func(*turn) error // behind the last; nil is none
	refused  error             // of the present transaction: the claim failed
	spoils   error             // of the present transaction: the ack at to
}

// do is one transaction. It may run more than once.
func (a *acking) do(t *turn) error {
	a.to, a.refused, a.spoils = a.from, nil, nil
	for size := 0; a.to < len(a.acks) && a.to-a.from < a.most && size < ackBytes; a.to++ {
		n, err := a.end(t, a.acks[a.to])
		if err != nil {
			a.spoils = err
			return err
		}
		size += n
	}
	if a.to == len(a.acks) && a.claim != nil {
		if err := t.release(); err != nil { // what the acks set free may be claimed
			return err
		}
		a.refused = a.claim(t)
	}
	return a.refused
}

// end judges the ack at a.to, and says how many bytes its job has, which is in memory
// until the transaction ends. An error is none of this ack: the transaction cannot go on.
func (a *acking) end(t *turn, ack job.AckRequest) (size int, err error) {
	v := &a.acked[a.to]
	if *v = (job.Acked{Err: a.judged[a.to]}); v.Err != nil {
		return 0, nil
	}
	j, err := t.Job(ack.ID)
	if err != nil {
		if v.Err = err; job.KindOf(err) == job.NotFound {
			err = nil
		}
		return 0, err
	}
	if v.Err = j.Complete(a.now, ack.Claim, ack.Result); v.Err != nil {
		return j.Size(), nil
	}
	v.FinishedAt = j.FinishedAt
	return j.Size(), t.save(j)
}
