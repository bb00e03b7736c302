package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/job"
)

var (
	topQueueColumns = []term.Column{{Head: "QUEUE", Min: 8}, {Head: "STATE", Style: ofQueue, Drop: 5}, {Head: "WAITING", Right: true}, {Head: "ACTIVE", Right: true},
		{Head: "LATER", Right: true, Drop: 6}, {Head: "RETRY", Right: true, Drop: 4}, {Head: "IN/S", Right: true, Drop: 1}, {Head: "OUT/S", Right: true, Drop: 1}, {Head: "FAIL/S", Right: true, Drop: 3}, {Head: "OLDEST", Drop: 2}}
	topWorkerColumns = []term.Column{{Head: "WORKER", Min: 12}, {Head: "STATE", Style: term.OfState}, {Head: "JOBS", Right: true}, {Head: "HOST", Min: 8, Drop: 1}, {Head: "LAST BEAT"}}
	topFailColumns   = []term.Column{{Head: "FAILING TYPE", Min: 12}, {Head: "FAILED", Right: true}, {Head: "LAST"}, {Head: "ERROR", Min: 12}}
)

// ofQueue is the style of a queue's state: that which is plain is active.
func ofQueue(state string) term.Style {
	if state == "active" {
		return term.Plain
	}
	return term.OfState(state)
}

// topSection is one of the tables of the screen.
type topSection struct {
	columns []term.Column
	rows    [][]string
	room    int // how many rows are shown
}

// draw is the lines of the screen: no more than it has, and none longer than it is wide.
func (t *top) draw(s term.Screen) []string {
	f, now := t.frame, t.clock()
	lines := t.head(s, f, now)
	sections := []*topSection{{columns: topQueueColumns, rows: t.queueRows(f, now)}}
	if len(f.Workers) > 0 {
		sections = append(sections, &topSection{columns: topWorkerColumns, rows: workerRows(f, now)})
	}
	if len(f.Failing) > 0 {
		sections = append(sections, &topSection{columns: topFailColumns, rows: failingRows(f, now)})
	}
	room := -1
	if s.Height > 0 {
		for { // each has a head and an empty line; below them are an empty line and the keys
			if room = max(0, s.Height-len(lines)-2-2*len(sections)); room >= 2*len(sections) || len(sections) == 1 {
				break
			}
			sections = sections[:len(sections)-1] // what is left of it is not worth its head
		}
	}
	share(sections, room)
	for _, sec := range sections {
		lines = append(lines, "")
		lines = append(lines, sec.draw(s)...)
	}
	if s.Height == 0 {
		return lines
	}
	if over := len(lines) - (s.Height - 1); over > 0 {
		lines = lines[:max(0, len(lines)-over)]
	}
	for len(lines) < s.Height-1 {
		lines = append(lines, "")
	}
	keys := "q leave   s sort (by " + topOrders[t.order] + ")   p pause"
	if t.paused {
		keys = "q leave   s sort (by " + topOrders[t.order] + ")   p go on"
	}
	return append(lines, s.Paint(term.Faint, term.Cut(keys, s.Width)))
}

// share gives each section rows in turn until there are none left to give; room below 0
// is without end.
func share(sections []*topSection, room int) {
	for given := true; given && room != 0; {
		given = false
		for _, sec := range sections {
			if sec.room < len(sec.rows) && room != 0 {
				sec.room++
				room--
				given = true
			}
		}
	}
}

func (sec *topSection) draw(s term.Screen) []string {
	rows := sec.rows
	if hidden := len(rows) - sec.room; hidden > 0 {
		rows = rows[:max(0, sec.room-1)]
	}
	var b bytes.Buffer
	_ = s.Table(&b, sec.columns, rows) // a buffer takes all
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if hidden := len(sec.rows) - len(rows); hidden > 0 && sec.room > 0 {
		lines = append(lines, s.Paint(term.Faint, fmt.Sprintf("… and %d more", hidden)))
	}
	return lines
}

// topPart is one of the parts of a line of the head.
type topPart struct {
	style term.Style
	text  string
}

// fitted is the parts that fit on the screen, in one line.
func fitted(s term.Screen, parts []topPart) string {
	var b strings.Builder
	used := 0
	for i, p := range parts {
		space := "   "
		if i == 0 {
			space = ""
		}
		if used += len(space) + term.Width(p.text); s.Width > 0 && used > s.Width {
			break
		}
		b.WriteString(space + s.Paint(p.style, p.text))
	}
	return b.String()
}

func (t *top) head(s term.Screen, f *topFrame, now time.Time) []string {
	status := topPart{term.Good, "up " + term.Span(f.Uptime)}
	if t.paused {
		status = topPart{term.Warn, "paused"}
	}
	first := []topPart{{term.Bold, "outrider top"}, {term.Plain, now.Local().Format(time.TimeOnly)}, status}
	if t.lost != nil {
		first[2] = topPart{term.Bad, "seen " + term.Ago(f.At, now)}
		text := "no answer: " + mask(t.lost, nil)
		if s.Width > 0 {
			text = term.Cut(text, s.Width)
		}
		return append([]string{fitted(s, first), s.Paint(term.Bad, text)}, t.totals(s, f)...)
	}
	return append([]string{fitted(s, first)}, t.totals(s, f)...)
}

func (t *top) totals(s term.Screen, f *topFrame) []string {
	n := func(st job.State, name string) topPart {
		style := term.OfState(string(st))
		if f.Jobs[st] == 0 {
			style = term.Plain
		}
		return topPart{style, fmt.Sprintf("%s %d", name, f.Jobs[st])}
	}
	counts := []topPart{n(job.Available, "waiting"), n(job.Active, "active"), n(job.Scheduled, "scheduled"), n(job.Retryable, "retryable"),
		n(job.Discarded, "discarded"), n(job.Completed, "completed")}
	if f.Dead > 0 {
		counts = slices.Insert(counts, 4, topPart{term.Bad, fmt.Sprintf("dead %d", f.Dead)})
	}
	busy := 0
	for _, w := range f.Workers {
		if w.Active > 0 {
			busy++
		}
	}
	rates := []topPart{{term.Plain, "in " + rate(f.In) + "/s"}, {term.Plain, "out " + rate(f.Out) + "/s"}, {term.Plain, "failed " + rate(f.Fail) + "/s"},
		{term.Plain, fmt.Sprintf("waited %d ms", f.Waited)}, {term.Plain, fmt.Sprintf("%s, %d busy", count(int64(len(f.Workers)), "worker", "workers"), busy)}}
	if f.Fail > 0 {
		rates[2].style = term.Bad
	}
	return []string{fitted(s, counts), fitted(s, rates)}
}

// rate is a number per second, in few digits.
func rate(r float64) string {
	switch {
	case r == 0:
		return "0"
	case r < 9.95:
		return strconv.FormatFloat(r, 'f', 1, 64)
	}
	return strconv.FormatFloat(r, 'f', 0, 64)
}

func (t *top) queueRows(f *topFrame, now time.Time) (rows [][]string) {
	slices.SortStableFunc(f.Queues, t.compare)
	for _, q := range f.Queues {
		oldest := "-"
		if q.Oldest != nil {
			oldest = term.Span(max(0, int64(now.Sub(*q.Oldest)/time.Second)))
		}
		number := func(n int64) string { return strconv.FormatInt(n, 10) }
		rows = append(rows, []string{q.Name, q.State, number(q.Waiting), number(q.Active), number(q.Scheduled), number(q.Retryable),
			rate(q.In), rate(q.Out), rate(q.Fail), oldest})
	}
	return rows
}

// compare is the order of queues: what there is most of comes first, what has waited
// longest, or the name.
func (t *top) compare(a, b topQueue) int {
	by := 0
	switch topOrders[t.order] {
	case "waiting":
		by = cmp.Compare(b.Waiting, a.Waiting)
	case "active":
		by = cmp.Compare(b.Active, a.Active)
	case "in":
		by = cmp.Compare(b.In, a.In)
	case "out":
		by = cmp.Compare(b.Out, a.Out)
	case "oldest":
		switch {
		case a.Oldest != nil && b.Oldest != nil:
			by = a.Oldest.Compare(*b.Oldest)
		case a.Oldest != nil:
			by = -1
		case b.Oldest != nil:
			by = 1
		}
	}
	return cmp.Or(by, cmp.Compare(a.Name, b.Name))
}

func workerRows(f *topFrame, now time.Time) (rows [][]string) {
	for _, w := range f.Workers {
		rows = append(rows, []string{w.ID, w.State, strconv.Itoa(w.Active), cmp.Or(w.Host, "-"), term.About(w.BeatAt, now)})
	}
	return rows
}

func failingRows(f *topFrame, now time.Time) (rows [][]string) {
	for _, t := range f.Failing {
		rows = append(rows, []string{t.Type, strconv.Itoa(t.Failed), term.About(t.Last, now), t.Error})
	}
	return rows
}
