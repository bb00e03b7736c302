package servicetest

import (
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var windows = []verdict{
	{"at the instant at which its period ends a job is nobody's twin, whatever its state and the strategy", uniqueWindowEnds},
	{"a replace leaves alone the twins whose period is over", uniqueWindowOfOne},
	{"without a period a key is held for ever, over restarts, as long as the state is one of those", uniqueForever},
	{"a window of a deduplication key ends at its instant, over a restart and whatever the state of its owner", dedupWindowEnds},
	{"without a window a deduplication key is held for ever, over restarts, and until its job has ended", dedupForever},
	{"a key that was released stays free over a restart", keysStayFree},
}

// everywhere counts a twin in every state.
const everywhere = `"states":["scheduled","available","pending","active","retryable","completed","cancelled","discarded"]`

// again starts the server anew, at this very instant.
func (k *kit) again() { k.begin(k.now()) }

// frees takes a unique key off all that carry it, so that nothing of this place is met in the next.
func (k *kit) frees(change func(*job.Envelope), jobs ...*job.Job) {
	k.t.Helper()
	for _, j := range jobs {
		k.clear(j)
	}
	if _, err := k.s.ReleaseKey(k.ctx(), k.key(change)); err != nil {
		k.t.Fatal(err)
	}
}

func uniqueWindowEnds(k *kit) {
	for _, p := range uniquePlaces() {
		for _, conflict := range []string{"reject", "ignore", "replace", "replace_except_schedule"} {
			policy := unique(`{"period":"PT10S",` + everywhere + `,"on_conflict":"` + conflict + `"}`)
			twin := p.reach(k, policy)
			k.reach(twin.CreatedAt.Add(10*time.Second - time.Millisecond))
			k.again()
			k.stands(k.read(twin.ID), p.state)
			k.rejects(p.name+", a millisecond before", twin, unique(`{"period":"PT10S",`+everywhere+`}`))
			before, told := text(k.read(twin.ID)), len(k.told(twin.ID))
			k.reach(twin.CreatedAt.Add(10 * time.Second))
			next := k.fresh(p.name+", "+conflict, policy)
			if got := k.read(twin.ID); text(got) != before || len(k.told(twin.ID)) != told {
				k.t.Errorf("%s, %s: it was\n%s\nand is\n%s\ntold %q", p.name, conflict, before, text(got), k.told(twin.ID))
			}
			k.frees(policy, twin, next)
		}
	}
}

// uniqueWindowOfOne: of two that would give way, the period counts one.
func uniqueWindowOfOne(k *kit) {
	for _, conflict := range []string{"replace", "replace_except_schedule"} {
		old := k.place("pending", unique(`{"states":["discarded"]}`))
		k.pass(time.Second)
		young := k.place("available", unique(`{"states":["discarded"]}`))
		k.reach(old.CreatedAt.Add(10 * time.Second))
		policy := unique(`{"period":"PT10S","on_conflict":"` + conflict + `"}`)
		next := k.replacing(conflict, young.ID, policy)
		k.stands(k.read(old.ID), job.Pending)
		k.stands(k.read(young.ID), job.Cancelled)
		k.frees(policy, old, next)
	}
}

func uniqueForever(k *kit) {
	for _, p := range uniquePlaces() {
		plain := unique(`{}`)
		twin := p.reach(k, plain)
		k.again()
		if p.state.Terminal() {
			k.frees(plain, k.fresh(p.name, plain))
			continue
		}
		k.rejects(p.name, twin, plain)
		k.begin(k.now().AddDate(30, 0, 0))
		k.rejects(p.name+", thirty years ago", twin, plain)
		k.met(p.name+", thirty years ago", job.Ignored, twin.ID, unique(`{"on_conflict":"ignore"}`))
		k.clear(twin)
		k.again()
		k.frees(plain, k.fresh(p.name+", cancelled", plain))
	}
}

func dedupWindowEnds(k *kit) {
	key := dedup(`{"id":"k","ttl":10}`)
	for _, p := range uniquePlaces() {
		owner := p.reach(k, key)
		if p.state != job.Cancelled { // which frees it
			k.reach(owner.CreatedAt.Add(10*time.Second - time.Millisecond))
			k.met(p.name, job.Deduplicated, owner.ID, key)
			k.again()
			k.met(p.name+", after a restart", job.Deduplicated, owner.ID, dedup(`{"id":"k"}`))
			k.stands(k.read(owner.ID), p.state)
			k.reach(owner.CreatedAt.Add(10 * time.Second))
		}
		k.unowned(p.name, queue, "k")
		next := k.fresh(p.name+", afterwards", key)
		k.stands(k.read(owner.ID), p.state)
		k.clear(owner)
		k.clear(next)
	}
}

func dedupForever(k *kit) {
	key := dedup(`{"id":"k"}`)
	for _, p := range uniquePlaces() {
		owner := p.reach(k, key)
		k.again()
		if !p.state.Terminal() {
			k.met(p.name, job.Deduplicated, owner.ID, key)
			k.begin(k.now().AddDate(30, 0, 0))
			k.met(p.name+", thirty years ago", job.Deduplicated, owner.ID, key)
			k.clear(owner)
		}
		k.unowned(p.name+", ended", queue, "k")
		k.clear(k.fresh(p.name+", ended", key))
	}
}

func keysStayFree(k *kit) {
	all := both(unique(`{`+everywhere+`}`), dedup(`{"id":"k","ttl":3600}`), custom("c"))
	first := k.push(all)
	k.releases("k", true)
	k.frees(all)
	k.again()
	k.unowned("after a restart", queue, "k")
	k.met("the custom id stays", job.SameCustomID, first.ID, all)
	second := k.fresh("after a restart", both(all, custom("d")))
	k.stands(k.read(first.ID), job.Available)
	k.again()
	k.met("the new owner", job.Deduplicated, second.ID, both(all, custom("e")))
	k.rejects("the new twin", second, unique(`{}`))
}
