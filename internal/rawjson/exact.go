package rawjson

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// What RFC 8785 would merge, or refuse, is kept apart here: two jobs with other
// args are no twins (ojs-unique-jobs.md §3.3), and with on_conflict ignore one of
// them would be lost. What float64 and UTF-16 can say is left to RFC 8785, so that
// others come to the same key.

// exact is the text of a number that must keep its digits, nil for one whose form
// is that of RFC 8785, and for what is no number. It is kept of
//
//   - an integer beyond ±(2^53−1);
//   - a number beyond 2^53 that is written with a point or an exponent, and is
//     another than the one that float64 makes of it;
//   - what float64 cannot hold at all, such as 1e400.
//
// With an exponent also those are float64's own that a program has printed with
// more or fewer digits than needed: 9.9999999999999992e+22 is 1e23.
func exact(v []byte) []byte {
	if c := v[0]; c != '-' && (c < '0' || c > '9') {
		return nil
	}
	if !bytes.ContainsAny(v, ".eE") {
		if len(v) > 15 {
			if n, err := strconv.ParseInt(string(v), 10, 64); err != nil || n >= 1<<53 || n <= -1<<53 {
				return v
			}
		}
		return nil
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil {
		return bytes.ToLower(v)
	}
	if -1<<53 < f && f < 1<<53 {
		return nil
	}
	digits, exponent := decimal(v)
	shortest, e := decimal(strconv.AppendFloat(nil, f, 'e', -1, 64))
	if exponent == e && bytes.Equal(digits, shortest) {
		return nil
	}
	if !bytes.ContainsAny(v, "eE") {
		return bytes.TrimSuffix(bytes.TrimRight(v, "0"), []byte("."))
	}
	if printed, e := decimal(strconv.AppendFloat(nil, f, 'e', len(digits)-1, 64)); exponent == e && bytes.Equal(digits, printed) {
		return nil
	}
	return layOut(v[0] == '-', digits, exponent)
}

// decimal takes a number that is not zero apart: it is 0.digits times ten to the
// exponent. The digits neither begin nor end with a zero.
func decimal(v []byte) (digits []byte, exponent int) {
	v = bytes.TrimPrefix(v, []byte("-"))
	if i := bytes.IndexAny(v, "eE"); i >= 0 {
		exponent, _ = strconv.Atoi(string(bytes.TrimPrefix(v[i+1:], []byte("+")))) // float64 holds it
		v = v[:i]
	}
	whole, fraction, _ := bytes.Cut(v, []byte("."))
	digits = append(append(make([]byte, 0, len(v)), whole...), fraction...)
	exponent += len(whole)
	leading := len(digits) - len(bytes.TrimLeft(digits, "0"))
	return bytes.TrimRight(digits[leading:], "0"), exponent - leading
}

// layOut writes a number of at least 2^53 as ECMAScript lays out its digits.
func layOut(negative bool, digits []byte, exponent int) []byte {
	var b []byte
	if negative {
		b = append(b, '-')
	}
	switch n := len(digits); {
	case exponent > 21:
		b = append(b, digits[0])
		if n > 1 {
			b = append(append(b, '.'), digits[1:]...)
		}
		return fmt.Appendf(b, "e+%d", exponent-1)
	case n <= exponent:
		return append(append(b, digits...), bytes.Repeat([]byte("0"), exponent-n)...)
	}
	return append(append(append(b, digits[:exponent]...), '.'), digits[exponent:]...)
}

// appendHalves writes the inside of a JSON string that holds half a surrogate pair
// as it is canonical: the halves as escapes, what is between them in NFC.
func appendHalves(dst, v []byte) []byte {
	from := 1
	for i := 1; i < len(v)-1; i++ {
		if v[i] != '\\' {
			continue
		}
		if i++; v[i] != 'u' {
			continue
		}
		r, at := hex4(v[i+1:]), i-1
		i += 4
		switch {
		case !utf16.IsSurrogate(r):
		case bytes.HasPrefix(v[i+1:], []byte(`\u`)) && utf16.DecodeRune(r, hex4(v[i+3:])) != utf8.RuneError:
			i += 6
		default:
			dst = fmt.Appendf(appendCanonical(dst, v[from:at]), `\u%04x`, r)
			from = i + 1
		}
	}
	return appendCanonical(dst, v[from:len(v)-1])
}

// appendCanonical writes a part of a JSON string that holds no half of a pair.
func appendCanonical(dst, v []byte) []byte {
	s := Unquote(append(append([]byte{'"'}, v...), '"')) // it is valid JSON
	for _, c := range []byte(norm.NFC.String(s)) {
		if short := bytes.IndexByte([]byte("\b\t\n\f\r"), c); short >= 0 {
			dst = append(dst, '\\', "btnfr"[short])
		} else {
			dst = appendQuoted(dst, []byte{c})
		}
	}
	return dst
}

// Halved reports whether a valid JSON string has an escape for half of a surrogate pair.
func Halved(v []byte) bool {
	for i := 0; i < len(v); i++ {
		if v[i] != '\\' {
			continue
		}
		if i++; v[i] != 'u' {
			continue
		}
		r := hex4(v[i+1:])
		i += 4
		if !utf16.IsSurrogate(r) {
			continue
		}
		if !bytes.HasPrefix(v[i+1:], []byte(`\u`)) || utf16.DecodeRune(r, hex4(v[i+3:])) == utf8.RuneError {
			return true
		}
		i += 6
	}
	return false
}

// hex4 is the number of the four digits that v begins with.
func hex4(v []byte) rune {
	n, _ := strconv.ParseUint(string(v[:4]), 16, 16) // it is valid JSON
	return rune(n)
}
