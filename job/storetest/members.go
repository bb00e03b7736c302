package storetest

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// A store may write a job that asks for nothing special in a shorter way. Each
// member is set alone here, beside the state that it goes with, so that none is
// left out of what makes a job special.

// happened sets one member of a status, of which the store gives Seq and LastEvent.
var happened = map[string]func(*testing.T, *job.Job){
	"State":       func(t *testing.T, j *job.Job) { j.State = job.Pending },
	"Attempt":     func(t *testing.T, j *job.Job) { j.Attempt = 2 },
	"Releases":    func(t *testing.T, j *job.Job) { j.Attempt, j.Releases = 3, 3 },
	"Seq":         func(t *testing.T, j *job.Job) { j.Seq = 0 },
	"DueAt":       func(t *testing.T, j *job.Job) { j.ExpiresAt, j.DueAt = Now.Add(time.Minute), Now.Add(time.Minute) },
	"CreatedAt":   func(t *testing.T, j *job.Job) { j.CreatedAt = Now.Add(-time.Minute) },
	"EnqueuedAt":  func(t *testing.T, j *job.Job) { j.EnqueuedAt = Now.Add(time.Second) },
	"StartedAt":   func(t *testing.T, j *job.Job) { j.StartedAt = Now.Add(time.Second) },
	"ActivatedAt": func(t *testing.T, j *job.Job) { j.ActivatedAt = Now.Add(time.Second) },
	"FinishedAt":  func(t *testing.T, j *job.Job) { j.State, j.FinishedAt = job.Completed, Now.Add(time.Second) },
	"NextRetryAt": func(t *testing.T, j *job.Job) {
		j.State, j.NextRetryAt, j.DueAt = job.Retryable, Now.Add(time.Second), Now.Add(time.Second)
	},
	"RetryDelay": func(t *testing.T, j *job.Job) { j.RetryDelay = 1500 * time.Millisecond },
	"Lease": func(t *testing.T, j *job.Job) {
		j.State, j.DueAt = job.Active, Now.Add(time.Minute)
		j.Lease = job.Lease{Token: "t", Worker: "w", Length: time.Minute, Until: Now.Add(time.Minute)}
	},
	"Lost": func(t *testing.T, j *job.Job) {
		j.Lost = &job.LostLease{Token: "t", Length: time.Second, At: Now, Fetches: 1}
	},
	"Dead":        func(t *testing.T, j *job.Job) { j.State, j.FinishedAt, j.Dead = job.Discarded, Now, true },
	"LastEvent":   func(t *testing.T, j *job.Job) { j.LastEvent = 0 },
	"Fingerprint": func(t *testing.T, j *job.Job) { keyed(t, j) },
	"Holds":       func(t *testing.T, j *job.Job) { keyed(t, j); j.Holds = job.SetOf(job.Available) },
	"DedupUntil": func(t *testing.T, j *job.Job) {
		keyed(t, j)
		j.DedupUntil, j.Keep = Now.Add(time.Hour), Now.Add(time.Hour)
	},
	"DedupFreed":  func(t *testing.T, j *job.Job) { keyed(t, j); j.DedupFreed = true },
	"RewrittenAt": func(t *testing.T, j *job.Job) { j.RewrittenAt = Now.Add(time.Second) },
	"After":       func(t *testing.T, j *job.Job) { j.After = New(t, "q", nil).ID },
	"Keep":        func(t *testing.T, j *job.Job) { j.Keep = Now.Add(time.Hour) },
	"Tenant":      func(t *testing.T, j *job.Job) { j.Tenant = "t" },
	"Lane":        func(t *testing.T, j *job.Job) { j.Lane = "k" },
	"Behind":      func(t *testing.T, j *job.Job) { j.Lane, j.Behind = "k", true },
	"Result":      func(t *testing.T, j *job.Job) { j.Result = json.RawMessage(`null`) },
	"Error":       func(t *testing.T, j *job.Job) { j.Error = json.RawMessage(`{"type":"E","message":"m"}`) },
	"Progress": func(t *testing.T, j *job.Job) {
		j.Progress = &job.Progress{Fraction: 0.1, Measured: true, Message: "\"", Data: json.RawMessage(`[1e2, null]`), At: Now}
	},
	"Checkpoint": func(t *testing.T, j *job.Job) {
		j.Checkpoint = &job.Checkpoint{State: json.RawMessage(`{"a": 1e2}`), Sequence: 2, CreatedAt: Now, UpdatedAt: Now.Add(time.Second)}
	},
	"Flow": func(t *testing.T, j *job.Job) {
		j.Flow = &job.FlowRef{Workflow: New(t, "q", nil).ID, Step: "a/b é", Node: 7, Parent: 3}
	},
	"ParentResults": func(t *testing.T, j *job.Job) { j.ParentResults = json.RawMessage(`[1, null]`) },
	"ParentErrors":  func(t *testing.T, j *job.Job) { j.ParentErrors = json.RawMessage(`[{"type":"E"}]`) },
	"Errors":        func(t *testing.T, j *job.Job) { j.Errors = json.RawMessage(`[{"type":"E","message":"m"}]`) },
}

// keyed makes of j a job whose keys no other has.
func keyed(t *testing.T, j *job.Job) {
	*j = *New(t, "q", func(n *job.Job) {
		n.Unique = json.RawMessage(`{"key":"` + string(n.ID) + `"}`)
		n.Deduplication = json.RawMessage(`{"id":"` + string(n.ID) + `"}`)
	})
}

// statusMembers stores jobs of which one member of the status alone is set: one
// by one, and many of a kind together.
func statusMembers(t *testing.T, s job.Store) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[job.Status]()) {
		set := happened[f.Name]
		if set == nil {
			t.Errorf("job.Status.%s has no case: add one, and see to it that a store keeps it", f.Name)
			continue
		}
		made := func() *job.Job {
			j := New(t, "q", nil)
			set(t, j)
			return j
		}
		one, many := made(), []*job.Job(nil)
		for range 40 {
			many = append(many, made())
		}
		insert(t, s, one)
		update(t, s, func(tx job.Tx) error {
			stored, err := tx.InsertJobs(many)
			if slices.Contains(stored, false) {
				t.Errorf("%s: stored %v", f.Name, stored)
			}
			return err
		})
		for _, j := range append(many, one) {
			same(t, read(t, s, j.ID), j)
		}
	}
}

// ofKeys are the members that only a job with keys has, or had.
var ofKeys = []string{"Fingerprint", "Holds", "DedupUntil", "DedupFreed", "RewrittenAt", "Keep"}

// fixed are the members that never change.
var fixed = []string{"CreatedAt", "Flow", "ParentResults", "ParentErrors"}

// statusChanges changes one member of the status of a job that is stored, with keys
// and without: alone, beside those that a claim changes, and back.
func statusChanges(t *testing.T, s job.Store) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[job.Status]()) {
		if slices.Contains(fixed, f.Name) || happened[f.Name] == nil { // it never changes; statusMembers tells
			continue
		}
		for _, withKeys := range []bool{false, true} {
			if !withKeys && slices.Contains(ofKeys, f.Name) {
				continue
			}
			with := New(t, "q", nil)
			if withKeys {
				keyed(t, with)
			}
			happened[f.Name](t, with)
			if f.Name == "Fingerprint" {
				with.Holds = 0 // which nothing holds without it
			}
			claimed, plain := with.Clone(), with.Clone()
			claimed.State, claimed.Attempt, claimed.StartedAt, claimed.DueAt = job.Active, claimed.Attempt+1, Now, Now.Add(time.Hour)
			claimed.Behind = false
			claimed.Lease = job.Lease{Token: "c", Worker: "x", Length: time.Hour, Until: Now.Add(time.Hour)}
			if reflect.ValueOf(&plain.Status).Elem().FieldByIndex(f.Index).SetZero(); plain.State == "" {
				plain.State = job.Available
			}
			insert(t, s, plain)
			for i, want := range []*job.Job{with, plain, claimed, with, claimed, plain} {
				var now *job.Job
				update(t, s, func(tx job.Tx) (err error) {
					if now, err = tx.Job(plain.ID); err != nil {
						return err
					}
					seq, told := now.Seq, now.LastEvent
					now.Status = want.Status
					if now.LastEvent = told; f.Name != "Seq" { // without one, the store gives the next
						now.Seq = seq
					}
					return tx.UpdateJob(now)
				})
				if same(t, read(t, s, now.ID), now); t.Failed() {
					t.Fatalf("%s, keys %v: change %d was not stored", f.Name, withKeys, i+1)
				}
			}
			update(t, s, func(tx job.Tx) error { return tx.DeleteJob(plain.ID) }) // no clock made it
		}
	}
}
