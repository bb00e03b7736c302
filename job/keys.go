package job

import (
	"bytes"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// maxCustomID is how long a CustomID may be, in characters (contract §2.6).
const maxCustomID = 255

func checkCustomID(s, field string) error {
	if s == "" || utf8.RuneCountInString(s) > maxCustomID || !utf8.ValidString(s) {
		return invalid(Invalid, field, "must be 1 to %d characters, got %.60q", maxCustomID, s)
	}
	return nil
}

// SameAs reports whether a validated envelope asks for the very job that is
// stored under its ID (see [Enqueuer]): the same type and args, byte for byte. A
// job whose args a later PUSH has overwritten (ojs-unique-jobs.md §5.3) is known
// by its type and its policy instead.
func (e *Envelope) SameAs(stored *Job) bool {
	if e.Type != stored.Type {
		return false
	}
	return bytes.Equal(e.Args, stored.Args) || !stored.RewrittenAt.IsZero() && bytes.Equal(e.Unique, stored.Unique)
}

// ValidKey reports whether s can be a unique key: SHA-256 in lower-case hexadecimal digits.
func ValidKey(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// Keyed reports whether a job that has just been pushed names a key that a stored
// job may hold.
func (j *Job) Keyed() bool { return j.keys != nil }

// DedupID is the deduplication key that a job which has just been pushed asks
// for, empty without one.
func (j *Job) DedupID() string {
	if j.keys == nil {
		return ""
	}
	return j.keys.dedup.ID
}

// Forever is the Keep of a job whose unique policy has a final state and no period.
var Forever = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// keepAtLeast is how long a job stays that a window with a final state may still
// need, also where its own window is shorter (contract §4.21).
const keepAtLeast = 30 * 24 * time.Hour

// takeKeys notes the keys of a job that is pushed at now. Whether it stays Holding
// is then move's affair: a state outside the policy's holds nothing.
func (j *Job) takeKeys(now time.Time) {
	k := j.keys
	if k == nil {
		return
	}
	if k.fingerprint != "" {
		j.Fingerprint, j.Holds = k.fingerprint, k.unique.States
	}
	if k.dedup.TTL > 0 {
		j.DedupUntil = now.Add(k.dedup.TTL)
	}
	j.keep()
}

// window sets when the deduplication key is free.
func (j *Job) window(until time.Time) {
	j.DedupUntil = until
	j.keep()
}

// keep sets Keep to what the keys come to that are left. A finished job is
// looked at anew: Stay may have put that off for a window that is gone.
func (j *Job) keep() {
	j.Keep = j.counts()
	if !j.DedupFreed && j.DedupUntil.After(j.Keep) {
		j.Keep = j.DedupUntil
	}
	if j.State.Terminal() {
		j.DueAt = j.due()
	}
}

// counts is until when a job may count as a twin although it has finished, zero
// where its policy has no final state.
func (j *Job) counts() time.Time {
	if j.Fingerprint == "" {
		return time.Time{}
	}
	switch p := j.policyOfKey(); {
	case p.States&SetOf(Completed, Cancelled, Discarded) == 0:
		return time.Time{}
	case p.Period > 0:
		return j.CreatedAt.Add(max(p.Period, keepAtLeast))
	}
	return Forever
}

func (j *Job) policyOfKey() *UniquePolicy {
	if j.keys != nil {
		return &j.keys.unique
	}
	p, _ := ParseUnique(j.Unique, true) // it was valid when it was stored
	return &p
}

// Outlived reports whether a window needs a finished job no more although it is
// open: one of its twins is newer, has ended in the same way and counts as long,
// so that it decides wherever this one would. A dead letter outlives nobody, as
// it may be revived.
func (j *Job) Outlived(now time.Time, twins []*Job) bool {
	if _, until := j.DedupKey(); until.After(now) || j.Fingerprint == "" {
		return false
	}
	return slices.ContainsFunc(twins, func(t *Job) bool {
		return t.Fingerprint == j.Fingerprint && t.State == j.State && !t.Dead && t.newer(j) && !t.counts().Before(j.counts())
	})
}

// newer reports whether j was created after t; of two of one instant, whose id is the larger: any order does.
func (j *Job) newer(t *Job) bool {
	return j.CreatedAt.After(t.CreatedAt) || j.CreatedAt.Equal(t.CreatedAt) && j.ID > t.ID
}

// DedupKey is the deduplication key that the job holds before until, and empty
// if it holds none. A zero until is until it has ended (contract §4.11).
func (j *Job) DedupKey() (id string, until time.Time) {
	if j.Deduplication == nil || j.DedupFreed || j.DedupUntil.IsZero() && j.State.Terminal() {
		return "", time.Time{}
	}
	return j.dedup().ID, j.DedupUntil
}

func (j *Job) dedup() deduplication {
	if j.keys != nil {
		return j.keys.dedup
	}
	d, _ := parseDeduplication(j.Deduplication, "deduplication") // it was valid when it was stored
	return d
}

// NoDedupOwner is the NotFound for a deduplication key that nobody holds.
func NoDedupOwner(queue, id string) *Error {
	return Errorf(NotFound, "no job of queue %s holds the deduplication key %.140q", queue, id).
		With(map[string]any{"resource_type": "deduplication", "resource_id": id, "queue": queue})
}

// DedupMode is "simple", "throttle", "debounce" or "replace", and empty for a
// job without deduplication (contract §4.11).
func (j *Job) DedupMode() string {
	if j.Deduplication == nil {
		return ""
	}
	switch d := j.dedup(); {
	case d.Replace && j.ScheduledAt.After(j.CreatedAt):
		return "debounce"
	case d.Replace:
		return "replace"
	case d.TTL > 0:
		return "throttle"
	}
	return "simple"
}

// ReleaseKey takes the unique key off a job: it is nobody's twin any more.
func (j *Job) ReleaseKey() {
	j.Fingerprint, j.Holds = "", 0
	j.keep()
}

// Stay puts off the removal of a finished job that an open window still needs, or a
// workflow that has not ended, to where retention, counted from DueAt, ends with that window, or in 30 days:
// it may be Outlived by then. A dead letter leaves the list, and stays discarded.
func (j *Job) Stay(now time.Time, retention time.Duration) {
	j.Dead = false
	until := now.Add(keepAtLeast)
	if j.Keep.After(now) && j.Keep.Before(until) {
		until = j.Keep
	}
	j.DueAt = until.Add(-retention)
}

// ReleaseDedup takes the deduplication key off a job. Without one it does nothing.
func (j *Job) ReleaseDedup() {
	if j.Deduplication == nil {
		return
	}
	j.DedupFreed, j.DedupUntil = true, time.Time{}
	j.keep()
}
