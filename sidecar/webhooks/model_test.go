package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrider-jobs/outrider/internal/wire"
	"github.com/outrider-jobs/outrider/job"
)

// Whatever webhooks are subscribed to and however their receivers fail, in good and bad order of
// starts and stops: each of them is sent what it wants, nothing else, each event until it was
// delivered or given up, signed, and under one id.
func TestWebhooksFollowTheModel(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) { play(t, w, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

// wanted is what the model knows of a webhook: it works out by itself what that wants.
type wanted struct {
	spec   job.WebhookSpec
	secret job.Secret
	from   int64 // Seq of the last event before it
}

// wants is the rule, written down a second time.
func (m wanted) wants(e job.Event) bool {
	matches := func(patterns []string, s string) bool {
		for _, p := range patterns {
			if p == s || p == "*" || strings.HasSuffix(p, ".*") && strings.HasPrefix(s, p[:len(p)-1]) {
				return true
			}
		}
		return len(patterns) == 0
	}
	return e.Seq > m.from && matches(m.spec.Events, e.Type) && matches(m.spec.Filter.Queues, e.Queue) && matches(m.spec.Filter.JobTypes, e.JobType)
}

func play(t *testing.T, w *world, r *rand.Rand) {
	model := map[string]wanted{}
	outcome := map[string]int{} // the last status of a delivery
	var mu sync.Mutex
	calm := false
	w.answers(func(a arrival) (int, http.Header, error) {
		mu.Lock()
		code := 200
		if !calm {
			code = []int{200, 200, 200, 500, 429, 404, 0, -1}[r.IntN(8)]
		}
		outcome[a.id] = code
		mu.Unlock()
		switch code {
		case 0:
			return 0, nil, errors.New("reset by peer")
		case -1:
			return hang(a)
		}
		return code, nil, nil
	})
	pick := func(all ...string) string { mu.Lock(); defer mu.Unlock(); return all[r.IntN(len(all))] }
	n := func(most int) int { mu.Lock(); defer mu.Unlock(); return r.IntN(most) }
	types, queues := []string{"mail.send", "mail.read", "sms.send"}, []string{"a", "b", "c"}
	for range 40 {
		switch k := n(10); {
		case k < 2 && len(model) < 8:
			spec := job.WebhookSpec{URL: "http://receiver.test/", Events: []string{pick("*", "job.*", "job.enqueued", "queue.paused", "job.completed")}}
			if n(2) == 0 {
				spec.Filter.Queues = []string{pick(queues...), pick(queues...)}
			}
			if n(3) == 0 {
				spec.Filter.JobTypes = []string{pick("mail.*", "sms.send", "none.*")}
			}
			h := w.hookWith(spec)
			model[h.ID] = wanted{spec, h.Secret, w.state(h.ID).After}
		case k < 7:
			w.push(n(12), pick(types...), pick(queues...))
		case k == 7:
			if _, err := w.side.SetQueueStatus(t.Context(), pick(queues...), pick(job.QueuePaused, job.QueueActive), ""); err != nil {
				t.Fatal(err)
			}
		case k == 8:
			w.restart()
		default:
			settle(time.Duration(n(40)) * time.Second)
		}
	}
	mu.Lock()
	calm = true
	mu.Unlock()
	settle(100 * time.Hour)
	var all []job.Event
	for after := int64(0); ; {
		es, err := w.side.Events(context.Background(), job.EventFilter{After: after, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if len(es) == 0 {
			break
		}
		all, after = append(all, es...), es[len(es)-1].Seq
	}
	type key struct{ hook, event string }
	ids, last := map[key]string{}, map[key]int{}
	for _, a := range w.arrivals() {
		k := key{a.hook, a.event}
		if ids[k] != "" && ids[k] != a.id {
			t.Errorf("%v was sent under two ids", k)
		}
		if a.signature != Sign(model[a.hook].secret, a.body) {
			t.Errorf("%v is signed %s", k, a.signature)
		}
		ids[k] = a.id
		mu.Lock()
		last[k] = outcome[a.id]
		mu.Unlock()
	}
	for id, m := range model {
		for _, e := range all {
			var shown struct{ ID string }
			if err := json.Unmarshal(wire.AppendEvent(nil, e), &shown); err != nil {
				t.Fatal(err)
			}
			k := key{id, shown.ID}
			code, sent := last[k]
			switch {
			case sent != m.wants(e):
				t.Errorf("event %d (%s %s %s) was sent to %+v: %v", e.Seq, e.Type, e.Queue, e.JobType, m.spec, sent)
			case sent && code != 200 && code != 404:
				t.Errorf("event %d was last answered %d", e.Seq, code)
			}
		}
		if s := w.state(id); s.Waiting != 0 || s.Missed != 0 {
			t.Errorf("%+v", s)
		}
	}
	synctest.Wait()
}
