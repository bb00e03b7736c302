package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// auditKeys checks the keys of all jobs, and what the store finds by them
// against a look at all jobs. holding is its list of those that hold a key.
func auditKeys(t Reporter, tx job.ReadTx, jobs, holding []*job.Job) {
	t.Helper()
	type name struct{ queue, id string }
	prints, dedups, customs := map[string][]*job.Job{}, map[name][]*job.Job{}, map[name]*job.Job{}
	for _, j := range jobs {
		soundKeys(t, j)
		if j.Fingerprint != "" {
			prints[j.Fingerprint] = append(prints[j.Fingerprint], j)
		}
		if id, _ := j.DedupKey(); id != "" {
			dedups[name{j.Queue, id}] = append(dedups[name{j.Queue, id}], j)
		}
		if c := (name{j.Queue, j.CustomID}); j.CustomID != "" {
			if customs[c] != nil {
				t.Errorf("audit: %s and %s have both the custom id %s", j.ID, customs[c].ID, c.id)
			}
			customs[c] = j
		}
	}
	var claims []*job.Job
	for key, of := range prints {
		auditTwins(t, tx, key, of)
		if c := claimOf(of); c != nil {
			claims = append(claims, c)
		}
	}
	if !slices.Equal(alike(holding...), alike(claims...)) {
		t.Errorf("audit: the list of keys has %v; want %v", ids(holding...), ids(claims...))
	}
	for n, of := range dedups {
		instants := []time.Time{Now, Now.Add(1000 * 24 * time.Hour)}
		for _, j := range of {
			if _, until := j.DedupKey(); !until.IsZero() {
				instants = append(instants, until.Add(-time.Millisecond), until)
			}
		}
		for _, at := range instants {
			var want *job.Job
			for _, j := range of {
				if _, until := j.DedupKey(); until.IsZero() || at.Before(until) {
					want = newer(want, j)
				}
			}
			if got, err := tx.DedupOwner(n.queue, n.id, at); err != nil || !slices.Equal(alike(got), alike(want)) {
				t.Errorf("audit: at %s %s of queue %s is held by %v, %v; want %v", at, n.id, n.queue, ids(got), err, ids(want))
			}
		}
	}
	for n, want := range customs {
		if got, err := tx.Custom(n.queue, n.id); err != nil || !slices.Equal(ids(got), ids(want)) {
			t.Errorf("audit: custom id %s of queue %s is %v, %v; want %v", n.id, n.queue, ids(got), err, ids(want))
		}
	}
}

// claimOf is the job with which a list shows the key of these: the newest that
// has not ended, else the holder, or nil.
func claimOf(of []*job.Job) (claim *job.Job) {
	var holder *job.Job
	for _, j := range of {
		if !j.State.Terminal() {
			claim = newer(claim, j)
		}
		if j.Holds != 0 {
			holder = j
		}
	}
	if claim == nil {
		return holder
	}
	return claim
}

// newer is the one that was created later. Of those of one instant the one that was
// stored last is the newest, which nobody can see of them: see alike.
func newer(a, b *job.Job) *job.Job {
	if a == nil || b.CreatedAt.After(a.CreatedAt) {
		return b
	}
	return a
}

// alike describes jobs that were found by a key, so that those of one instant are the same.
func alike(jobs ...*job.Job) (all []string) {
	for _, j := range jobs {
		if j != nil {
			all = append(all, fmt.Sprintf("%s %v %v", j.Fingerprint, j.Holds != 0, j.CreatedAt))
		}
	}
	slices.Sort(all)
	return all
}

// auditTwins compares what Twins finds of the jobs with one key.
func auditTwins(t Reporter, tx job.ReadTx, key string, of []*job.Job) {
	t.Helper()
	var want []*job.Job
	newest := map[job.State]*job.Job{}
	for _, j := range of {
		if j.Holds == 0 {
			newest[j.State] = newer(newest[j.State], j)
			continue
		}
		if len(want) > 0 {
			t.Errorf("audit: %s and %s hold both the key %s", want[0].ID, j.ID, key)
		}
		want = append(want, j)
	}
	for _, j := range newest {
		want = append(want, j)
	}
	if got, err := tx.Twins(key, ""); err != nil || !slices.Equal(alike(got...), alike(want...)) {
		t.Errorf("audit: the twins of %s are %v, %v; want %v", key, ids(got...), err, ids(want...))
	}
}

// soundKeys checks that what is noted of a job's keys agrees with the rest of it.
func soundKeys(t Reporter, j *job.Job) {
	t.Helper()
	wrong := func(what string) {
		t.Errorf("audit: job %s is %s, %s", j.ID, j.State, what)
	}
	if j.Holds != 0 && !j.Holds.Has(j.State) {
		wrong(fmt.Sprintf("and holds its key in %v only", j.Holds.List()))
	}
	if j.Holds != 0 && j.Fingerprint == "" {
		wrong("and holds a key without having one")
	}
	if j.Fingerprint != "" && !job.ValidKey(j.Fingerprint) {
		wrong("and has the key " + j.Fingerprint + ", which is none")
	}
	if j.Fingerprint != "" && j.RewrittenAt.IsZero() { // else it is that of args and meta which are gone
		e := j.Envelope // checked again from the start, as a new one
		e.ScheduledAt, e.ExpiresAt, e.Delay, e.TTL, e.Hold = time.Time{}, time.Time{}, 0, 0, false
		if c, err := e.Check(); err != nil || c.UniqueKey() != j.Fingerprint {
			wrong(fmt.Sprintf("and has the key %s; by its policy it is %s, %v", j.Fingerprint, c.UniqueKey(), err))
		}
	}
	if id, until := j.DedupKey(); id != "" && j.State == job.Cancelled {
		wrong("and has still the deduplication key " + id + " until " + until.String())
	}
	if !j.DedupUntil.IsZero() && j.Deduplication == nil {
		wrong("and has a window without a deduplication key")
	}
	if _, until := j.DedupKey(); until.After(j.Keep) {
		wrong("and may be removed before the end of its window, at " + j.Keep.String())
	}
}
