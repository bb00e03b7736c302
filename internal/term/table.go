package term

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"github.com/outrider-jobs/outrider/internal/wording"
)

// A Column is one of a table, and what may be done to it where the screen is narrow.
type Column struct {
	Head  string
	Right bool                    // its cells stand to the right, as numbers do
	Min   int                     // it may be cut to so many columns, with … at the end; 0 is never
	Drop  int                     // it is left out where the cuts do not help, the largest number first; 0 is never
	Style func(cell string) Style // nil is plain
}

// gap stands between two columns.
const gap = "  "

// Table writes rows under the heads of their columns, within the width of the
// screen: long cells are cut first, and then whole columns left out. On a screen
// without a width nothing is.
func (s Screen) Table(w io.Writer, columns []Column, rows [][]string) error {
	widths := make([]int, len(columns))
	cells := make([][]string, len(rows))
	for c, col := range columns {
		widths[c] = Width(col.Head)
	}
	for r, row := range rows {
		cells[r] = make([]string, len(columns))
		for c := range columns {
			cells[r][c] = wording.Printable(row[c])
			widths[c] = max(widths[c], Width(cells[r][c]))
		}
	}
	shown := s.fit(columns, widths)
	line := func(row []string, style func(Column, string) Style) error {
		var b strings.Builder
		for i, c := range shown {
			if i > 0 {
				b.WriteString(gap)
			}
			text := Cut(row[c], widths[c])
			pad := strings.Repeat(" ", widths[c]-Width(text))
			painted := s.Paint(style(columns[c], row[c]), text)
			switch {
			case columns[c].Right:
				b.WriteString(pad + painted)
			case i == len(shown)-1:
				b.WriteString(painted)
			default:
				b.WriteString(painted + pad)
			}
		}
		_, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
		return err
	}
	heads := make([]string, len(columns))
	for c, col := range columns {
		heads[c] = col.Head
	}
	if err := line(heads, func(Column, string) Style { return Bold }); err != nil {
		return err
	}
	for _, row := range cells {
		if err := line(row, func(c Column, cell string) Style {
			if c.Style == nil {
				return Plain
			}
			return c.Style(cell)
		}); err != nil {
			return err
		}
	}
	return nil
}

// fit makes widths narrower until the table fits, and returns the columns that are shown.
func (s Screen) fit(columns []Column, widths []int) (shown []int) {
	for c := range columns {
		shown = append(shown, c)
	}
	over := func() int {
		sum := len(gap) * (len(shown) - 1)
		for _, c := range shown {
			sum += widths[c]
		}
		return sum - s.Width
	}
	natural := slices.Clone(widths)
	for s.Width > 0 && over() > 0 {
		// The one that is furthest above the least that it needs loses a column of the screen.
		widest, most := -1, 0
		for _, c := range shown {
			if spare := widths[c] - max(columns[c].Min, Width(columns[c].Head)); columns[c].Min > 0 && spare > most {
				widest, most = c, spare
			}
		}
		if widest >= 0 {
			widths[widest]--
			continue
		}
		last := slices.MaxFunc(shown, func(a, b int) int { return cmp.Compare(columns[a].Drop, columns[b].Drop) })
		if columns[last].Drop == 0 {
			break // it is as narrow as it gets
		}
		shown = slices.DeleteFunc(shown, func(c int) bool { return c == last })
		copy(widths, natural) // what was cut gets the room that is free now
	}
	return shown
}

// A Fact is a name and what it stands for.
type Fact struct {
	Name, Text string
	Style      Style
}

// Facts writes a line for each, the texts under one another.
func (s Screen) Facts(w io.Writer, facts []Fact) error {
	wide := 0
	for _, f := range facts {
		wide = max(wide, Width(f.Name))
	}
	for _, f := range facts {
		name := s.Paint(Faint, f.Name) + strings.Repeat(" ", wide-Width(f.Name))
		text := s.Paint(f.Style, wording.Printable(f.Text))
		if _, err := fmt.Fprintln(w, strings.TrimRight(name+gap+text, " ")); err != nil {
			return err
		}
	}
	return nil
}

// Width is how many columns text takes.
func Width(text string) (n int) {
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	switch k := width.LookupRune(r).Kind(); {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case k == width.EastAsianWide, k == width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Cut is text in at most n columns, with … in place of what does not fit.
func Cut(text string, n int) string {
	if Width(text) <= n {
		return text
	}
	used := 0
	for i, r := range text {
		if used += runeWidth(r); used > n-1 {
			return text[:i] + "…"
		}
	}
	return text
}
