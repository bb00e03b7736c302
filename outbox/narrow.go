package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// narrow reports whether the database cannot keep every character.
func narrow(ctx context.Context, conn *sql.Conn, d Dialect) (bool, error) {
	if d.sql.Narrow == "" {
		return false, nil
	}
	found, err := texts(ctx, conn, d.sql.Narrow)
	return len(found) > 0, err
}

// keepable is the batch as the database can keep it: one character that it
// cannot would fail all ticks of the batch, at each try. Names, types and ids are
// in ASCII by their own rules.
func (t *Ticks) keepable(ctx context.Context, conn *sql.Conn, batch []wantedTick) ([]wantedTick, error) {
	if !slices.ContainsFunc(batch, func(c wantedTick) bool { return !ascii(c.row.args) || !ascii(c.row.options) }) {
		return batch, nil
	}
	if narrow, err := narrow(ctx, conn, t.d); err != nil || !narrow {
		return batch, err
	}
	batch = slices.Clone(batch)
	for i := range batch {
		r := &batch[i].row
		r.args, r.options = escaped(r.args), escaped(r.options)
	}
	return batch, nil
}

func ascii(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return c >= utf8.RuneSelf })
}

// escaped is the same JSON in ASCII. Other characters stand in strings alone,
// where an escape means the same.
func escaped(json []byte) []byte {
	if ascii(json) {
		return json
	}
	b := make([]byte, 0, 2*len(json))
	for _, c := range string(json) {
		switch {
		case c < utf8.RuneSelf:
			b = append(b, byte(c))
		case c <= 0xffff:
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			high, low := utf16.EncodeRune(c)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		}
	}
	return b
}

// plainly is a text in ASCII, with escapes for what is not.
func plainly(s string) string {
	var b strings.Builder
	for _, c := range s {
		if c < utf8.RuneSelf {
			b.WriteRune(c)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(c), "'"))
		}
	}
	return b.String()
}
