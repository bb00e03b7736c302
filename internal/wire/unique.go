package wire

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// NoKey is the NotFound for a unique key.
func NoKey(key string) error {
	return job.Errorf(job.NotFound, "%.80q is no unique key: one is 64 digits of [0-9a-f], as the list shows them", key).
		With(map[string]any{"resource_type": "unique_key", "resource_id": key})
}

// AppendExplanation appends what a unique policy comes to. The job that a PUSH would
// meet is in held_by in short, and in job whole.
func AppendExplanation(dst []byte, x job.Explanation) []byte {
	b := rawjson.Object(dst)
	b.Object("policy")
	appendPolicy(&b, x.Policy)
	b.End()
	rawjson.Strings(&b, "dimensions", dimensions(x.Policy))
	b.Str("canonical", string(x.Canonical)).Str("fingerprint", x.Fingerprint).Str("answer", x.Answer)
	if x.Existing == nil {
		return b.Null("held_by").Close()
	}
	b.Object("held_by")
	b.Str("job_id", string(x.Existing.ID))
	b.Str("type", x.Existing.Type)
	b.Str("queue", x.Existing.Queue)
	b.Str("state", string(x.Existing.State))
	b.Time("since", x.Existing.CreatedAt)
	b.Time("frees_at", x.Frees)
	b.Str("frees_when", freesWhen(x))
	b.End()
	wholeJob(&b, x.Existing)
	return b.Close()
}

// appendPolicy appends the members of a policy with its defaults filled in, in one spelling
// that [job.ParseUnique] reads back to the same policy.
func appendPolicy(b *rawjson.Writer, p job.UniquePolicy) {
	switch {
	case p.Key != "":
		b.Str("key", p.Key)
	case p.Lenient:
		rawjson.Strings(b, "key", p.ArgsKeys)
	default:
		rawjson.Strings(b, "keys", p.Keys)
	}
	if p.ArgsKeys != nil && !p.Lenient {
		rawjson.Strings(b, "args_keys", p.ArgsKeys)
	}
	if p.MetaKeys != nil {
		rawjson.Strings(b, "meta_keys", p.MetaKeys)
	}
	if p.Period > 0 {
		b.Int("period_ms", p.Period.Milliseconds())
	}
	rawjson.Strings(b, "states", p.States.List())
	b.Str("on_conflict", string(p.OnConflict))
}

// dimensions are the members that the fingerprint is over.
func dimensions(p job.UniquePolicy) []string {
	if p.Key != "" {
		return []string{"key", "type"}
	}
	return p.Keys
}

// freesWhen says, for a person, when the job that would be met no longer counts.
func freesWhen(x job.Explanation) string {
	in, until := x.Policy.States.List(), "at "+job.FormatTime(x.Frees)
	stays := "a job that is " + string(x.Existing.State) + " stays so"
	if len(in) == len(job.States) {
		stays = "the policy counts a job in every state"
	}
	final := x.Existing.State.Terminal() || len(in) == len(job.States)
	leaves := "when it is no longer " + either(in)
	switch {
	case final && x.Frees.IsZero():
		return "never by itself, as " + stays + "; release the key"
	case final:
		return until
	case x.Frees.IsZero():
		return leaves
	}
	return until + ", or before that " + leaves
}

// either joins states as a sentence does.
func either(states []job.State) string {
	words := make([]string, len(states))
	for i, s := range states {
		words[i] = string(s)
	}
	if n := len(words) - 1; n > 0 {
		return strings.Join(words[:n], ", ") + " or " + words[n]
	}
	return strings.Join(words, "")
}

// ReadExplanation reads what a unique policy comes to.
func ReadExplanation(body []byte) (job.Explanation, error) {
	var r struct {
		Policy      json.RawMessage `json:"policy"`
		Canonical   string          `json:"canonical"`
		Fingerprint string          `json:"fingerprint"`
		Answer      string          `json:"answer"`
		Job         json.RawMessage `json:"job"`
		Held        struct {
			Frees time.Time `json:"frees_at"`
		} `json:"held_by"`
	}
	if err := read(body, &r); err != nil {
		return job.Explanation{}, err
	}
	p, err := job.ParseUnique(r.Policy, true)
	if err != nil {
		return job.Explanation{}, unread(err)
	}
	x := job.Explanation{Policy: p, Canonical: json.RawMessage(r.Canonical), Fingerprint: r.Fingerprint,
		Answer: r.Answer, Frees: r.Held.Frees}
	if r.Job != nil {
		x.Existing, err = parse(r.Job)
	}
	return x, err
}

// DecodeKeyFilter reads the query of GET /ojs/v1/unique-jobs (contract §3.25).
func DecodeKeyFilter(q url.Values) (f job.Filter, p Paging, err error) {
	if f, p, err = filter(q, "state", "queue", "type", "kind"); err == nil {
		f.States, err = states(q)
	}
	switch kind := q.Get("kind"); kind {
	case "", kindUnique:
	case kindDedup:
		f.Dedup = true
	default:
		return f, p, refuse("kind", fmt.Sprintf("must be %s or %s, got %.60q", kindUnique, kindDedup, kind))
	}
	return f, p, err
}

// The kinds of keys that GET /ojs/v1/unique-jobs lists.
const (
	kindUnique = "unique"
	kindDedup  = "deduplication"
)

// AppendHeldKeys appends a page of the keys that are held (contract §3.25).
func AppendHeldKeys(dst []byte, c job.HeldKeys, p Paging) []byte {
	b := rawjson.Object(dst)
	objects(&b, "items", c.Keys, func(b *rawjson.Writer, v job.HeldKey) {
		b.Str("key", v.Key)
		b.Str("job_id", string(v.JobID))
		b.Str("type", v.Type)
		b.Str("queue", v.Queue)
		b.Str("state", string(v.State))
		b.Time("since", v.Since)
		b.Time("locked_until", v.Until)
	})
	pages(&b, p, p.listed(len(c.Keys), c.Total, c.AtLeast, c.Next))
	return b.Close()
}

// ReadHeldKeys reads a page of the keys that are held.
func ReadHeldKeys(body []byte) (job.HeldKeys, error) {
	var r struct {
		Items []struct {
			Key   string    `json:"key"`
			JobID job.ID    `json:"job_id"`
			Type  string    `json:"type"`
			Queue string    `json:"queue"`
			State job.State `json:"state"`
			Since time.Time `json:"since"`
			Until time.Time `json:"locked_until"`
		} `json:"items"`
		Pages pagination `json:"pagination"`
	}
	if err := read(body, &r); err != nil {
		return job.HeldKeys{}, err
	}
	c := job.HeldKeys{Total: r.Pages.Total, AtLeast: r.Pages.AtLeast, Next: r.Pages.Next}
	for _, v := range r.Items {
		c.Keys = append(c.Keys, job.HeldKey(v))
	}
	return c, nil
}

// AppendReleasedKey appends the answer to the release of a unique key.
func AppendReleasedKey(dst []byte, key string, n int) []byte {
	b := rawjson.Object(dst)
	return b.Int("released", int64(n)).Str("key", key).Close()
}

// ReadReleasedKey reads off how many jobs a unique key was taken.
func ReadReleasedKey(body []byte) (int, error) {
	return readMember[int](body, "released", "it does not say what was released")
}

// AppendDedupOwner appends who holds a deduplication key (contract §3.13), with the
// job itself. older adds the earlier name of the key.
func AppendDedupOwner(dst []byte, queue, id string, owner *job.Job, older bool) []byte {
	b := rawjson.Object(dst)
	b.Str("queue", queue).Str("deduplication_id", id)
	if older {
		b.Str("debounce_id", id)
	}
	b.Str("job_id", string(owner.ID))
	b.Str("mode", owner.DedupMode())
	b.Time("expires_at", owner.DedupUntil)
	wholeJob(&b, owner)
	return b.Close()
}

// ReadDedupOwner reads who holds a deduplication key.
func ReadDedupOwner(body []byte) (*job.Job, error) {
	var r struct {
		Job   json.RawMessage `json:"job"`
		Until time.Time       `json:"expires_at"`
	}
	if err := read(body, &r); err != nil {
		return nil, err
	}
	j, err := parse(r.Job)
	if err == nil {
		j.DedupUntil = r.Until
	}
	return j, err
}

// AppendReleasedDedup appends the answer to the release of a deduplication key.
func AppendReleasedDedup(dst []byte, released bool) []byte {
	b := rawjson.Object(dst)
	return b.Bool("released", released).Close()
}

// ReadReleasedDedup reads whether there was a deduplication key to release.
func ReadReleasedDedup(body []byte) (bool, error) {
	return readMember[bool](body, "released", "it does not say whether anything was released")
}
