package job

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// The ways of the members whose kind does not say all: how they are shown, sent,
// taken from an answer and stored.

func constant(name, v string) func(rawjson.Writer, *Job, View) rawjson.Writer {
	return func(w rawjson.Writer, _ *Job, _ View) rawjson.Writer {
		w.Str(name, v)
		return w
	}
}

// passedOver is what an answer says without its telling anything.
func passedOver(*Job, string, json.RawMessage) (bool, error) { return true, nil }

func showMeta(w rawjson.Writer, j *Job, _ View) rawjson.Writer {
	if j.Meta == nil {
		w.Raw("meta", []byte("{}"))
	} else {
		w.Raw("meta", j.Meta)
	}
	return w
}

// sendTimeout lets milliseconds beat the seconds in Extra.
func sendTimeout(w rawjson.Writer, e *Envelope) rawjson.Writer {
	if e.Timeout > 0 || rawjson.Has(e.Extra, "timeout") {
		w.Int("timeout_ms", ceilMillis(e.Timeout).Milliseconds())
	}
	return w
}

// ownVisibility reports whether Extra has the client's own spelling.
func (e *Envelope) ownVisibility() bool {
	return rawjson.Has(e.Extra, "visibility_timeout_ms") || rawjson.Has(e.Extra, "visibility_timeout")
}

func showVisibility(w rawjson.Writer, j *Job, _ View) rawjson.Writer {
	if j.Visibility > 0 && !j.ownVisibility() {
		w.Int("visibility_timeout_ms", j.Visibility.Milliseconds())
	}
	return w
}

func sendVisibility(w rawjson.Writer, e *Envelope) rawjson.Writer {
	if e.Visibility > 0 && !e.ownVisibility() {
		w.Int("visibility_timeout_ms", ceilMillis(e.Visibility).Milliseconds())
	}
	return w
}

// takeVisibility reads either spelling; the one in milliseconds beats the other.
// Both stay in Extra.
func takeVisibility(j *Job, name string, v json.RawMessage) (_ bool, err error) {
	older := name == "visibility_timeout"
	switch {
	case string(v) == "null" || older && j.Visibility > 0:
	case older && v[0] == '"':
		j.Visibility, err = isoText(v, name)
	case older:
		j.Visibility, err = count(v, name, time.Second)
	default:
		j.Visibility, err = count(v, name, time.Millisecond)
	}
	return false, err
}

// showSpelled shows an instant that Extra does not hold as the client wrote it.
func showSpelled(name string, at func(*Envelope) *time.Time) func(rawjson.Writer, *Job, View) rawjson.Writer {
	return func(w rawjson.Writer, j *Job, _ View) rawjson.Writer {
		if t := *at(&j.Envelope); !t.IsZero() && !rawjson.Has(j.Extra, name) {
			w.Time(name, t)
		}
		return w
	}
}

// sendSpelled is showSpelled for a PUSH, in which a length of time wins.
func sendSpelled(name string, at func(*Envelope) *time.Time, in func(*Envelope) time.Duration) func(rawjson.Writer, *Envelope) rawjson.Writer {
	return func(w rawjson.Writer, e *Envelope) rawjson.Writer {
		if t := *at(e); !t.IsZero() && in(e) == 0 && !rawjson.Has(e.Extra, name) {
			w.Time(name, ceilInstant(t))
		}
		return w
	}
}

// takeSpelled leaves an instant in Extra, too, that is not written in TimeFormat.
func takeSpelled(at func(*Envelope) *time.Time) func(*Job, string, json.RawMessage) (bool, error) {
	return func(j *Job, name string, v json.RawMessage) (bool, error) {
		if string(v) == "null" {
			return true, nil
		}
		t, err := instants.take(name, v)
		*at(&j.Envelope) = t
		return err != nil || string(v) == `"`+FormatTime(t)+`"`, err
	}
}

func showDedup(w rawjson.Writer, j *Job, _ View) rawjson.Writer {
	if !j.DedupFreed {
		w.Raw("deduplication", j.Deduplication)
	}
	return w
}

// sendCustomID puts it where older servers look, beside the options in Extra.
func sendCustomID(w rawjson.Writer, e *Envelope) rawjson.Writer {
	if e.CustomID == "" {
		return w
	}
	w.Object("options")
	w.Str("job_id", e.CustomID)
	w.Splice(rawjson.Member(e.Extra, "options"))
	w.End()
	return w
}

func sendExtra(w rawjson.Writer, e *Envelope) rawjson.Writer {
	if e.CustomID != "" && rawjson.Has(e.Extra, "options") {
		w.Splice(rawjson.Without(e.Extra, "options"))
	} else {
		w.Splice(e.Extra)
	}
	return w
}

func showExtra(w rawjson.Writer, j *Job, v View) rawjson.Writer {
	extra := j.Extra
	if j.DedupFreed && rawjson.Has(extra, "debounce") {
		extra = rawjson.Without(extra, "debounce")
	}
	if v.HideTimeout && rawjson.Has(extra, "timeout") {
		extra = rawjson.Without(extra, "timeout")
	}
	w.Splice(extra)
	return w
}

// showEnd names the end by what it was.
func showEnd(w rawjson.Writer, j *Job, _ View) rawjson.Writer {
	switch j.State {
	case Completed:
		w.Time("completed_at", j.FinishedAt)
	case Cancelled:
		w.Time("cancelled_at", j.FinishedAt)
	case Discarded:
		w.Time("completed_at", j.FinishedAt)
		w.Time("discarded_at", j.FinishedAt)
	}
	return w
}

func showNext(w rawjson.Writer, j *Job, _ View) rawjson.Writer {
	w.Time("next_retry_at", j.NextRetryAt)
	w.Time("next_attempt_at", j.NextRetryAt)
	return w
}

// active and held say when a reservation is shown, and when its token.
func active(j *Job, _ View) bool { return j.State == Active }
func held(j *Job, v View) bool   { return j.State == Active && v.ToHolder }

// takeResult takes null for a result.
func takeResult(j *Job, _ string, v json.RawMessage) (bool, error) {
	j.Result = v
	return true, nil
}

// idValue is the 16 bytes of an ID, nil for what is none: no store takes that.
func idValue(j *Job) any {
	if b, ok := j.ID.Bytes(); ok {
		return b[:]
	}
	return nil
}

func setID(j *Job, v any) bool {
	b, ok := v.([]byte)
	if ok = ok && len(b) == 16; ok {
		j.ID = IDOf([16]byte(b))
	}
	return ok
}

// stateValue is the place of a state among [States].
func stateValue(j *Job) any { return StateCode(j.State) }

func setState(j *Job, v any) bool {
	n, ok := v.(int64)
	if ok = ok && 0 <= n && n < int64(len(States)); ok {
		j.State = States[n]
	}
	return ok
}

// tokenValue is half as long for a token of the kind that a server makes: bytes, of
// which the token is the hexadecimal.
func tokenValue(j *Job) any {
	t := j.Lease.Token
	if t == "" {
		return nil
	}
	if b, err := hex.DecodeString(t); err == nil && hex.EncodeToString(b) == t {
		return b
	}
	return t
}

func setToken(j *Job, v any) bool {
	switch v := v.(type) {
	case []byte:
		j.Lease.Token = hex.EncodeToString(v)
		return true
	case string:
		j.Lease.Token = v
		return utf8.ValidString(v)
	}
	return false
}

func lostValue(j *Job) any {
	if j.Lost == nil {
		return nil
	}
	b, _ := json.Marshal(j.Lost) // plain fields always marshal
	return string(b)
}

func setLost(j *Job, v any) bool {
	s, ok := v.(string)
	return ok && json.Unmarshal([]byte(s), &j.Lost) == nil
}

func fingerprintValue(j *Job) any { return KeyValue(j.Fingerprint) }

// KeyValue is a unique key as it is stored, nil for none.
func KeyValue(fingerprint string) any {
	if fingerprint == "" {
		return nil
	}
	b, err := hex.DecodeString(fingerprint)
	if err != nil {
		return []byte(fingerprint) // no key that this package has made; nothing is found under it
	}
	return b
}

func setFingerprint(j *Job, v any) bool {
	b, ok := v.([]byte)
	j.Fingerprint = hex.EncodeToString(b)
	return ok
}

// holdsValue is NULL without a key, and 0 once its states have been left.
func holdsValue(j *Job) any {
	if j.Fingerprint == "" {
		return nil
	}
	return int64(j.Holds)
}

func sameHold(a, b *Job) bool {
	return a.Holds == b.Holds && (a.Fingerprint == "") == (b.Fingerprint == "")
}

func setHolds(j *Job, v any) bool {
	n, ok := v.(int64)
	j.Holds = StateSet(n)
	return ok
}

func dedupKeyValue(j *Job) any {
	id, _ := j.DedupKey()
	if id == "" {
		return nil
	}
	return id
}

func setDedupKey(_ *Job, v any) bool {
	s, ok := v.(string)
	return ok && utf8.ValidString(s)
}

// endless stands for a deduplication key that only the end of its job frees.
const endless = math.MaxInt64

func sameWindow(a, b *Job) bool { return windowValue(a) == windowValue(b) }

// windowValue is when the key is free: endless for when the job has ended, and 0
// once the key was taken off.
func windowValue(j *Job) any {
	switch {
	case j.Deduplication == nil:
		return nil
	case j.DedupFreed:
		return int64(0)
	case j.DedupUntil.IsZero():
		return int64(endless)
	}
	return j.DedupUntil.UnixMilli()
}

func setWindow(j *Job, v any) bool {
	until, ok := v.(int64)
	j.DedupFreed = ok && until == 0
	if ok && until != 0 && until != endless {
		j.DedupUntil = time.UnixMilli(until).UTC()
	}
	return ok
}

// showFlow says of which workflow a job is which step.
func showFlow(w rawjson.Writer, j *Job, _ View) rawjson.Writer {
	if j.Flow != nil {
		w.Str("workflow_id", string(j.Flow.Workflow)).Str("workflow_step", j.Flow.Step)
	}
	return w
}

// takeFlow reads what an answer says of it, which is not its place.
func takeFlow(j *Job, name string, v json.RawMessage) (bool, error) {
	if string(v) == "null" {
		return true, nil
	}
	s, err := text(v, name)
	f := FlowRef{}
	if j.Flow != nil {
		f = *j.Flow
	}
	if name == "workflow_id" {
		f.Workflow = ID(s)
	} else {
		f.Step = s
	}
	j.Flow = &f
	return true, err
}

// flowValue is the id of the workflow, the places of the step and of what it is in, and
// its name, with slashes between them.
func flowValue(j *Job) any {
	f := j.Flow
	if f == nil {
		return nil
	}
	b := make([]byte, 0, 64)
	b = append(append(b, f.Workflow...), '/')
	b = append(strconv.AppendInt(b, int64(f.Node), 10), '/')
	b = append(strconv.AppendInt(b, int64(f.Parent), 10), '/')
	return string(append(b, f.Step...))
}

func setFlow(j *Job, v any) bool {
	s, ok := v.(string)
	parts := strings.SplitN(s, "/", 4)
	if !ok || len(parts) != 4 || !utf8.ValidString(s) {
		return false
	}
	node, nerr := strconv.Atoi(parts[1])
	parent, perr := strconv.Atoi(parts[2])
	j.Flow = &FlowRef{Workflow: ID(parts[0]), Step: parts[3], Node: node, Parent: parent}
	return nerr == nil && perr == nil
}

func sameFlow(a, b *FlowRef) bool {
	return a == b || a != nil && b != nil && *a == *b
}
