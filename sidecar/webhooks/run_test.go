package webhooks

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// settle lets the server go on for a moment of its own clock.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// bubble runs a test on a server whose clock is the test's.
func bubble(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer func() { w.stop() }()
		settle(time.Second)
		fn(t, w)
	})
}

// A delivery that fails is tried again behind each of the waits of the contract, under the same
// id and with the same body, and is given up behind the last.
func TestTriedAgainAsWritten(t *testing.T) {
	waits := []time.Duration{30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour, 4 * time.Hour, 12 * time.Hour, 24 * time.Hour}
	for name, answer := range map[string]func(arrival) (int, http.Header, error){
		"500": status(500), "429": status(429), "503": status(503), "a redirect that is not followed": status(302), "no answer": func(arrival) (int, http.Header, error) { return 0, nil, errors.New("refused") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				h := w.hook("job.enqueued")
				w.answers(answer)
				w.push(1, "a.b", "q")
				settle(60 * time.Hour)
				got := w.arrivals()
				if len(got) != len(waits)+1 {
					t.Fatalf("%d attempts, want %d", len(got), len(waits)+1)
				}
				for i, a := range got {
					if a.id != got[0].id || string(a.body) != string(got[0].body) || a.event != got[0].event || a.id == "" {
						t.Errorf("attempt %d is another delivery: %s %s", i, a.id, a.body)
					}
					if i > 0 && a.at.Sub(got[i-1].at).Round(10*time.Millisecond) != waits[i-1] {
						t.Errorf("attempt %d came %v behind the one before, want %v", i, a.at.Sub(got[i-1].at), waits[i-1])
					}
				}
				s := w.state(h.ID)
				if s.Dead != 1 || s.Waiting != 0 || s.Failed != int64(len(got)) || s.Succeeded != 0 || s.LastStatus != "dead" {
					t.Errorf("%+v", s)
				}
				if n := strings.Count(w.log.String(), "was given up"); n != 1 {
					t.Errorf("given up %d times in the log:\n%s", n, w.log)
				}
			})
		})
	}
}

// What a status comes to.
func TestVerdicts(t *testing.T) {
	for code, want := range map[int]string{200: delivered, 201: delivered, 204: delivered, 299: delivered, 301: retrying, 302: retrying, 307: retrying, 400: dead, 401: dead, 404: dead, 410: dead,
		429: retrying, 499: dead, 500: retrying, 503: retrying, 600: retrying} {
		if got, _ := (outcome{status: code}).verdict(1); got != want {
			t.Errorf("%d is %s, want %s", code, got, want)
		}
		if got, _ := (outcome{status: code}).verdict(8); want == retrying && got != dead {
			t.Errorf("%d at the eighth attempt is %s", code, got)
		}
	}
	if got, _ := (outcome{err: errors.New("x")}).verdict(7); got != retrying {
		t.Errorf("no answer is %s", got)
	}
}

// What a receiver does not want is given up at once, and the next event is sent.
func TestRefusedDeliveriesEnd(t *testing.T) {
	for _, code := range []int{400, 404, 410} {
		bubble(t, func(t *testing.T, w *world) {
			h := w.hook("*")
			w.answers(status(code))
			w.push(3, "a.b", "q")
			settle(48 * time.Hour)
			if got := w.arrivals(); len(got) != 3 {
				t.Errorf("%d: %d attempts", code, len(got))
			}
			if s := w.state(h.ID); s.Dead != 3 || s.Waiting != 0 {
				t.Errorf("%d: %+v", code, s)
			}
		})
	}
}

// A receiver may ask for more time, and not for less, and not for more than a day.
func TestRetryAfter(t *testing.T) {
	for _, tt := range []struct {
		code   int
		header string
		want   time.Duration
	}{
		{429, "90", 90 * time.Second}, {503, "90", 90 * time.Second}, {500, "90", 30 * time.Second}, {503, "5", 30 * time.Second}, {429, "9999999999999", 24 * time.Hour},
		{429, "-5", 30 * time.Second}, {429, "soon", 30 * time.Second}, {503, "", 30 * time.Second}, {429, "Sat, 01 Jan 2000 00:05:01 GMT", 5 * time.Minute},
	} {
		bubble(t, func(t *testing.T, w *world) {
			w.hook("*")
			w.answers(func(arrival) (int, http.Header, error) { return tt.code, http.Header{"Retry-After": {tt.header}}, nil })
			w.push(1, "a.b", "q")
			settle(26 * time.Hour)
			got := w.arrivals()
			if d := got[1].at.Sub(got[0].at); d.Round(time.Second) != tt.want {
				t.Errorf("%d with %q: tried again after %v, want %v", tt.code, tt.header, d, tt.want)
			}
		})
	}
}

// An answer that comes too late is none: the same delivery is sent again, and not before the first has ended.
func TestLateAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		h := w.hook("job.enqueued")
		w.answers(func(a arrival) (int, http.Header, error) {
			if len(w.arrivals()) > 1 {
				return 200, nil, nil
			}
			return hang(a)
		})
		w.push(1, "a.b", "q")
		settle(10 * time.Minute)
		got := w.arrivals()
		if len(got) != 2 || got[0].id != got[1].id {
			t.Fatalf("%v", got)
		}
		if d := got[1].at.Sub(got[0].at).Round(10 * time.Millisecond); d != time.Minute {
			t.Errorf("the second came %v later, want the 30 s of the timeout and the 30 s of the wait", d)
		}
		if s := w.state(h.ID); s.Succeeded != 1 || s.Failed != 1 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// An event that fails is put aside, and those behind it are sent.
func TestOthersGoOn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		h := w.hook("job.enqueued")
		w.answers(func(a arrival) (int, http.Header, error) {
			if strings.Contains(string(a.body), `"bad.one"`) {
				return 500, nil, nil
			}
			return 200, nil, nil
		})
		bad := w.push(1, "bad.one", "q")
		good := w.push(200, "a.b", "q")
		settle(10 * time.Second)
		seen := map[string]int{}
		for _, a := range w.arrivals() {
			seen[a.job]++
		}
		for _, id := range good {
			if seen[id] != 1 {
				t.Fatalf("job %s was told of %d times", id, seen[id])
			}
		}
		if s := w.state(h.ID); seen[bad[0]] != 1 || s.Waiting != 1 || s.Succeeded != 200 || s.After < 201 {
			t.Errorf("%+v", s)
		}
	})
}

// The events, the filter, the creation and the pause of a webhook say what it is sent.
func TestWhatIsSent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.push(3, "before.it", "q") // is told to nobody
		all, some := w.hook("*"), w.hookWith(job.WebhookSpec{URL: "https://receiver.test/some?x=1", Events: []string{"job.*"},
			Filter: job.WebhookFilter{Queues: []string{"wanted"}, JobTypes: []string{"mail.*"}, Types: []string{"job.enqueued"}}})
		w.push(1, "mail.send", "wanted")
		w.push(1, "mail.send", "other")
		w.push(1, "sms.send", "wanted")
		settle(time.Second)
		count := func(h job.Webhook) (n int) {
			for _, a := range w.arrivals() {
				if a.hook == h.ID {
					n++
				}
			}
			return n
		}
		if count(all) < 3 || count(some) != 1 {
			t.Errorf("%d and %d were sent: %v", count(all), count(some), w.arrivals())
		}
		for _, a := range w.arrivals() {
			if strings.Contains(string(a.body), "before.it") {
				t.Errorf("an event from before the webhook was sent: %s", a.body)
			}
		}
		paused := true
		if _, err := w.ChangeWebhook(t.Context(), some.ID, job.WebhookChange{Paused: &paused}); err != nil {
			t.Fatal(err)
		}
		settle(time.Second)
		w.push(5, "mail.send", "wanted")
		settle(time.Second)
		paused = false
		if _, err := w.ChangeWebhook(t.Context(), some.ID, job.WebhookChange{Paused: &paused}); err != nil {
			t.Fatal(err)
		}
		w.push(2, "mail.send", "wanted")
		settle(time.Second)
		if count(some) != 3 {
			t.Errorf("%d were sent, want 1 and 2 behind the pause", count(some))
		}
		if err := w.DeleteWebhook(t.Context(), some.ID); err != nil {
			t.Fatal(err)
		}
		w.push(2, "mail.send", "wanted")
		settle(time.Second)
		if count(some) != 3 {
			t.Errorf("a webhook that was deleted was sent something")
		}
	})
}

// What is sent is the event as GET /events shows it, with the headers of the contract.
func TestHeadersAndSignature(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		h, err := w.CreateWebhook(t.Context(), job.WebhookSpec{URL: "http://receiver.test/", Events: []string{"job.enqueued"}}, "a secret of the caller's")
		if err != nil {
			t.Fatal(err)
		}
		w.push(1, "a.b", "q")
		settle(time.Second)
		a := w.arrivals()[0]
		for name, want := range map[string]string{"User-Agent": "OJS-Webhook/1.0", "X-OJS-Event-Type": "job.enqueued", "X-OJS-Subscription-ID": h.ID, "X-OJS-Delivery-ID": deliveryID(h.ID, a.event),
			"X-OJS-Timestamp": strconv.FormatInt(a.at.Unix(), 10), "Content-Type": "application/json", "X-OJS-Signature": Sign("a secret of the caller's", a.body)} {
			if got := a.header[name]; len(got) != 1 || got[0] != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		again, err := w.RotateWebhookSecret(t.Context(), h.ID)
		if err != nil || len(again) != 64 {
			t.Fatalf("%q, %v", again.Reveal(), err)
		}
		settle(time.Second)
		w.push(1, "a.b", "q")
		settle(time.Second)
		if b := w.arrivals()[1]; b.signature != Sign(again, b.body) {
			t.Errorf("signed with another secret: %s", b.signature)
		}
	})
}

// A restart loses nothing, and sends nothing again that was delivered.
func TestRestart(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		h := w.hook("job.enqueued")
		w.answers(status(500))
		first := w.push(3, "a.b", "q")
		settle(time.Second)
		w.restart()
		w.answers(nil)
		settle(time.Minute)
		second := w.push(2, "a.b", "q")
		settle(time.Minute)
		w.restart()
		settle(time.Hour)
		seen := map[string]int{}
		for _, a := range w.arrivals() {
			seen[a.job]++
		}
		for _, id := range first {
			if seen[id] != 2 {
				t.Errorf("%s was sent %d times, want once in vain and once more", id, seen[id])
			}
		}
		for _, id := range second {
			if seen[id] != 1 {
				t.Errorf("%s was sent %d times", id, seen[id])
			}
		}
		if s := w.state(h.ID); s.Succeeded != 5 || s.Failed != 3 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A stop in the middle of deliveries ends at once, and they are sent again.
func TestStopInTheMiddle(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		h := w.hook("job.enqueued")
		w.answers(hang)
		ids := w.push(10, "a.b", "q")
		settle(time.Second)
		if n := len(w.arrivals()); n != slots {
			t.Errorf("%d are on their way, want %d", n, slots)
		}
		began := time.Now()
		w.stop()
		if d := time.Since(began); d > time.Second {
			t.Errorf("the stop took %v", d)
		}
		w.answers(nil)
		w.start()
		settle(time.Second)
		seen := map[string]bool{}
		for _, a := range w.arrivals()[slots:] {
			seen[a.job] = true
		}
		if s := w.state(h.ID); len(seen) != len(ids) || s.Succeeded != int64(len(ids)) || s.Failed != 0 {
			t.Errorf("%d of %d were sent, %+v", len(seen), len(ids), s)
		}
	})
}

// Without an allowed target nothing is sent, and what happened meanwhile is not sent later.
func TestOff(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		on := w.hook("*")
		w.stop()
		w.allowed = Allowed{}
		w.start()
		settle(time.Second)
		off := w.hook("job.enqueued")
		if len(off.Warnings) != 1 || !strings.Contains(off.Warnings[0].Message, "--allow-webhook") || off.Paused {
			t.Errorf("%+v", off)
		}
		w.push(5, "a.b", "q")
		settle(time.Hour)
		if _, err := w.TestWebhook(t.Context(), off.ID); job.KindOf(err) != job.Conflict || !strings.Contains(err.Error(), "--allow-webhook") {
			t.Errorf("a test: %v", err)
		}
		w.stop()
		w.allowed = everywhere(t)
		w.start()
		settle(time.Second)
		if n := len(w.arrivals()); n != 0 {
			t.Errorf("%d were sent", n)
		}
		w.push(1, "a.b", "q")
		settle(time.Second)
		for _, h := range []job.Webhook{on, off} {
			if s := w.state(h.ID); s.Succeeded == 0 || s.Off {
				t.Errorf("%+v", s)
			}
		}
	})
}

// A receiver that fails for long is left alone in between, its webhook stays active, and it gets all when it is back.
func TestLongFailure(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		h := w.hook("job.enqueued")
		w.answers(hang)
		const many = 300
		w.push(many, "a.b", "q")
		settle(time.Hour)
		tries := len(w.arrivals())
		if tries > 120 { // one at a time, 30 s each, and fewer with the holds
			t.Errorf("%d attempts in an hour at a receiver that hangs", tries)
		}
		if s := w.state(h.ID); s.Paused {
			t.Errorf("%+v", s)
		}
		w.answers(nil)
		settle(60 * time.Hour)
		seen := map[string]bool{}
		for _, a := range w.arrivals()[tries:] {
			seen[a.job] = true
		}
		if s := w.state(h.ID); s.Succeeded != many || s.Waiting != 0 || s.Dead != 0 || len(seen) != many {
			t.Errorf("%d, %+v", len(seen), s)
		}
	})
}

// Events that have left the log before they could be sent are counted, and told of once.
func TestMissed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		h := w.hook("job.enqueued")
		w.push(1, "a.b", "q")
		settle(time.Second)
		w.stop()
		w.allowed = everywhere(t)
		w.start()
		w.stop() // the server is down while the log is written and pruned
		w.openQuietly(func() {
			w.push(20, "a.b", "q")
			if err := w.store.Update(t.Context(), func(tx job.Tx) error {
				_, err := tx.PruneEvents(time.Now().Add(time.Hour), 10)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		})
		w.start()
		settle(time.Second)
		s := w.state(h.ID)
		if left := int64(len(w.arrivals())) - 1; s.Missed == 0 || s.Missed+left < 20 || left == 0 || strings.Count(w.log.String(), "had left the log") != 1 {
			t.Errorf("missed %d, sent %d\n%s", s.Missed, left, w.log)
		}
	})
}

// While all receivers hang no caller of the job server waits for them, and no more is on its way than may be.
func TestJobsDoNotWait(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for range job.MaxWebhooks {
			w.hook("*")
		}
		w.answers(hang)
		began := time.Now()
		for range 20 {
			for _, id := range w.push(10, "a.b", "q") {
				jobs, err := w.side.Fetch(t.Context(), job.FetchRequest{Queues: []string{"q"}, Count: 1, Worker: "w"})
				if err != nil || len(jobs) != 1 || string(jobs[0].ID) != id {
					t.Fatalf("%v, %v", jobs, err)
				}
				if _, err := w.side.Ack(t.Context(), job.Claim{ID: jobs[0].ID}, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("the jobs waited %v", d)
		}
		settle(10 * time.Second)
		if n := len(w.arrivals()); n != allSlots {
			t.Errorf("%d are on their way, want %d", n, allSlots)
		}
	})
}

// Without webhooks the log is not looked at, whatever is pushed.
func TestNoWebhooksNoWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		settle(time.Second)
		w.Webhooks.mu.Lock()
		n := len(w.posts)
		w.Webhooks.mu.Unlock()
		w.push(100, "a.b", "q")
		settle(time.Hour)
		if n != 0 || w.feed.end != 0 || w.feed.last != nil {
			t.Errorf("%d couriers, %+v", n, &w.feed)
		}
	})
}
