package job

import (
	"slices"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// KeyHolders is what is stored under the keys of a new job.
type KeyHolders struct {
	Custom *Job   // has its CustomID
	Owner  *Job   // holds its deduplication key
	Twins  []*Job // see KeyReader; Owner is not among them: it answers, or gives way
}

// Admission is what becomes of a new job: it is inserted after Changed have been
// saved, or the Receipt's job answers for it.
type Admission struct {
	Receipt
	Changed   []*Job // to be saved, before anything is inserted
	Rewritten bool   // the Receipt's job is to be saved with its Args and Meta
	Again     bool   // more of its twins may have to give way: see CancelMatches
	Events    []Event
}

// Admit decides about j, which was pushed at now and is not stored: first by its
// CustomID, then by its deduplication key, then by its unique key (contract
// §2.6). It changes the jobs of m as the Admission says. The error is Duplicate,
// or TooLarge where a job cannot be rewritten.
func (j *Job) Admit(now time.Time, m KeyHolders) (Admission, error) {
	if m.Custom != nil {
		e := m.Custom.eventOutsideHistory("job.duplicated", now, nil)
		return Admission{Receipt: stored(m.Custom, SameCustomID), Events: []Event{e}}, nil
	}
	owner, evict := m.Owner, false
	if owner != nil {
		if evict = j.dedup().Replace && owner.State == Scheduled; !evict {
			return j.suppressed(now, owner), nil
		}
	}
	a, err := j.admitUnique(now, m.Twins)
	if err != nil || a.Existing || owner == nil {
		return a, err
	}
	return j.evict(now, owner, a)
}

func stored(j *Job, v Verdict) Receipt { return Receipt{Job: j, Existing: true, Verdict: v} }

// suppressed is the answer of the owner of a deduplication key. Work that has
// begun, or may begin at any moment, is never evicted.
func (j *Job) suppressed(now time.Time, owner *Job) Admission {
	a := Admission{Receipt: stored(owner, Deduplicated), Events: owner.debounced(now, j.dedup().ID, j.ID)}
	if d := j.dedup(); d.Extend && d.TTL > 0 && !owner.DedupUntil.IsZero() {
		owner.window(now.Add(d.TTL))
		a.Changed = []*Job{owner}
	}
	return a
}

// evict cancels the scheduled owner of a deduplication key in favour of j.
func (j *Job) evict(now time.Time, owner *Job, a Admission) (Admission, error) {
	if d := j.dedup(); d.TTL > 0 && !d.Extend && !owner.DedupUntil.IsZero() {
		j.window(owner.DedupUntil)
	}
	if owner.Fingerprint == j.Fingerprint {
		j.takeKey(owner)
	}
	if err := owner.cancel(now, "", "debounced", j.ID); err != nil {
		return a, err
	}
	a.Changed = append(a.Changed, owner)
	a.gaveWay(owner)
	a.Events = j.debounced(now, j.dedup().ID, owner.ID)
	return a, nil
}

// debounced is the pair of events about every decision of a deduplication key,
// told of j (contract §4.11).
func (j *Job) debounced(now time.Time, key string, other ID) []Event {
	return []Event{
		j.eventOutsideHistory("job.debounced", now, func(o *rawjson.Writer) { o.Str("debounce_id", key) }),
		j.eventOutsideHistory("job.deduplicated", now, func(o *rawjson.Writer) {
			o.Str("deduplication_id", key)
			o.Str("deduplicated_job_id", string(other))
		}),
	}
}

// eventOutsideHistory is an event that names this job and is no part of its history: a key that
// thousands ask for would push the job's own life out of it.
func (j *Job) eventOutsideHistory(kind string, now time.Time, fill func(*rawjson.Writer)) Event {
	j.addEvent(kind, now, fill)
	last := len(j.events) - 1
	e := j.events[last]
	j.events = j.events[:last]
	return e
}

// matches reports whether t counts for an enqueue at now under the policy
// (ojs-unique-jobs.md §7.4).
func (p *UniquePolicy) matches(now time.Time, t *Job) bool {
	return p.States.Has(t.State) && (p.Period <= 0 || now.Before(t.CreatedAt.Add(p.Period)))
}

// twin is the newest job that an enqueue at now meets under the policy, or nil.
func (p *UniquePolicy) twin(now time.Time, twins []*Job) (met *Job) {
	for _, t := range twins {
		if p.matches(now, t) && (met == nil || t.newer(met)) {
			met = t
		}
	}
	return met
}

// admitUnique decides about j by its unique policy: the newest twin says what
// becomes of j, and every one that is to give way does.
func (j *Job) admitUnique(now time.Time, twins []*Job) (Admission, error) {
	a := Admission{Receipt: Receipt{Job: j}}
	if j.Fingerprint == "" {
		return a, nil
	}
	p := &j.keys.unique
	switch met := p.twin(now, twins); {
	case met == nil:
	case p.OnConflict == UniqueReject:
		return a, met.conflict(j.Fingerprint)
	case p.OnConflict == UniqueIgnore:
		return Admission{Receipt: stored(met, Ignored)}, nil
	case p.OnConflict == UniqueReplaceExceptSchedule && met.State == Scheduled:
		// All the others give way, also those that met hides in Twins and who owns the
		// deduplication key: in its place nothing is stored.
		return Admission{Receipt: stored(met, Rewritten), Rewritten: true, Again: true}, met.rewrite(now, j)
	default:
		if err := j.CancelMatches(now, twins, &a); err != nil {
			return a, err
		}
	}
	for _, t := range twins {
		if j.takeKey(t) && !slices.Contains(a.Changed, t) {
			a.Changed = append(a.Changed, t)
		}
	}
	return a, nil
}

// CancelMatches cancels those of the twins that give way to j under a: all that j meets
// and that have not ended, for strong uniqueness leaves none beside it
// (ojs-unique-jobs.md §5.2, §8.1). What is final stays final. It adds them to
// a.Changed. KeyReader.Twins shows one job of each state, behind which others may
// stand: with a.Again the caller saves these, empties Changed and comes with what
// Twins shows then, but for the one that was rewritten.
func (j *Job) CancelMatches(now time.Time, twins []*Job, a *Admission) error {
	a.Again = false
	p := &j.keys.unique
	slices.SortFunc(twins, func(x, y *Job) int {
		if x.newer(y) {
			return -1
		}
		return 1
	})
	for _, t := range twins {
		if t.State.Terminal() || !p.matches(now, t) {
			continue
		}
		a.Again = a.Again || t.Holds == 0
		if err := t.cancel(now, "", "replaced", a.Job.ID); err != nil {
			return err
		}
		a.Changed = append(a.Changed, t)
		a.gaveWay(t)
	}
	return nil
}

// gaveWay notes that t was cancelled to make room.
func (r *Receipt) gaveWay(t *Job) {
	switch {
	case r.Replaced == "":
		r.Replaced = t.ID
		return
	case r.AllReplaced == nil:
		r.AllReplaced = []ID{r.Replaced}
	}
	r.AllReplaced = append(r.AllReplaced, t.ID)
}

// takeKey gives the key that t holds to j, which is newer, and reports whether
// it did. t keeps it where it will count for longer than j once they have ended:
// else nobody would hold the key when j has, though t still does count.
func (j *Job) takeKey(t *Job) bool {
	if j.Holds == 0 || t.Holds == 0 {
		return false
	}
	if t.counts().After(j.counts()) {
		j.Holds = 0
		return false
	}
	t.Holds = 0
	return true
}

// conflict is the Duplicate for a job that meets j (ojs-unique-jobs.md §5.1).
func (j *Job) conflict(fingerprint string) error {
	return Errorf(Duplicate, "a job matching the uniqueness key already exists: %s is %s", j.ID, j.State).
		With(map[string]any{"existing_job_id": string(j.ID), "existing_job_state": string(j.State),
			"uniqueness_key": fingerprint, "unique_key": fingerprint})
}

// rewrite gives a scheduled job the args and meta of a newer one
// (ojs-unique-jobs.md §5.3). Everything else of it stays, its key too: that is
// the one it was admitted under, whatever its own policy would make of the new
// args and meta, as the two policies may choose other members. TooLarge where
// the two do not go together, and nothing has changed then.
func (j *Job) rewrite(now time.Time, by *Job) error {
	if j.State != Scheduled {
		return Errorf(Conflict, "job %s is %s and cannot be rewritten", j.ID, j.State)
	}
	if n := j.size() - len(j.Args) - len(j.Meta) + len(by.Args) + len(by.Meta); n > MaxJobBytes {
		return tooLarge("job "+string(j.ID)+" with the new args and meta", n, MaxJobBytes)
	}
	j.Args, j.Meta, j.RewrittenAt = by.Args, by.Meta, now
	j.Tenant = tenantOf(j.Meta)
	j.addEvent("job.updated", now, func(o *rawjson.Writer) {
		rawjson.Strings(o, "fields", []string{"args", "meta"})
		o.Str("reason", string(UniqueReplaceExceptSchedule))
	})
	return nil
}
