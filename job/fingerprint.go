package job

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// canonical is the text that the fingerprint of e is over: the RFC 8785 form of
// the dimensions (ojs-unique-jobs.md §4.1, contract §4.10). e must be valid. The
// error is Invalid when args does not hold what ArgsKeys names.
func (p UniquePolicy) canonical(e *Envelope) ([]byte, error) {
	raw, err := p.counted(e)
	if err != nil {
		return nil, err
	}
	text, err := rawjson.Canonical(raw)
	if err != nil {
		return nil, Errorf(Malformed, "%w", err)
	}
	return text, nil
}

// counted is the object of what the fingerprint of e is over.
func (p UniquePolicy) counted(e *Envelope) ([]byte, error) {
	o := rawjson.Object(make([]byte, 0, 256))
	o.Str("type", e.Type)
	if p.Key != "" {
		return o.Str("key", p.Key).Close(), nil
	}
	if slices.Contains(p.Keys, "queue") {
		o.Str("queue", cmp.Or(e.Queue, DefaultQueue))
	}
	if slices.Contains(p.Keys, "args") {
		args, err := p.args(e.Args)
		if err != nil {
			return nil, err
		}
		o.Raw("args", args)
	}
	if slices.Contains(p.Keys, "meta") {
		values, _ := pick(e.Meta, p.MetaKeys)
		o.Raw("meta", chosen(p.MetaKeys, values))
	}
	return o.Close(), nil
}

// args is the part of args that counts: all of it, or the named members of the
// object that it begins with.
//
// Lenient names of which not one is there leave all of args to count: else every
// job of the type would be a twin of every other.
func (p UniquePolicy) args(args json.RawMessage) (json.RawMessage, error) {
	if p.ArgsKeys == nil {
		return args, nil
	}
	first := rawjson.First(args)
	if !p.Lenient && (first == nil || first[0] != '{') {
		return nil, invalid(Invalid, "unique.args_keys", "needs args to begin with an object that holds the names, got %s", rawjson.Kind(first))
	}
	values, found := pick(first, p.ArgsKeys)
	if p.Lenient && found == 0 {
		return args, nil
	}
	if i := slices.IndexFunc(values, func(v json.RawMessage) bool { return v == nil }); i >= 0 && !p.Lenient {
		return nil, invalid(Invalid, "unique.args_keys", "names %.60q, which the object that args begins with does not hold", p.ArgsKeys[i])
	}
	return chosen(p.ArgsKeys, values), nil
}

// pick is the values of some members of a valid JSON object, nil for those that
// are not there, and how many are. names are sorted and in NFC; of names that
// are the same in NFC, the last counts. What is no object has no members.
func pick(obj json.RawMessage, names []string) (values []json.RawMessage, found int) {
	values = make([]json.RawMessage, len(names))
	_ = rawjson.Walk(obj, func(quoted, v json.RawMessage) error { // what is no object has none
		name := rawjson.Unquote(quoted)
		half := strings.ContainsRune(name, utf8.RuneError) && rawjson.Halved(quoted) // no list can name it
		if n, ok := slices.BinarySearch(names, norm.NFC.String(name)); ok && !half {
			if values[n] == nil {
				found++
			}
			values[n] = v
		}
		return nil
	})
	return values, found
}

// chosen is the object of the values that were found.
func chosen(names []string, values []json.RawMessage) json.RawMessage {
	o := rawjson.Object(nil)
	for i, v := range values {
		if v != nil {
			o.Quoted(names[i], v)
		}
	}
	return o.Close()
}

// fingerprintOf is the lower-case hexadecimal SHA-256 of a canonical text
// (ojs-unique-jobs.md §4.2).
func fingerprintOf(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}
