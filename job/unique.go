package job

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// UniquePolicy is the parsed unique member of a job (ojs-unique-jobs.md §2).
type UniquePolicy struct {
	Keys       []string      // the dimensions in sorted order; "type" is always among them
	ArgsKeys   []string      // names within args, sorted, in NFC; nil: all of args
	MetaKeys   []string      // names within meta, sorted, in NFC
	Lenient    bool          // names in ArgsKeys that args does not hold are skipped (contract §2.5, the alias key)
	Key        string        // the caller's own key, which replaces all dimensions but the type
	Period     time.Duration // how long after its creation a job counts; 0: no limit
	States     StateSet      // the states in which a stored job counts
	OnConflict OnConflict
}

// OnConflict is what becomes of a job that meets its twin (ojs-unique-jobs.md §5).
type OnConflict string

// The four strategies.
const (
	UniqueReject                OnConflict = "reject"
	UniqueReplace               OnConflict = "replace"
	UniqueReplaceExceptSchedule OnConflict = "replace_except_schedule"
	UniqueIgnore                OnConflict = "ignore"
)

var (
	dimensions    = []string{"type", "queue", "args", "meta"}
	strategies    = []string{string(UniqueReject), string(UniqueReplace), string(UniqueReplaceExceptSchedule), string(UniqueIgnore)}
	uniqueMembers = []string{"keys", "args_keys", "meta_keys", "period", "states", "on_conflict", "key", "period_ms", "within"}
)

// ParseUnique reads a policy and fills its defaults (ojs-unique-jobs.md §2 and
// §13, with the aliases of contract §2.5). A member that is null is not given.
// short also takes periods such as "3600s", which ojs-core.md §13 writes. raw
// must have passed CheckJSON. Errors are Invalid.
func ParseUnique(raw json.RawMessage, short bool) (UniquePolicy, error) {
	p := UniquePolicy{Keys: []string{"type"}, States: SetOf(Available, Active, Scheduled, Retryable, Pending), OnConflict: UniqueReject}
	if len(raw) == 0 || raw[0] != '{' {
		return p, invalid(Invalid, "unique", "must be an object, got %s", rawjson.Kind(raw))
	}
	given, err := closed(raw, "unique", "a unique policy", uniqueMembers)
	if err != nil {
		return p, err
	}
	for _, read := range [...]func(fields) error{p.readKeys, p.readNames, p.readStates, p.readConflict} {
		if err := read(given); err != nil {
			return p, err
		}
	}
	if err := p.readPeriod(given, short); err != nil {
		return p, err
	}
	return p, p.agree() // last: a job that was stored before this was asked for still has its policy
}

// agree is an error where a name within args or meta would not count: jobs that
// differ in it would be twins (ojs-unique-jobs.md §2.2).
func (p *UniquePolicy) agree() error {
	for _, d := range [...]struct {
		dimension string
		names     []string
	}{{"args", p.ArgsKeys}, {"meta", p.MetaKeys}} {
		if len(d.names) == 0 || slices.Contains(p.Keys, d.dimension) {
			continue
		}
		field := "unique." + d.dimension + "_keys"
		if p.Key != "" {
			return invalid(Invalid, field, "does not count beside a unique.key that is a string: leave it out, or write keys in place of key")
		}
		return invalid(Invalid, field, "does not count without the dimension %q, so that jobs which differ in it would be taken for the same: add %q to unique.keys", d.dimension, d.dimension)
	}
	return nil
}

// closed cuts an object into its members. Other names than these are Invalid,
// except behind "x_".
func closed(raw json.RawMessage, where, what string, names []string) (fields, error) {
	given := make(fields, 0, 4)
	err := membersOf(raw, where, func(name string, v json.RawMessage) error {
		if slices.Contains(names, name) {
			given = append(given, field{name, v})
		} else if !strings.HasPrefix(name, "x_") {
			return invalid(Invalid, where+shortened(name), "is not a member of %s, which has %s", what, strings.Join(names, ", "))
		}
		return nil
	})
	return given, err
}

// membersOf is Members of the object in a field, for the errors.
func membersOf(raw json.RawMessage, where string, fn func(name string, v json.RawMessage) error) error {
	var own error
	err := Members(raw, func(name string, v json.RawMessage) error {
		own = fn(name, v)
		return own
	})
	var twice *Error
	if own == nil && errors.As(err, &twice) {
		name, _ := twice.Details["field"].(string)
		err = invalid(Invalid, where+shortened(name), "is given twice")
	}
	return err
}

// shortened is a client's member name as an error names it.
func shortened(name string) string {
	if r := []rune(name); len(r) > 60 {
		return "." + string(r[:60]) + "…"
	}
	return "." + name
}

// readKeys reads the dimensions, or the alias key with its three meanings.
func (p *UniquePolicy) readKeys(given fields) (err error) {
	keys, key := given.set("keys"), given.set("key")
	switch {
	case keys != nil && key != nil:
		return invalid(Invalid, "unique.key", "is given beside unique.keys: one of them is enough")
	case key != nil && key[0] == '"':
		if p.Key, err = whole(key, "unique.key"); err == nil && p.Key == "" {
			err = invalid(Invalid, "unique.key", "must not be empty")
		}
		return err
	case key != nil:
		return p.readAlias(key)
	case keys == nil:
		return nil
	}
	list, err := distinct(keys, "unique.keys")
	if err != nil {
		return err
	}
	for _, k := range list {
		if !slices.Contains(dimensions, k) {
			return invalid(Invalid, "unique.keys", "must hold nothing but %s, got %.60q", strings.Join(dimensions, ", "), k)
		}
	}
	p.dimensions(list)
	return nil
}

// readAlias reads a key that is an array: dimensions, or else names within args
// that need not be there (contract C-22).
func (p *UniquePolicy) readAlias(key json.RawMessage) error {
	if key[0] != '[' {
		return invalid(Invalid, "unique.key", "must be a string or an array of strings, got %s", rawjson.Kind(key))
	}
	list, err := distinct(key, "unique.key")
	if err != nil {
		return err
	}
	for _, k := range list {
		if !slices.Contains(dimensions, k) {
			p.ArgsKeys, p.Lenient = list, true
			list = []string{"args"}
			break
		}
	}
	p.dimensions(list)
	return nil
}

// dimensions sets Keys. The type is one of them whatever was asked for
// (ojs-unique-jobs.md §2.2).
func (p *UniquePolicy) dimensions(list []string) {
	if !slices.Contains(list, "type") {
		list = append(list, "type")
	}
	slices.Sort(list)
	p.Keys = list
}

// readNames reads the names within args and meta. An empty list is as good as none.
func (p *UniquePolicy) readNames(given fields) error {
	if v := given.set("args_keys"); v != nil {
		list, err := distinct(v, "unique.args_keys")
		if err != nil {
			return err
		}
		if p.Lenient && len(list) > 0 {
			return invalid(Invalid, "unique.args_keys", "is given beside a unique.key that lists names within args: one of them is enough")
		}
		if len(list) > 0 {
			p.ArgsKeys = list
		}
	}
	if v := given.set("meta_keys"); v != nil {
		list, err := distinct(v, "unique.meta_keys")
		if err != nil {
			return err
		}
		p.MetaKeys = list
	}
	if slices.Contains(p.Keys, "meta") && len(p.MetaKeys) == 0 {
		return invalid(Invalid, "unique.meta_keys", "must list at least one name within meta, as keys holds meta")
	}
	return nil
}

// distinct reads an array of strings, none of them twice, and sorts them. They
// are brought into NFC, as are the names they are compared with.
func distinct(v json.RawMessage, field string) ([]string, error) {
	list := []string{}
	err := Elements(v, func(_ int, item json.RawMessage) error { // what is no array is an error, too
		s, err := whole(item, field)
		list = append(list, norm.NFC.String(s))
		return err
	})
	if err != nil && rawjson.Halved(v) {
		return nil, invalid(Invalid, field, "must not hold half of a surrogate pair, got %s", shown(v))
	}
	if err != nil {
		return nil, invalid(Invalid, field, "must be an array of strings, got %s", shown(v))
	}
	slices.Sort(list)
	for i := 1; i < len(list); i++ {
		if list[i] == list[i-1] {
			return nil, invalid(Invalid, field, "must not hold a string twice, got %.60q twice", list[i])
		}
	}
	return list, nil
}

// readStates reads the states in which a stored job counts (ojs-unique-jobs.md §6).
func (p *UniquePolicy) readStates(given fields) error {
	v := given.set("states")
	if v == nil {
		return nil
	}
	list, err := distinct(v, "unique.states")
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return invalid(Invalid, "unique.states", "must not be empty: without it, the five states before an end are taken")
	}
	p.States = 0
	for _, s := range list {
		if !slices.Contains(States, State(s)) {
			return invalid(Invalid, "unique.states", "must hold nothing but scheduled, available, pending, active, retryable, completed, cancelled, discarded, got %.60q", s)
		}
		p.States |= SetOf(State(s))
	}
	return nil
}

func (p *UniquePolicy) readConflict(given fields) error {
	v := given.set("on_conflict")
	if v == nil {
		return nil
	}
	s, err := text(v, "unique.on_conflict")
	if err != nil || !slices.Contains(strategies, s) {
		return invalid(Invalid, "unique.on_conflict", "must be one of %s, got %s", strings.Join(strategies, ", "), shown(v))
	}
	p.OnConflict = OnConflict(s)
	return nil
}

// readPeriod reads the window, under one of its three names.
func (p *UniquePolicy) readPeriod(given fields, short bool) (err error) {
	field := ""
	for _, name := range [...]string{"period", "period_ms", "within"} {
		v := given.set(name)
		if v == nil {
			continue
		}
		if field != "" {
			return invalid(Invalid, "unique."+name, "is given beside %s: one of them is enough", field)
		}
		field = "unique." + name
		if p.Period, err = period(v, name, short); err != nil {
			return err
		}
		if p.Period <= 0 || p.Period > MaxDuration {
			return invalid(Invalid, field, "must be from 1 millisecond to 100 years, got %s", shown(v))
		}
	}
	return nil
}

// period reads a duration in whole milliseconds: ISO 8601 or whole seconds,
// "3600s" if short; whole milliseconds for period_ms; "1h30m" for within.
func period(v json.RawMessage, name string, short bool) (d time.Duration, err error) {
	s, want := "", ""
	if v[0] == '"' {
		s = rawjson.Unquote(v)
	}
	switch name {
	case "within":
		want = `a duration such as "1h30m"`
		if d, err = time.ParseDuration(s); err == nil {
			return ceilMillis(d), nil
		}
	case "period_ms":
		want = "whole milliseconds"
		if n, ok := integer(v); ok {
			return units(n, time.Millisecond), nil
		}
	default:
		want = "an ISO 8601 duration such as PT1H, or whole seconds"
		if n, ok := integer(v); ok {
			return units(n, time.Second), nil
		}
		if short && shortForm.MatchString(s) {
			return shortPeriod(s)
		}
		if v[0] == '"' {
			if d, err = ParseDuration(s); err != nil {
				return 0, invalid(Invalid, "unique.period", "%v", err)
			}
			return d, nil
		}
	}
	return 0, invalid(Invalid, "unique."+name, "must be %s, got %s", want, shown(v))
}

// units is n units of time, or -1 where that is out of bounds.
func units(n int64, unit time.Duration) time.Duration {
	if n < 0 || n > int64(MaxDuration/unit) {
		return -1
	}
	return time.Duration(n) * unit
}

// shortPeriod reads what has the shortForm (contract C-05), or -1 where that is
// out of bounds.
func shortPeriod(s string) (time.Duration, error) {
	days, isDays := strings.CutSuffix(s, "d")
	if strings.Contains(days, ".") && isDays {
		return 0, invalid(Invalid, "unique.period", "must be whole days, got %q", s)
	}
	parse := time.ParseDuration
	if isDays {
		s, parse = "P"+days+"D", ParseDuration
	}
	d, err := parse(s)
	if err != nil {
		return -1, nil
	}
	return ceilMillis(d), nil
}
