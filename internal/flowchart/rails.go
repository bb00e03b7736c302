package flowchart

import (
	"slices"
	"strings"
)

// nobody is what a free lane leads to.
const nobody = -1

// rails draws a graph with a lane for each step that some line leads to and that is not
// drawn yet. It is not ok where that takes more room than there is.
func (g *graph) rails(prefix string, room int) (lines []Line, ok bool) {
	var lanes []int
	for _, v := range g.order() {
		s := g.steps[v]
		at := slices.Index(lanes, v)
		if at < 0 {
			at, lanes = claim(lanes, v)
		}
		if 2*len(lanes) > max(room, 2) {
			return nil, false
		}
		lines = append(lines, Line{Tree: row(lanes, at, Sign(s.State)) + name(s, prefix), Step: s})

		before := slices.Clone(lanes)
		lanes[at] = nobody
		var ends []int // the lanes that lines lead to from here
		for _, to := range g.feeds[v] {
			lane := slices.Index(lanes, to)
			switch {
			case lane >= 0:
			case lanes[at] == nobody:
				lane, lanes[at] = at, to
			default:
				lane, lanes = claim(lanes, to)
			}
			ends = append(ends, lane)
		}
		if 2*len(lanes) > max(room, 2) {
			return nil, false
		}
		lines = append(lines, inside(s, row(lanes, nobody, ""), room)...)
		if len(ends) > 0 {
			lines = append(lines, Line{Tree: joints(before, lanes, at, ends)})
		}
		for len(lanes) > 0 && lanes[len(lanes)-1] == nobody {
			lanes = lanes[:len(lanes)-1]
		}
	}
	return lines, true
}

// claim takes the first free lane for a step, or else a new one.
func claim(lanes []int, v int) (int, []int) {
	if at := slices.Index(lanes, nobody); at >= 0 {
		lanes[at] = v
		return at, lanes
	}
	return len(lanes), append(lanes, v)
}

// row is the lanes beside a step, whose sign stands in its own, or those below it.
func row(lanes []int, at int, sign string) string {
	var b strings.Builder
	for i, to := range lanes {
		switch {
		case i == at:
			b.WriteString(sign + " ")
		case to == nobody:
			b.WriteString("  ")
		default:
			b.WriteString("│ ")
		}
	}
	return b.String()
}

// The sides of a joint.
const (
	up = 1 << iota
	down
	left
	right
)

var joint = map[int]string{
	0: " ", up | down: "│", left | right: "─", up | down | right: "├", up | down | left: "┤", up | down | left | right: "┼",
	down | left: "╮", down | right: "╭", up | left: "╯", up | right: "╰", down | left | right: "┬", up | left | right: "┴",
}

// joints draws the lines from the lane of a step to those of the steps behind it. A line
// that crosses a lane without leading to it goes on behind it.
func joints(before, after []int, at int, ends []int) string {
	from, to := min(at, slices.Min(ends)), max(at, slices.Max(ends))
	var b strings.Builder
	for i := range after {
		sides := 0
		if i == at || i < len(before) && before[i] != nobody {
			sides |= up
		}
		if after[i] != nobody {
			sides |= down
		}
		passed := i != at && !slices.Contains(ends, i)
		if !passed || sides == 0 {
			if i > from && i <= to {
				sides |= left
			}
			if i >= from && i < to {
				sides |= right
			}
		}
		b.WriteString(joint[sides])
		if i >= from && i < to {
			b.WriteString("─")
		} else {
			b.WriteString(" ")
		}
	}
	return strings.TrimRight(b.String(), " ")
}
