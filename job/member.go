package job

import (
	"bytes"
	"encoding/json"
	"math"
	"time"
	"unicode/utf8"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// member is a row of the table of members: all that is known of one member of
// Envelope or of Status. What asked and happened find empty they fill by its kind.
type member struct {
	field   string   // of Envelope or Status; what stands in a struct of theirs has a point before it
	name    string   // in an answer and in a PUSH
	answers []string // all names in an answer, where there are others than name
	asks    []string // names in a request which the field holds
	echoes  []string // names in a request which Extra holds, to be given back as they came
	shape   byte     // of JSON: how it begins

	status    bool // is a member of Status
	top       bool // stands at the top level of a request alone, and not among its options
	first     bool // is read before all others
	always    bool // is read although nothing was said of it
	late      bool // stands behind Extra in an answer
	added     bool // an answer adds it; in a request it is dropped at the top level alone
	required  bool // is shown and stored although it is empty
	timed     bool // is about when; SameOptions compares it by itself
	rewritten bool // a PUSH may overwrite it (ojs-unique-jobs.md §5.3)
	movable   bool // an operator may change it (contract §3.7, §3.13)

	column string
	hot    bool // of Envelope: is kept beside what changes, and not in the body
	cold   bool // of Status: is kept in the body

	// Why one of its journeys has no way for it; empty where it has.
	unread, unshown, unsent, unkept string
	fixed                           string // why no change writes it, of a member of Status

	visible func(*Job, View) bool // only then it is shown; nil: always

	read  func(*parser) error                                                  // from a request
	show  func(rawjson.Writer, *Job, View) rawjson.Writer                      // in an answer
	take  func(j *Job, name string, v json.RawMessage) (whole bool, err error) // from an answer; what is not whole stays in Extra, too
	send  func(rawjson.Writer, *Envelope) rawjson.Writer                       // in a PUSH and among the options of an outbox
	alike func(a, b *Envelope) bool                                            // they ask for the same
	equal func(a, b *Job) bool
	value func(*Job) any       // as it is stored: nil, int64, string or []byte
	set   func(*Job, any) bool // what was stored and is not nil; false for what never was
	json  func(*Envelope) *json.RawMessage
	size  func(*Job) int        // of JSON, in bytes
	round func(*Envelope)       // up to what is stored; nil: it is as it is
	bound func(*Envelope) error // refuses what is out of bounds; nil: it has none
}

// kind is what members of one type have in common.
type kind[T any] struct {
	equal func(a, b T) bool
	alike func(a, b T) bool                                                   // nil: equal
	ceil  func(T) T                                                           // what is sent or stored must not come early; nil: as it is
	bound func(name string, v T) error                                        // nil: there is none
	show  func(w rawjson.Writer, name string, v T, empty bool) rawjson.Writer // one that is empty only if it is to be
	take  func(name string, v json.RawMessage) (T, error)
	value func(at func(*Job) *T, empty bool) func(*Job) any // nil for one that is empty, unless it is to be stored
	from  func(any) (T, bool)
}

// asked is a member of Envelope.
func asked[T any](m member, k kind[T], at func(*Envelope) *T) member {
	name, show, ceil, bound := m.name, k.show, k.ceil, k.bound // what is called for each job holds no more
	if at, ok := any(at).(func(*Envelope) *json.RawMessage); ok {
		m.json = at
	}
	if m.asks == nil && m.name != "" && m.unread == "" {
		m.asks = []string{m.name}
	}
	if m.unread == "" && m.read == nil {
		m.read = func(p *parser) error {
			name, v := p.get(m.asks...)
			if v == nil {
				return nil
			}
			if m.shape != 0 && v[0] != m.shape {
				return invalid(Invalid, name, "must be an %s, got %s", shapes[m.shape], rawjson.Kind(v))
			}
			got, err := k.take(name, v)
			*at(&p.e) = got
			return err
		}
	}
	if m.unsent == "" && m.send == nil {
		m.send = func(w rawjson.Writer, e *Envelope) rawjson.Writer {
			v := *at(e)
			if ceil != nil {
				v = ceil(v)
			}
			return show(w, name, v, false)
		}
	}
	if ceil != nil {
		m.round = func(e *Envelope) { *at(e) = ceil(*at(e)) }
	}
	if bound != nil {
		m.bound = func(e *Envelope) error { return bound(name, *at(e)) }
	}
	if m.alike == nil {
		alike := k.alike
		if alike == nil {
			alike = k.equal
		}
		m.alike = func(a, b *Envelope) bool { return alike(*at(a), *at(b)) }
	}
	return filled(m, k, func(j *Job) *T { return at(&j.Envelope) })
}

// happened is a member of Status, which any change may write where its row says
// nothing else.
func happened[T any](m member, k kind[T], at func(*Job) *T) member {
	const none = "only the server sets it"
	m.status, m.unread, m.unsent = true, none, none
	return filled(m, k, at)
}

// filled has the journeys that both have: into an answer and into a store, and back.
func filled[T any](m member, k kind[T], at func(*Job) *T) member {
	// What is called for each job holds these and not the whole of m and k: fifty such
	// functions must leave room in the processor's cache.
	name, empty, show, equal, from := m.name, m.required, k.show, k.equal, k.from
	if at, ok := any(at).(func(*Job) *json.RawMessage); ok {
		m.size = func(j *Job) int { return len(*at(j)) }
	}
	if m.unshown == "" && m.show == nil {
		m.show = func(w rawjson.Writer, j *Job, _ View) rawjson.Writer { return show(w, name, *at(j), empty) }
	}
	if visible, show := m.visible, m.show; visible != nil {
		m.show = func(w rawjson.Writer, j *Job, v View) rawjson.Writer {
			if !visible(j, v) {
				return w
			}
			return show(w, j, v)
		}
	}
	if m.unshown == "" && m.take == nil {
		m.take = func(j *Job, name string, v json.RawMessage) (whole bool, err error) {
			if string(v) != "null" {
				*at(j), err = k.take(name, v)
			}
			return true, err
		}
	}
	if m.equal == nil {
		m.equal = func(a, b *Job) bool { return equal(*at(a), *at(b)) }
	}
	if m.column != "" && m.value == nil {
		m.value = k.value(at, m.required)
	}
	if m.column != "" && m.set == nil {
		m.set = func(j *Job, v any) (ok bool) {
			*at(j), ok = from(v)
			return ok
		}
	}
	return m
}

var shapes = map[byte]string{'[': "array", '{': "object"}

func same[T comparable](a, b T) bool { return a == b }

func texts[S ~string]() kind[S] {
	return kind[S]{
		equal: same[S],
		show: func(w rawjson.Writer, name string, v S, empty bool) rawjson.Writer {
			if v != "" || empty {
				w.Str(name, string(v))
			}
			return w
		},
		take: func(name string, v json.RawMessage) (S, error) {
			s, err := text(v, name)
			return S(s), err
		},
		value: func(at func(*Job) *S, empty bool) func(*Job) any {
			return func(j *Job) any {
				if v := *at(j); v != "" || empty {
					return string(v)
				}
				return nil
			}
		},
		from: func(v any) (S, bool) {
			s, ok := v.(string)
			return S(s), ok && utf8.ValidString(s)
		},
	}
}

func numbers[N ~int | ~int64 | ~uint8]() kind[N] {
	return kind[N]{
		equal: same[N],
		show: func(w rawjson.Writer, name string, v N, empty bool) rawjson.Writer {
			if v != 0 || empty {
				w.Int(name, int64(v))
			}
			return w
		},
		take: func(name string, v json.RawMessage) (N, error) {
			n, ok := integer(v)
			if !ok || n < math.MinInt32 || n > math.MaxInt32 {
				return 0, invalid(Invalid, name, "must be an integer, got %s", shown(v))
			}
			return N(n), nil
		},
		value: func(at func(*Job) *N, empty bool) func(*Job) any {
			return func(j *Job) any {
				if v := *at(j); v != 0 || empty {
					return int64(v)
				}
				return nil
			}
		},
		from: func(v any) (N, bool) {
			n, ok := v.(int64)
			return N(n), ok
		},
	}
}

var flags = kind[bool]{
	equal: same[bool],
	show: func(w rawjson.Writer, name string, v, _ bool) rawjson.Writer {
		if v {
			w.Bool(name, v)
		}
		return w
	},
	take: func(_ string, v json.RawMessage) (bool, error) { return string(v) == "true", nil },
	value: func(at func(*Job) *bool, empty bool) func(*Job) any {
		return func(j *Job) any {
			switch {
			case *at(j):
				return int64(1)
			case empty:
				return int64(0)
			}
			return nil
		}
	},

	from: func(v any) (bool, bool) {
		n, ok := v.(int64)
		return n == 1, ok
	},
}

// instants are shown, stored and sent in whole milliseconds.
var instants = kind[time.Time]{
	equal: time.Time.Equal,
	ceil:  ceilInstant,
	bound: boundInstant,
	show: func(w rawjson.Writer, name string, v time.Time, _ bool) rawjson.Writer {
		w.Time(name, v)
		return w
	},
	take: func(name string, v json.RawMessage) (time.Time, error) {
		t, relative, err := moment(v, name)
		if err == nil && (relative != 0 || t.IsZero()) {
			err = invalid(Invalid, name, "must be an RFC 3339 time, got %s", shown(v))
		}
		return t.UTC(), err
	},
	value: func(at func(*Job) *time.Time, empty bool) func(*Job) any {
		return func(j *Job) any {
			if v := *at(j); !v.IsZero() || empty {
				return v.UnixMilli()
			}
			return nil
		}
	},
	from: func(v any) (time.Time, bool) {
		n, ok := v.(int64)
		return time.UnixMilli(n).UTC(), ok
	},
}

// lengths of time, in whole milliseconds as instants are.
var lengths = kind[time.Duration]{
	equal: same[time.Duration],
	ceil:  ceilMillis,
	bound: boundLength,
	show: func(w rawjson.Writer, name string, v time.Duration, empty bool) rawjson.Writer {
		if v != 0 || empty {
			w.Int(name, v.Milliseconds())
		}
		return w
	},
	take: func(name string, v json.RawMessage) (time.Duration, error) { return count(v, name, time.Millisecond) },
	value: func(at func(*Job) *time.Duration, empty bool) func(*Job) any {
		return func(j *Job) any {
			if v := *at(j); v != 0 || empty {
				return v.Milliseconds()
			}
			return nil
		}
	},
	from: func(v any) (time.Duration, bool) {
		n, ok := v.(int64)
		return time.Duration(n) * time.Millisecond, ok
	},
}

// raws are JSON, which is carried as it came.
var raws = kind[json.RawMessage]{
	equal: func(a, b json.RawMessage) bool { return bytes.Equal(a, b) },
	alike: sameObject,
	show: func(w rawjson.Writer, name string, v json.RawMessage, _ bool) rawjson.Writer {
		if len(v) > 0 {
			w.Raw(name, v)
		}
		return w
	},
	take: func(_ string, v json.RawMessage) (json.RawMessage, error) { return v, nil },
	value: func(at func(*Job) *json.RawMessage, empty bool) func(*Job) any {
		return func(j *Job) any {
			if v := *at(j); len(v) > 0 || empty {
				return string(v)
			}
			return nil
		}
	},
	from: func(v any) (json.RawMessage, bool) {
		s, ok := v.(string)
		if !ok || s == "" {
			return nil, ok
		}
		raw := json.RawMessage(s)
		_, ok = rawjson.Valid(raw)
		return raw, ok
	},
}
