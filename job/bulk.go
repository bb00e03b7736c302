package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// The bounds of bulk requests (contract §1.8).
const (
	MaxBulkItems      = 1000 // jobs of a filter of which the answer tells one by one
	MaxIdempotencyKey = 256
	KeepIdempotent    = 24 * time.Hour // answers under an idempotency key
)

// What can be done to many jobs.
const (
	BulkCancel = "cancel" // those that have not ended
	BulkRetry  = "retry"  // those that are discarded, or wait for their retry
	BulkDelete = "delete" // those that have ended
)

// Idempotency makes a request that is sent again answer as it did before.
type Idempotency struct {
	Key    string // empty: no such thing
	Digest string // of the request: another one under the same key is refused
}

// Check is Invalid for a key that is too long.
func (i Idempotency) Check() error {
	if len(i.Key) > MaxIdempotencyKey {
		return invalid(Invalid, "idempotency_key", "must be at most %d bytes, got %d", MaxIdempotencyKey, len(i.Key))
	}
	return nil
}

// ReusedKey is the Conflict for a key under which something else was asked.
func ReusedKey(key string) error {
	return Errorf(Conflict, "the idempotency key %.80q was used for another request in the last 24 hours; choose another key for this one", key).
		With(map[string]any{"field": "idempotency_key", "reason": "idempotency_key_reuse", "hint": "Send the same request under a key, and another request under another."})
}

// BulkJob is one job to be stored: an envelope that was checked, or why it is none.
type BulkJob struct {
	Checked
	Err error
}

// BulkPush is many jobs to be stored.
type BulkPush struct {
	Jobs   []BulkJob
	Atomic bool // all or none
	Idempotency
}

// BulkAct is what is to be done to many jobs, named by their ids or by a filter.
type BulkAct struct {
	Action string // BulkCancel, BulkRetry or BulkDelete
	IDs    []ID
	Filter *BulkFilter
	DryRun bool   // only say what would be done
	By     string // who asks
	Reason string
	Idempotency
}

// Check is Invalid for what cannot be asked, and TooLarge for too many ids.
func (a BulkAct) Check() error {
	switch {
	case a.Action != BulkCancel && a.Action != BulkRetry && a.Action != BulkDelete:
		return invalid(Invalid, "action", "must be cancel, retry or delete, got %.40q", a.Action)
	case a.IDs != nil && a.Filter != nil:
		return invalid(Invalid, "filter", "is given beside job_ids: one of them is enough")
	case len(a.IDs) > MaxBatch:
		return Errorf(TooLarge, "%d ids in one call, at most %d are taken; send several calls, or a filter", len(a.IDs), MaxBatch).
			With(map[string]any{"size": len(a.IDs), "max_batch_size": MaxBatch})
	case a.Filter == nil && len(a.IDs) == 0:
		return invalid(Invalid, "job_ids", "is required: at least one id, or a filter in its place")
	case a.Filter != nil && a.Filter.open():
		return invalid(Invalid, "filter", "must name at least one member: without any it would be about every job")
	}
	return a.Idempotency.Check()
}

// Do does it to one job. A Conflict or Finished says why not; removed is for whoever
// stores jobs to do.
func (a BulkAct) Do(j *Job, now time.Time) (removed bool, err error) {
	switch a.Action {
	case BulkCancel:
		if j.State == Cancelled {
			return false, Errorf(Conflict, "job %s is cancelled already", j.ID)
		}
		return false, j.Cancel(now, a.By, a.Reason)
	case BulkRetry:
		return false, j.RetryNow(now)
	}
	if !j.State.Terminal() {
		return false, Errorf(Conflict, "job %s is %s; only jobs that have ended can be deleted", j.ID, j.State)
	}
	return true, nil
}

// RetryNow takes a discarded job back into its queue, as Revive does, and lets one
// that waits for its retry into it now. Conflict for others.
func (j *Job) RetryNow(now time.Time) error {
	if j.State != Retryable {
		return j.Revive(now)
	}
	if j.Expired(now) {
		return Errorf(Conflict, "job %s must not run any more: it expired at %s", j.ID, FormatTime(j.ExpiresAt))
	}
	j.NextRetryAt = earlier(j.NextRetryAt, now)
	return j.Ready(now)
}

// BulkFilter chooses jobs. What is zero does not restrict.
type BulkFilter struct {
	Filter         // of it Queue, Type, States, and Since and Until of the time of PUSH
	EnqueuedAfter  time.Time
	EnqueuedBefore time.Time
	OlderThan      time.Time // when it ended, or else came, is before that
	Priority       *int
	Meta           map[string]json.RawMessage // members of meta and their values
}

// open reports whether the filter lets every job through.
func (f *BulkFilter) open() bool {
	return f.Queue == "" && f.Type == "" && len(f.States) == 0 && f.Since.IsZero() && f.Until.IsZero() &&
		f.EnqueuedAfter.IsZero() && f.EnqueuedBefore.IsZero() && f.OlderThan.IsZero() && f.Priority == nil && len(f.Meta) == 0
}

// Takes reports whether a job that a list by Filter holds is meant.
func (f *BulkFilter) Takes(j *Job) bool {
	switch {
	case !f.EnqueuedAfter.IsZero() && !j.EnqueuedAt.After(f.EnqueuedAfter),
		!f.EnqueuedBefore.IsZero() && (j.EnqueuedAt.IsZero() || !j.EnqueuedAt.Before(f.EnqueuedBefore)),
		f.Priority != nil && j.Priority != *f.Priority,
		!f.OlderThan.IsZero() && !j.ended().Before(f.OlderThan),
		f.Queue != "" && j.Queue != f.Queue, // it may have changed since it was listed
		len(f.States) > 0 && !slices.Contains(f.States, j.State):
		return false
	}
	for name, want := range f.Meta {
		if !alikeJSON(rawjson.Member(j.Meta, name), want) {
			return false
		}
	}
	return true
}

// ended is when the job ended, or else when it came.
func (j *Job) ended() time.Time {
	if j.FinishedAt.IsZero() {
		return j.CreatedAt
	}
	return j.FinishedAt
}

// alikeJSON reports whether two JSON texts have one value.
func alikeJSON(a, b json.RawMessage) bool {
	if a == nil || b == nil {
		return false
	}
	x, err := rawjson.Canonical(a)
	if err != nil {
		return bytes.Equal(a, b)
	}
	y, err := rawjson.Canonical(b)
	return err == nil && bytes.Equal(x, y)
}

// What became of one job of many.
const (
	BulkCreated   = "created"
	BulkDuplicate = "duplicate" // a job that is stored answers for it
	BulkFailed    = "failed"
	BulkSkipped   = "skipped" // there was nothing to do to it
	BulkDone      = "succeeded"
)

// BulkItem is what became of one job of many.
type BulkItem struct {
	Index  int
	ID     ID
	Status string
	Job    *Job  // of PushEach: the job that answers
	Err    error // why it failed, or was skipped
}

// BulkResult is what became of many jobs.
type BulkResult struct {
	Action    string // empty of PushEach
	DryRun    bool
	Atomic    bool
	Total     int64 // that were named, or that the filter lets through
	Succeeded int64
	Failed    int64
	Skipped   int64
	Items     []BulkItem // by Index; of a filter the first MaxBulkItems
	Replayed  bool       // it is the answer of an earlier request with the same idempotency key
}

// Note counts an item, and keeps it.
func (r *BulkResult) Note(it BulkItem, keep bool) {
	r.Total++
	switch {
	case it.Status == BulkFailed, it.Status == BulkDuplicate && it.Err != nil:
		r.Failed++
	case it.Status == BulkSkipped:
		r.Skipped++
	default:
		r.Succeeded++
	}
	if keep {
		r.Items = append(r.Items, it)
	}
}

// keptResult is a BulkResult as it is stored.
type keptResult struct {
	Action                            string `json:",omitempty"`
	DryRun, Atomic                    bool   `json:",omitempty"`
	Total, Succeeded, Failed, Skipped int64
	Items                             []keptItem
}

type keptItem struct {
	Index  int
	ID     ID              `json:",omitempty"`
	Status string          `json:",omitempty"`
	Job    json.RawMessage `json:",omitempty"`
	Err    *keptError      `json:",omitempty"`
}

type keptError struct {
	Kind    Kind
	Message string
	Details map[string]any `json:",omitempty"`
}

// Encode is what a store keeps of a result.
func (r BulkResult) Encode() ([]byte, error) {
	k := keptResult{Action: r.Action, DryRun: r.DryRun, Atomic: r.Atomic, Total: r.Total, Succeeded: r.Succeeded, Failed: r.Failed, Skipped: r.Skipped}
	for _, it := range r.Items {
		one := keptItem{Index: it.Index, ID: it.ID, Status: it.Status}
		if it.Job != nil {
			one.Job = it.Job.AppendJSON(nil, View{})
		}
		if it.Err != nil {
			one.Err = &keptError{Kind: KindOf(it.Err), Message: it.Err.Error()}
			var e *Error
			if errors.As(it.Err, &e) {
				one.Err.Details = e.Details
			}
		}
		k.Items = append(k.Items, one)
	}
	return json.Marshal(k)
}

// ParseBulkResult reads what Encode wrote.
func ParseBulkResult(raw []byte) (r BulkResult, err error) {
	var k keptResult
	if err := json.Unmarshal(raw, &k); err != nil {
		return r, Errorf(Internal, "the answer under an idempotency key cannot be read: %w", err)
	}
	r = BulkResult{Action: k.Action, DryRun: k.DryRun, Atomic: k.Atomic, Total: k.Total, Succeeded: k.Succeeded, Failed: k.Failed, Skipped: k.Skipped}
	for _, one := range k.Items {
		it := BulkItem{Index: one.Index, ID: one.ID, Status: one.Status}
		if one.Job != nil {
			if it.Job, err = ParseCheckedJob(one.Job); err != nil {
				return r, err
			}
		}
		if one.Err != nil {
			it.Err = &Error{Kind: one.Err.Kind, Message: one.Err.Message, Details: one.Err.Details}
		}
		r.Items = append(r.Items, it)
	}
	return r, nil
}
