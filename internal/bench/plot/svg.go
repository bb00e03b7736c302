package main

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The sheet and the frame of a chart on it, in pixels.
const (
	width, height           = 760, 430
	left, right, top, below = 72, 590, 56, 360
	labelGap                = 15 // between the names of two lines
)

// hues are told apart on white and on black, also by most who see few colours.
var hues = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#4aa3df", "#7f7f7f", "#9467bd", "#a0522d", "#6b8e23"}

const style = `<style>
text { font: 12px system-ui, sans-serif; fill: #222 }
.title { font-size: 15px; font-weight: 600 }
.note { font-size: 11px; fill: #666 }
.sheet { fill: #fff }
.grid { stroke: #ddd }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd }
  .note { fill: #999 }
  .sheet { fill: #161616 }
  .grid { stroke: #3a3a3a }
}
</style>
`

type point struct{ x, y float64 }

// series is a line with its name.
type series struct {
	label  string
	points []point
}

// chart is a figure of lines.
type chart struct {
	title, x, y string
	series      []series
	note        string
}

// scale maps values to pixels.
type scale struct {
	log      bool
	lo, hi   float64
	from, to float64 // pixels
	ticks    []float64
}

// spans is how many times the smallest the largest value must be for a logarithmic axis.
const spans = 8

// newScale covers the values: from 0, or by decades where they span some.
func newScale(values []float64, from, to float64) scale {
	lo, hi := slices.Min(values), slices.Max(values)
	s := scale{log: lo > 0 && hi/lo >= spans, from: from, to: to}
	if s.log {
		s.lo, s.hi = roundDown(lo), roundUp(hi)
		for v := s.lo; v <= s.hi*1.001; v = next125(v) {
			s.ticks = append(s.ticks, v)
		}
		if len(s.ticks) > 9 { // only the decades
			s.ticks = slices.DeleteFunc(s.ticks, func(v float64) bool { return math.Abs(v/decade(v)-1) > 0.01 })
		}
		return s
	}
	step := roundUp(max(hi, 1e-9) / 8)
	s.hi = step * math.Ceil(hi/step)
	for v := 0.0; v <= s.hi*1.001; v += step {
		s.ticks = append(s.ticks, v)
	}
	return s
}

// at is the pixel of a value.
func (s scale) at(v float64) float64 {
	part := (v - s.lo) / (s.hi - s.lo)
	if s.log {
		part = math.Log(v/s.lo) / math.Log(s.hi/s.lo)
	}
	return s.from + part*(s.to-s.from)
}

func decade(v float64) float64 { return math.Pow(10, math.Floor(math.Log10(v)+1e-9)) }

// next125, roundUp and roundDown go by 1, 2, 5, 10.
func next125(v float64) float64 {
	switch m := v / decade(v); {
	case m < 1.5:
		return 2 * decade(v)
	case m < 3:
		return 5 * decade(v)
	}
	return 10 * decade(v)
}

func roundDown(v float64) float64 {
	d := decade(v)
	for _, m := range []float64{5, 2} {
		if v >= m*d*0.9999 {
			return m * d
		}
	}
	return d
}

func roundUp(v float64) float64 {
	if d := roundDown(v); v > d*1.0001 {
		return next125(d)
	}
	return roundDown(v)
}

// sheet begins a figure.
func sheet(h int, title, note string) *bytes.Buffer {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`+"\n", width, h, width, h)
	fmt.Fprintf(&b, "<title>%s</title>\n%s<rect class=\"sheet\" width=\"%d\" height=\"%d\"/>\n", html.EscapeString(title), style, width, h)
	words(&b, "title", "start", 16, 26, title)
	words(&b, "note", "start", 16, float64(h)-12, note)
	return &b
}

func words(b *bytes.Buffer, class, anchor string, x, y float64, text string) {
	fmt.Fprintf(b, `<text class=%q text-anchor=%q x="%.1f" y="%.1f">%s</text>`+"\n", class, anchor, x, y, html.EscapeString(text))
}

func rule(b *bytes.Buffer, x1, y1, x2, y2 float64) {
	fmt.Fprintf(b, `<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", x1, y1, x2, y2)
}

// draw draws the lines, each with its name behind its end.
func (c chart) draw() []byte {
	var xs, ys []float64
	for _, s := range c.series {
		for _, p := range s.points {
			xs, ys = append(xs, p.x), append(ys, p.y)
		}
	}
	x, y := newScale(xs, left, right), newScale(ys, below, top)
	if x.log { // the sizes that were measured are the ones to read
		slices.Sort(xs)
		x.lo, x.hi = xs[0], xs[len(xs)-1]
		if measured := slices.Compact(xs); len(measured) <= 9 {
			x.ticks = measured
		}
		x.ticks = slices.DeleteFunc(x.ticks, func(v float64) bool { return v < x.lo || v > x.hi })
	}
	b := sheet(height, c.title, c.note)
	for _, v := range y.ticks {
		rule(b, left, y.at(v), right, y.at(v))
		words(b, "", "end", left-8, y.at(v)+4, short(v))
	}
	for _, v := range x.ticks {
		rule(b, x.at(v), top, x.at(v), below)
		words(b, "", "middle", x.at(v), below+18, short(v))
	}
	words(b, "", "middle", (left+right)/2, below+38, c.x)
	words(b, "", "start", 16, top-12, c.y)
	labels := place(c.series, y)
	for i, s := range c.series {
		var path []string
		for _, p := range s.points {
			path = append(path, fmt.Sprintf("%.1f,%.1f", x.at(p.x), y.at(p.y)))
		}
		hue, dash := hues[i%len(hues)], ""
		if first := c.first(s.label); first < i { // another figure of the same
			hue, dash = hues[first%len(hues)], ` stroke-dasharray="6 3"`
		}
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="2"%s points="%s"/>`+"\n", hue, dash, strings.Join(path, " "))
		for _, p := range s.points {
			fmt.Fprintf(b, `<circle r="3" fill="%s" cx="%.1f" cy="%.1f"/>`+"\n", hue, x.at(p.x), y.at(p.y))
		}
		end := s.points[len(s.points)-1]
		fmt.Fprintf(b, `<line stroke="%s" stroke-dasharray="1 3" x1="%.1f" y1="%.1f" x2="%d" y2="%.1f"/>`+"\n", hue, x.at(end.x), y.at(end.y), right+14, labels[i])
		words(b, "", "start", right+18, labels[i]+4, s.label)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// first is the first line of the same workload: its name begins the same.
func (c chart) first(label string) int {
	name, _, _ := strings.Cut(label, ",")
	return slices.IndexFunc(c.series, func(s series) bool {
		n, _, _ := strings.Cut(s.label, ",")
		return n == name
	})
}

// place finds a height for the name of each line, near its end and with a gap to
// the next.
func place(lines []series, y scale) []float64 {
	order := make([]int, len(lines))
	at := make([]float64, len(lines))
	for i, s := range lines {
		order[i], at[i] = i, y.at(s.points[len(s.points)-1].y)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(at[a], at[b]) })
	for k := 1; k < len(order); k++ {
		at[order[k]] = max(at[order[k]], at[order[k-1]]+labelGap)
	}
	for k := len(order) - 1; k >= 0; k-- { // and not below the frame
		limit := float64(below)
		if k < len(order)-1 {
			limit = at[order[k+1]] - labelGap
		}
		at[order[k]] = min(at[order[k]], limit)
	}
	return at
}

// bar is one workload with its values, which lie end to end.
type bar struct {
	label  string
	values []float64
}

// bars is a figure of bars.
type bars struct {
	title, unit string
	parts       []string
	list        []bar
	note        string
}

// draw draws the bars, one below the other.
func (f bars) draw() []byte {
	const start, end, row = 150, width - 90, 24
	var sums []float64
	for _, b := range f.list {
		sums = append(sums, sum(b.values))
	}
	foot := top + row*len(f.list)
	x := newScale(append(sums, 0), start, end) // from 0: bars are compared by their lengths
	b := sheet(foot+84, f.title, f.note)
	for _, v := range x.ticks {
		rule(b, x.at(v), top, x.at(v), float64(foot))
		words(b, "", "middle", x.at(v), float64(foot)+18, short(v))
	}
	words(b, "", "middle", (start+end)/2, float64(foot)+38, f.unit)
	for i, one := range f.list {
		y := float64(top + row*i)
		words(b, "", "end", start-8, y+16, one.label)
		done := 0.0
		for k, v := range one.values {
			fmt.Fprintf(b, `<rect fill="%s" x="%.1f" y="%.1f" width="%.1f" height="%d"/>`+"\n", hues[k], x.at(done), y+4, x.at(v)-x.at(0), row-8)
			done += v
		}
		words(b, "", "start", x.at(done)+6, y+16, short(math.Round(done)))
	}
	if len(f.parts) > 1 {
		at := float64(start)
		for k, name := range f.parts {
			fmt.Fprintf(b, `<rect fill="%s" x="%.1f" y="%d" width="10" height="10"/>`+"\n", hues[k], at, top-20)
			words(b, "", "start", at+14, top-11, name)
			at += 40 + 7*float64(len(name))
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func sum(values []float64) (all float64) {
	for _, v := range values {
		all += v
	}
	return all
}

// short writes a number with few characters: 20k, 1M.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 4, 64) + "M"
	case v >= 1e4:
		return strconv.FormatFloat(v/1e3, 'g', 4, 64) + "k"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
