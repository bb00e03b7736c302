// Package costs compares what operations cost with a golden file, in tests: a
// table with a line for each operation and a column for each figure, so that a
// change is a diff that a person can read. The figures are counted, not timed: they
// are the same on a machine that is busy.
package costs

import (
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Column is one figure of all operations.
type Column struct {
	Name   string
	Slack  float64 // how far from the file a figure may be
	Share  float64 // the same, as a share of it; the larger one counts
	Digits int     // behind the point, where it is not whole
}

// Table is what was counted.
type Table struct {
	About   string // stands above the table, each line with a # in front
	Columns []Column
	rows    []row
}

type row struct {
	name    string
	figures []float64
}

// Add adds an operation with a figure for each column.
func (tb *Table) Add(name string, figures ...float64) {
	tb.rows = append(tb.rows, row{name, figures})
}

const renew = `go test -run '^TestCosts' ./sqlitestore ./sidecar/httpapi -update`

// Check compares the table with the file at path, which update writes anew. More than
// the file says fails, and less, too. What update finds within the slack of what the
// file says, it leaves as it is.
func (tb *Table) Check(t *testing.T, path string, update bool) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil && !(update && os.IsNotExist(err)) {
		t.Fatal(err)
	}
	said := parse(string(raw))
	if update {
		if err := os.WriteFile(path, []byte(tb.text(said)), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diffs := tb.diffs(said); len(diffs) > 0 {
		t.Errorf(`what operations cost is not what %s says:
    %s
More: find out what has made it so; if it is worth that, the commit says why.
Less: good, and the file must say so, or nobody sees it when it is lost again.
Either way this writes the file anew, and the diff goes with the change:
    %s`, path, strings.Join(diffs, "\n    "), renew)
	}
}

// diffs are the figures that are not as the file says, and the lines that only one has.
func (tb *Table) diffs(said map[string]map[string]float64) (diffs []string) {
	known := map[string]bool{}
	for _, r := range tb.rows {
		known[r.name] = true
		for i, c := range tb.Columns {
			was, ok := said[r.name][c.Name]
			switch now := c.round(r.figures[i]); {
			case !ok:
				diffs = append(diffs, fmt.Sprintf("%s: %s %s is not in the file", r.name, c.show(now), c.Name))
			case !c.near(was, now):
				word := "more"
				if now < was {
					word = "less"
				}
				diffs = append(diffs, fmt.Sprintf("%s: %s %s, %s than %s", r.name, c.show(now), c.Name, word, c.show(was)))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		if !known[name] {
			diffs = append(diffs, name+": is in the file, and is not counted any more")
		}
	}
	return diffs
}

func (c *Column) near(was, now float64) bool {
	return math.Abs(was-now) <= max(c.Slack, c.Share*was)+1e-9
}

func (c *Column) round(v float64) float64 {
	p := math.Pow10(c.Digits)
	return math.Round(v*p) / p
}

func (c *Column) show(v float64) string { return strconv.FormatFloat(c.round(v), 'f', -1, 64) }

// text is the file.
func (tb *Table) text(said map[string]map[string]float64) string {
	lines := [][]string{{"operation"}}
	for _, c := range tb.Columns {
		lines[0] = append(lines[0], c.Name)
	}
	for _, r := range tb.rows {
		line := []string{r.name}
		for i, c := range tb.Columns {
			v := r.figures[i]
			if was, ok := said[r.name][c.Name]; ok && c.near(was, c.round(v)) {
				v = was
			}
			line = append(line, c.show(v))
		}
		lines = append(lines, line)
	}
	var b strings.Builder
	for line := range strings.Lines(strings.TrimSpace(tb.About) + "\n\nWritten by " + renew) {
		fmt.Fprintln(&b, strings.TrimSpace("# "+line))
	}
	b.WriteString("\n")
	for _, line := range lines {
		for i, cell := range line {
			wide := 0
			for _, l := range lines {
				wide = max(wide, len(l[i]))
			}
			if i == 0 {
				fmt.Fprintf(&b, "%-*s", wide, cell)
			} else {
				fmt.Fprintf(&b, "  %*s", wide, cell)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

var gap = regexp.MustCompile(`  +`)

// parse reads the figures of a file by operation and column.
func parse(text string) map[string]map[string]float64 {
	said := map[string]map[string]float64{}
	var names []string
	for line := range strings.Lines(text) {
		cells := gap.Split(strings.TrimSpace(line), -1)
		switch {
		case strings.HasPrefix(line, "#") || len(cells) < 2:
		case names == nil:
			names = cells
		default:
			said[cells[0]] = map[string]float64{}
			for i, cell := range cells[1:] {
				if v, err := strconv.ParseFloat(cell, 64); err == nil && i+1 < len(names) {
					said[cells[0]][names[i+1]] = v
				}
			}
		}
	}
	return said
}
