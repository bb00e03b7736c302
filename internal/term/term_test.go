package term_test

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/outrider-jobs/outrider/internal/term"
)

// escape is a change of style.
var escape = regexp.MustCompile("\x1b\\[[0-9]+m")

// words are cells of all kinds: long, wide, joined, and hostile.
var words = rapid.OneOf(rapid.StringMatching(`[a-z.]{0,40}`), rapid.StringMatching(`[日本語é́a]{0,12}`), rapid.SampledFrom([]string{"", "\x1b[31mred", "a\tb\nc", "completed", "👩‍🚀"}))

// TestTablesFit draws any table on any screen: no line is wider than the screen as
// long as something could still be cut or left out, colours change no character, and
// on a screen without a width every cell is whole.
func TestTablesFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := make([]term.Column, rapid.IntRange(1, 6).Draw(t, "columns"))
		for i := range columns {
			columns[i] = term.Column{Head: rapid.StringMatching(`[A-Z]{1,8}`).Draw(t, "head"), Right: rapid.Bool().Draw(t, "right"),
				Min: rapid.IntRange(0, 10).Draw(t, "min"), Drop: rapid.IntRange(0, 3).Draw(t, "drop"), Style: term.OfState}
		}
		rows := make([][]string, rapid.IntRange(0, 5).Draw(t, "rows"))
		for r := range rows {
			rows[r] = make([]string, len(columns))
			for c := range columns {
				rows[r][c] = words.Draw(t, "cell")
			}
		}
		screen := term.Screen{Width: rapid.IntRange(0, 120).Draw(t, "width")}
		draw := func(s term.Screen) string {
			var b bytes.Buffer
			if err := s.Table(&b, columns, rows); err != nil {
				t.Fatal(err)
			}
			return b.String()
		}
		plain := draw(screen)
		screen.Color = true
		if painted := escape.ReplaceAllString(draw(screen), ""); trimmed(painted) != trimmed(plain) {
			t.Fatalf("colours change the text:\n%s\n%s", plain, painted)
		}
		least := 0 // what is left where everything is cut and left out
		for _, c := range columns {
			if c.Drop == 0 {
				natural := term.Width(c.Head)
				for _, row := range rows {
					natural = max(natural, term.Width(row[slices.IndexFunc(columns, func(o term.Column) bool { return o.Head == c.Head })]), 40)
				}
				if c.Min > 0 {
					natural = max(c.Min, term.Width(c.Head))
				}
				least += natural + 2
			}
		}
		for line := range strings.Lines(plain) {
			line = strings.TrimSuffix(line, "\n")
			if screen.Width >= least && screen.Width > 0 && term.Width(line) > screen.Width {
				t.Fatalf("%d columns on a screen of %d (%d would do): %q", term.Width(line), screen.Width, least, line)
			}
			if strings.ContainsAny(line, "\x1b\t") {
				t.Fatalf("a cell has moved the cursor: %q", line)
			}
		}
		if screen.Width == 0 && strings.Contains(plain, "…") {
			t.Fatalf("something is cut on a screen without a width:\n%s", plain)
		}
	})
}

func trimmed(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}

// TestATable shows what gives way first.
func TestATable(t *testing.T) {
	columns := []term.Column{{Head: "ID"}, {Head: "TYPE", Min: 6}, {Head: "STATE"}, {Head: "JOBS", Right: true, Drop: 1}, {Head: "HOST", Drop: 2}}
	rows := [][]string{{"0197", "email.send_newsletter", "active", "7", "web-1"}, {"0198", "日本語のジョブ", "completed", "1204", "web-2"}}
	for width, want := range map[int]string{
		0:  "ID    TYPE                   STATE      JOBS  HOST\n0197  email.send_newsletter  active        7  web-1\n0198  日本語のジョブ         completed  1204  web-2\n",
		45: "ID    TYPE             STATE      JOBS  HOST\n0197  email.send_new…  active        7  web-1\n0198  日本語のジョブ   completed  1204  web-2\n",
		34: "ID    TYPE         STATE      JOBS\n0197  email.send…  active        7\n0198  日本語のジ…  completed  1204\n",
		22: "ID    TYPE    STATE\n0197  email…  active\n0198  日本…   completed\n",
	} {
		var b bytes.Buffer
		if err := (term.Screen{Width: width}).Table(&b, columns, rows); err != nil {
			t.Fatal(err)
		}
		if b.String() != want {
			t.Errorf("at %d columns:\n%swant:\n%s", width, b.String(), want)
		}
	}
}

func TestFacts(t *testing.T) {
	var b bytes.Buffer
	err := term.Screen{Color: true}.Facts(&b, []term.Fact{{Name: "id", Text: "0197"}, {Name: "state", Text: "active\x1b[2J", Style: term.Busy}})
	if want := "\x1b[2mid\x1b[0m     0197\n\x1b[2mstate\x1b[0m  \x1b[36mactive\\x1b[2J\x1b[0m\n"; err != nil || b.String() != want {
		t.Errorf("got %q, %v", b.String(), err)
	}
}

func TestAgo(t *testing.T) {
	now := time.Date(2026, 3, 15, 12, 0, 0, 0, time.UTC)
	for off, want := range map[time.Duration]string{
		0: "now", 999 * time.Millisecond: "now", -999 * time.Millisecond: "now", time.Second: "in 1s", -59 * time.Second: "59s ago", -time.Minute: "1m ago",
		-61 * time.Second: "1m 1s ago", 90 * time.Minute: "in 1h 30m", -50 * time.Hour: "2d 2h ago", 24 * time.Hour: "in 1d", -(24*time.Hour + time.Minute): "1d ago",
	} {
		if got := term.Ago(now.Add(off), now); got != want {
			t.Errorf("%v: got %q, want %q", off, got, want)
		}
	}
	for off, want := range map[time.Duration]string{0: "now", -61 * time.Second: "1m ago", 90 * time.Minute: "in 1h", -24 * time.Hour: "1d ago"} {
		if got := term.About(now.Add(off), now); got != want {
			t.Errorf("about %v: got %q, want %q", off, got, want)
		}
	}
	if got := term.Ago(time.Time{}, now); got != "-" {
		t.Errorf("no time is %q", got)
	}
}

// TestFill breaks any text: no line is longer than the screen unless it is one word,
// and the words stay in their order.
func TestFill(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.StringMatching(`[a-z]{1,12}[ \n]{1,2}| {2}[a-z]{1,30} {2}`)).Draw(t, "text"), "")
		columns := rapid.IntRange(20, 80).Draw(t, "columns")
		filled := term.Fill(text, columns)
		if got, want := strings.Fields(filled), strings.Fields(text); !slices.Equal(got, want) {
			t.Fatalf("words were lost: %q of %q", got, want)
		}
		for line := range strings.Lines(filled) {
			if line = strings.TrimSuffix(line, "\n"); term.Width(line) > columns && breakable(line) {
				t.Fatalf("%d columns: %q", columns, line)
			}
		}
	})
	got := term.Fill("One sentence that is\nbroken by hand.\n\n  name  what it is for, at some length\n  outrider serve", 24)
	if want := "One sentence that is\nbroken by hand.\n\n  name  what it is for,\n        at some length\n  outrider serve\n"; got != want {
		t.Errorf("got\n%s", got)
	}
}

// breakable reports whether there was a better place to end the line: a space behind
// its first word, or behind the second column of a table.
func breakable(line string) bool {
	_, rest, _ := strings.Cut(strings.TrimLeft(line, " "), "  ")
	if rest == "" || line[0] != ' ' {
		rest = line
	}
	return len(strings.Fields(rest)) > 1
}

func TestCrop(t *testing.T) {
	s := term.Screen{Height: 5}
	for text, want := range map[string]string{
		"1\n2\n3\n": "1\n2\n3\n", "1\n2\n3\n4\n": "1\n2\n… and 2 lines more\n", "": "", "1\n2\n3": "1\n2\n3",
	} {
		if got := s.Crop(text, 2); got != want {
			t.Errorf("%q: got %q", text, got)
		}
	}
	if got := (term.Screen{}).Crop("1\n2\n3\n", 2); got != "1\n2\n3\n" {
		t.Errorf("without a height: %q", got)
	}
}

// TestAPipeIsPlain: what a program reads has no colours, and is not cut unless COLUMNS says so.
func TestAPipeIsPlain(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for _, out := range []*os.File{w, r} {
		if s := term.Of(out, map[string]string{"TERM": "xterm-256color"}); s != (term.Screen{}) {
			t.Errorf("got %+v", s)
		}
	}
	for columns, want := range map[string]int{"72": 72, "-1": 0, "many": 0, "": 0} {
		if s := term.Of(w, map[string]string{"COLUMNS": columns}); s != (term.Screen{Width: want}) {
			t.Errorf("COLUMNS=%s: %+v", columns, s)
		}
	}
	if term.IsTerminal(w) || term.IsTerminal("text") {
		t.Error("a pipe is taken for a terminal")
	}
}
