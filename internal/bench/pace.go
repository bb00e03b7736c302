package bench

import (
	"errors"
	"time"
)

// timetable says when each request of an offered load is due. It goes on whatever
// becomes of the requests: one that must wait for a connection is late, and its
// latency counts from when it was due.
type timetable struct {
	began, end time.Time
	apart      time.Duration
	requests   int
	due        chan time.Time
	quit, over chan struct{}
}

// timetable begins one; nil where as much is sent as the server takes.
func (b *bench) timetable(began, end time.Time) *timetable {
	if b.point.rate == 0 {
		return nil
	}
	each := float64(b.point.work.each)
	t := &timetable{began: began, end: end, due: make(chan time.Time, 1<<10), quit: make(chan struct{}), over: make(chan struct{}),
		apart: time.Duration(each / b.point.rate * float64(time.Second))}
	t.requests = int((end.Sub(began) + t.apart - 1) / t.apart)
	if b.cfg.Jobs > 0 {
		t.requests = min(t.requests, (b.cfg.Jobs+b.point.work.each-1)/b.point.work.each)
	}
	go t.tell()
	return t
}

// tell hands out the requests as they are due.
func (t *timetable) tell() {
	defer close(t.over)
	defer close(t.due)
	for k := range t.requests {
		at := t.began.Add(time.Duration(k) * t.apart)
		for wait := time.Until(at); wait > 0; wait = time.Until(at) {
			sleep(min(wait, 100*time.Millisecond))
			select {
			case <-t.quit:
				return
			default:
			}
		}
		select {
		case t.due <- at:
		case <-t.quit:
			return
		}
	}
}

// close ends the timetable.
func (t *timetable) close() {
	if t != nil {
		close(t.quit)
		<-t.over
	}
}

// missed is how many requests were not sent, of which so many were.
func (t *timetable) missed(sent int) int {
	if t == nil {
		return 0
	}
	return t.requests - sent
}

// keep does step whenever a request is due, until the end.
func (c *caller) keep(t *timetable, step func(*caller) (int, error)) error {
	for at := range t.due {
		if !time.Now().Before(t.end) {
			return nil
		}
		n, err := step(c)
		if errors.Is(err, errDry) {
			return nil
		}
		if err != nil {
			return err
		}
		c.samples = append(c.samples, time.Since(at))
		c.jobs += n
	}
	return nil
}
