// Package term knows what a person looks at: how wide a terminal is, whether it
// shows colours, and how rows, times and answers fit on it.
//
// It imports nothing of ours but internal/wording, asks no server and decides
// nothing about jobs.
package term

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	xterm "golang.org/x/term"
)

// A Screen is where a command prints.
type Screen struct {
	Width  int  // in columns; 0 where lines may be as long as they are
	Height int  // in lines; 0 where there is no end
	Color  bool // may be used
	Live   bool // what is on it can be drawn anew
}

// Of is the screen behind w. A pipe or a file is wide, plain and never drawn anew,
// so that what is read by a program is whole; COLUMNS makes it narrower. NO_COLOR,
// if it is not empty, and TERM=dumb take colours away.
func Of(w io.Writer, env map[string]string) Screen {
	var s Screen
	if n, err := strconv.Atoi(env["COLUMNS"]); err == nil && n > 0 {
		s.Width = n
	}
	f, ok := w.(*os.File)
	if !ok || !xterm.IsTerminal(int(f.Fd())) {
		return s
	}
	if width, height, err := xterm.GetSize(int(f.Fd())); err == nil && width > 0 {
		s.Width, s.Height = width, height
	} else if s.Width == 0 {
		s.Width, s.Height = 80, 24
	}
	s.Live = env["TERM"] != "dumb"
	s.Color = s.Live && env["NO_COLOR"] == "" && prepare(f)
	return s
}

// IsTerminal reports whether a person may be at the other end of f.
func IsTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && xterm.IsTerminal(int(file.Fd()))
}

// A Style is how a word stands out. There are but those that can be read on a
// light and on a dark ground.
type Style int

// The styles. Their colours are those that the terminal's own theme gives to them.
const (
	Plain Style = iota
	Bold
	Faint
	Good
	Busy
	Warn
	Bad
)

var codes = [...]string{Plain: "", Bold: "1", Faint: "2", Good: "32", Busy: "36", Warn: "33", Bad: "31"}

// Paint gives text a style, where the screen shows any.
func (s Screen) Paint(style Style, text string) string {
	if !s.Color || style == Plain || text == "" {
		return text
	}
	return "\x1b[" + codes[style] + "m" + text + "\x1b[0m"
}

// OfState is the style of a job's or a workflow's state, of a worker's or a queue's.
func OfState(state string) Style {
	switch state {
	case "completed", "running":
		return Good
	case "active":
		return Busy
	case "retryable", "paused", "draining", "quiet", "terminate", "stale":
		return Warn
	case "discarded", "failed", "dead":
		return Bad
	case "cancelled", "scheduled", "pending":
		return Faint
	}
	return Plain
}

// Clear has the next line stand at the top of an empty screen.
const Clear = "\x1b[H\x1b[2J\x1b[3J"

// Ago is how far off t is from now: 12s ago, in 3h 5m, now; a dash for no time.
func Ago(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	switch seconds := int64(now.Sub(t) / time.Second); {
	case seconds > 0:
		return Span(seconds) + " ago"
	case seconds < 0:
		return "in " + Span(-seconds)
	}
	return "now"
}

// About is [Ago] in the largest unit alone, for the columns of tables: 2h ago.
func About(t, now time.Time) string {
	text := Ago(t, now)
	if parts := strings.Fields(text); len(parts) == 3 {
		if parts[0] == "in" {
			return "in " + parts[1]
		}
		return parts[0] + " ago"
	}
	return text
}

// Span is a number of seconds in the two largest units that it has: 2d 3h.
func Span(seconds int64) string {
	units := []struct {
		of   int64
		name string
	}{{24 * 3600, "d"}, {3600, "h"}, {60, "m"}, {1, "s"}}
	for i, u := range units[:3] {
		if seconds < u.of {
			continue
		}
		text := fmt.Sprintf("%d%s", seconds/u.of, u.name)
		if rest := seconds % u.of / units[i+1].of; rest > 0 {
			text += fmt.Sprintf(" %d%s", rest, units[i+1].name)
		}
		return text
	}
	return fmt.Sprintf("%ds", seconds)
}

// Crop is as many lines of text as stand on the screen, without those that are kept
// for something else, and says what is left out.
func (s Screen) Crop(text string, kept int) string {
	lines := strings.SplitAfter(text, "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	}
	room := s.Height - kept
	if s.Height == 0 || len(lines) <= room {
		return text
	}
	room = max(room-1, 1)
	return strings.Join(lines[:room], "") + s.Paint(Faint, fmt.Sprintf("… and %d lines more", len(lines)-room)) + "\n"
}
