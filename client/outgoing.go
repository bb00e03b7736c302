package client

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// An ACK never waits for company: it goes at once, unless a request that ends soon is on
// its way. What is finished meanwhile goes together in the next one. That is an ACK and
// FETCH in one wherever the worker wants jobs for the slots that become free: it does not
// wait for jobs, so that nothing waits behind it. While the fetcher waits for jobs, is to
// fetch none, or pauses, the acker sends the ACKs alone. A request that gets no answer
// keeps nothing else waiting for long: another acker takes over.

// soonTime is how long ACKs wait for the answer to those before them.
const soonTime = time.Second

// maxResults is how many bytes of results go into one request, but for a single one that
// is longer.
const maxResults = job.MaxResultBytes

// ack is an ACK that is to be sent.
type ack struct {
	job.AckRequest
	heard chan heard // has room for one
}

// heard is what the server said to an ACK.
type heard struct {
	err      error
	slotless bool // the fetcher has taken the slot of the attempt, for the next job
}

// sender is who sends the ACKs that wait.
type sender int

const (
	nobody sender = iota // there are none
	acker
	fetcher
)

// outgoing are the ACKs that wait to be sent.
type outgoing struct {
	poke chan struct{} // has room for one: there is something for the fetcher

	mu      sync.Mutex // guards the rest
	waiting []*ack
	sender  sender
	turn    int  // of the sender; each has another
	parked  bool // the fetcher has nothing to do, and would send them
}

// put adds an ACK, and returns the turn of the acker that must be started for it, if any.
func (o *outgoing) put(a *ack) (turn int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting = append(o.waiting, a)
	if o.sender == fetcher {
		o.wake()
	}
	return o.engage()
}

// engage makes an acker the sender if there is something to send and nobody sends, and
// returns its turn, else 0. The caller holds mu, and starts it.
func (o *outgoing) engage() (turn int) {
	if o.sender != nobody || len(o.waiting) == 0 {
		return 0
	}
	o.hand(acker)
	return o.turn
}

// hand makes s the sender. The caller holds mu.
func (o *outgoing) hand(s sender) {
	o.sender = s
	o.turn++
}

// wake wakes the fetcher. The caller holds mu.
func (o *outgoing) wake() {
	select {
	case o.poke <- struct{}{}:
	default:
	}
}

// park makes the fetcher the sender, at once or when the acker's request has ended.
func (o *outgoing) park() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.parked = true
	if o.sender == nobody {
		o.hand(fetcher)
	}
	if o.sender == fetcher && len(o.waiting) > 0 { // what did not fit into the request before
		o.wake()
	}
}

// forFetcher takes the ACKs that the fetcher is to send, which has so many free slots. If
// that gives it something to do it is parked no longer; it stays the sender until it leaves.
func (o *outgoing) forFetcher(slots int) (taken []*ack) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sender == fetcher {
		taken = o.take()
	}
	o.parked = slots+len(taken) == 0
	return taken
}

// leave says that the fetcher sends nothing for now, and returns the turn of the acker that
// must be started in its place, if any.
func (o *outgoing) leave() (turn int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.parked = false
	if o.sender == fetcher {
		o.sender = nobody
	}
	return o.engage()
}

// current is the turn of the present sender.
func (o *outgoing) current() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.turn
}

// overdue says that the sender of that turn has no answer yet, and returns the turn of the
// acker that must be started in its place, if any.
func (o *outgoing) overdue(turn int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.turn == turn {
		o.sender = nobody
	}
	return o.engage()
}

// forAcker takes the ACKs that the acker of that turn is to send next. None ends it: there
// are none, or somebody else sends them.
func (o *outgoing) forAcker(turn int) []*ack {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.turn != turn:
		return nil
	case o.parked:
		o.hand(fetcher)
		o.wake()
		return nil
	case len(o.waiting) == 0:
		o.sender = nobody
		return nil
	}
	return o.take()
}

// take takes as many as one request may have. The caller holds mu.
func (o *outgoing) take() []*ack {
	n, size := 0, 0
	for n < len(o.waiting) && n < job.MaxAcks {
		if size += len(o.waiting[n].Result); n > 0 && size > maxResults {
			break
		}
		n++
	}
	taken := slices.Clone(o.waiting[:n])
	o.waiting = slices.Delete(o.waiting, 0, n) // which keeps none of their results
	return taken
}

// deliver sends an ACK, alone or with others, and returns what the server says to it.
func (r *run) deliver(a *attempt, req job.AckRequest) error {
	one := &ack{req, make(chan heard, 1)}
	r.startAcker(r.out.put(one))
	h := <-one.heard // whoever sends it says something, at the latest when r.reports has ended
	a.slotless = h.slotless
	return h.err
}

// leave lets the acker send what the fetcher would have sent.
func (r *run) leave() { r.startAcker(r.out.leave()) }

// startAcker starts the acker of that turn; 0 is none. It ends
// behind the last attempt that it sends for.
func (r *run) startAcker(turn int) {
	if turn > 0 {
		go r.sendAcks(turn)
	}
}

// promptly lets another acker take over from the sender of that turn where its request
// gets no answer soon. Whoever calls it calls answered when it has one.
func (r *run) promptly(turn int) (answered func() bool) {
	return time.AfterFunc(soonTime, func() { r.startAcker(r.out.overdue(turn)) }).Stop
}

// sendAcks is the acker: it sends what waits until nothing does, or somebody else would.
func (r *run) sendAcks(turn int) {
	for acks := r.out.forAcker(turn); acks != nil; {
		answered := r.promptly(turn)
		acked, err := r.svc.AckAll(r.reports, requests(acks))
		answered()
		more := r.out.forAcker(turn) // before slots become free, so that the fetcher finds both
		for i, a := range acks {
			a.heard <- heard{err: verdict(acked, i, err)}
		}
		acks = more
	}
}

// next sends ACKs and claims jobs for n free slots and those of the ACKs, which it takes
// over, if there are jobs now.
func (r *run) next(ctx context.Context, acks []*ack, n int) error {
	answered := r.promptly(r.out.current())
	acked, jobs, err := r.svc.Next(r.reports, requests(acks), r.request(n+len(acks), 0))
	answered()
	for i, a := range acks {
		h := heard{err: verdict(acked, i, err)}
		if h.slotless = over(h.err); h.slotless {
			n++
		}
		a.heard <- h
	}
	r.take(ctx, jobs, n)
	return err
}

func requests(acks []*ack) []job.AckRequest {
	reqs := make([]job.AckRequest, len(acks))
	for i, a := range acks {
		reqs[i] = a.AckRequest
	}
	return reqs
}

// verdict is what was said to ACK i of several, where err was said to all of them.
func verdict(acked []job.Acked, i int, err error) error {
	if acked == nil {
		return err
	}
	return acked[i].Err
}

// over reports whether an attempt ends with what was said to its ACK: nothing is sent
// again, or in its place.
func over(err error) bool {
	switch job.KindOf(err) {
	case job.Unavailable, job.Internal, job.TooLarge, job.Malformed:
		return err == nil
	}
	return true
}
