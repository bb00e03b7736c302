package handwork

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/job"
)

// TestOutputIsAlwaysAResult: whatever a command prints, and in whatever pieces, a server
// takes the result, and it is what was printed or says that it was cut.
func TestOutputIsAlwaysAResult(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		out := &head{limit: rapid.SampledFrom([]int{16, 64, maxResult}).Draw(t, "limit")}
		var all []byte
		for _, part := range rapid.SliceOfN(rapid.OneOf(rapid.SliceOf(rapid.Byte()),
			rapid.Map(rapid.SampledFrom([]string{"{", "}", "[1,2]", "null", `"é"`, "\n", " ", "\xff", "\x00", "007", "[[[[", `{"a":1}`}), func(s string) []byte { return []byte(s) })), 0, 8).Draw(t, "parts") {
			all = append(all, part...)
			if n, err := out.Write(part); n != len(part) || err != nil {
				t.Fatalf("Write: %d %v", n, err)
			}
		}
		got := out.result()
		if got == nil {
			if len(bytes.TrimSpace(all)) > 0 {
				t.Fatalf("%q has no result", all)
			}
			return
		}
		if err := job.CheckJSON(got); err != nil || len(got) > job.MaxResultBytes {
			t.Fatalf("%q: %d bytes, %v", all, len(got), err)
		}
		if len(all) <= out.limit && job.CheckJSON(bytes.TrimSpace(all)) == nil {
			if !bytes.Equal(got, bytes.TrimSpace(all)) {
				t.Fatalf("%q became %q", all, got)
			}
			return
		}
		var text string
		if err := json.Unmarshal(got, &text); err != nil {
			t.Fatal(err)
		}
		want := strings.TrimRight(strings.Map(func(r rune) rune { return r }, string(all)), "\r\n")
		if len(all) > out.limit {
			want = strings.Map(func(r rune) rune { return r }, string(all[:out.limit])) + fmt.Sprintf("… (cut by the worker: %d bytes)", len(all))
		}
		if text != want {
			t.Fatalf("%q became %q, want %q", all, text, want)
		}
	})
}

// TestTheEndOfErrorsIsKept: in whatever pieces they come, and from a whole character on.
func TestTheEndOfErrorsIsKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		errs := &tail{}
		var all strings.Builder
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 3*maxTail), 0, 6).Draw(t, "sizes") {
			part := strings.Repeat(rapid.SampledFrom([]string{"x", "é", "€", "😀"}).Draw(t, "of"), n/2)
			all.WriteString(part)
			_, _ = errs.Write([]byte(part))
		}
		got := errs.text()
		if !strings.HasSuffix(all.String(), got) || !utf8.ValidString(got) || len(got) > maxTail || len(got) < min(all.Len(), maxTail-utf8.UTFMax) {
			t.Fatalf("of %d bytes %d are kept: %.40q", all.Len(), len(got), got)
		}
		if errs.size != int64(all.Len()) {
			t.Fatalf("counted %d of %d bytes", errs.size, all.Len())
		}
	})
}

// TestPlainIsPlain: nothing in it moves a cursor, and it is no longer than asked for.
func TestPlainIsPlain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, most := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text")), rapid.IntRange(3, 40).Draw(t, "most")
		got := Plain(s+"\x1b[31m\u202e\u2028", most)
		if len(got) > most || !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
			t.Fatalf("%q became %q", s, got)
		}
	})
}

func TestLinesOfCommands(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		parts []string
		want  string
	}{
		"whole lines": {[]string{"a\nb\n"}, "j1  a\nj1  b\n"},
		"in pieces":   {[]string{"a", "b", "\n", "c"}, "j1  ab\nj1  c\n"},
		"empty":       {[]string{"\n\n"}, "j1  \nj1  \n"},
		"nothing":     {nil, ""},
		"long":        {[]string{strings.Repeat("x", 600), strings.Repeat("x", 600), "\ny\n"}, "j1  " + strings.Repeat("x", maxLine) + "…\nj1  y\n"},
		"steering":    {[]string{"a\x1b[2Jb\r\n"}, "j1  a [2Jb\n"},
	} {
		var b strings.Builder
		l := &lines{to: &b, id: "j1"}
		for _, part := range tt.parts {
			l.add([]byte(part))
		}
		l.flush()
		if got := b.String(); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
