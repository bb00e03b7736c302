package costs

import (
	"slices"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	made := func(pages, allocs float64) *Table {
		tb := &Table{About: "What it is.\nAnd more.", Columns: []Column{{Name: "rows"}, {Name: "pages", Digits: 2}, {Name: "allocs", Slack: 0.5, Share: 0.05, Digits: 1}}}
		tb.Add("PUSH, of one", 6, pages, allocs)
		tb.Add("GET", 0, 0, 0)
		return tb
	}
	text := made(7.785, 3).text(nil)
	if want := `
operation     rows  pages  allocs
PUSH, of one     6   7.79       3
GET              0      0       0
`; !strings.HasSuffix(text, want) || !strings.HasPrefix(text, "# What it is.\n# And more.\n#\n") {
		t.Errorf("the file is\n%s", text)
	}
	said := parse(text)
	for _, tt := range []struct {
		pages, allocs float64
		want          []string
	}{
		{7.785, 3, nil}, {7.79, 2.5, nil}, {7.79, 3.54, nil},
		{7.8, 3, []string{"PUSH, of one: 7.8 pages, more than 7.79"}},
		{7.7, 4, []string{"PUSH, of one: 7.7 pages, less than 7.79", "PUSH, of one: 4 allocs, more than 3"}},
	} {
		if got := made(tt.pages, tt.allocs).diffs(said); !slices.Equal(got, tt.want) {
			t.Errorf("%v pages, %v allocs: %q, want %q", tt.pages, tt.allocs, got, tt.want)
		}
	}
	if again := made(7.79, 3.4).text(said); again != text {
		t.Errorf("what is within the slack was written anew:\n%s", again)
	}
	other := made(7.785, 3)
	other.rows[1].name = "DELETE"
	got := other.diffs(said)
	if want := []string{"DELETE: 0 rows is not in the file", "DELETE: 0 pages is not in the file", "DELETE: 0 allocs is not in the file",
		"GET: is in the file, and is not counted any more"}; !slices.Equal(got, want) {
		t.Errorf("another line: %q", got)
	}
}

var sinkhole []byte

func TestMemory(t *testing.T) {
	if got := Memory(2, 50, func(int) { sinkhole = make([]byte, 1024) }); got[0] < 1 || got[0] > 1.5 || got[1] < 1024 || got[1] > 1100 {
		t.Errorf("one allocation of 1,024 bytes is %v", got)
	}
}
