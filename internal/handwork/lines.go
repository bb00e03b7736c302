package handwork

import (
	"bytes"
	"fmt"
	"io"

	"github.com/outrider-jobs/outrider/job"
)

// maxLine is how long a line of a command may be where the worker shows it.
const maxLine = 1000

// both keeps the end of what a command prints, and shows all of it.
type both struct {
	*tail
	show *lines
}

// Write never fails.
func (b *both) Write(p []byte) (int, error) {
	b.show.add(p)
	return b.tail.Write(p)
}

func (b *both) flush() { b.show.flush() }

// lines prints text line by line, each with the job's id in front and as one write, so
// that those of several commands do not mix.
type lines struct {
	to   io.Writer
	id   job.ID
	part []byte
	long bool // the rest of the line is left out
}

func (o *Options) lines(id job.ID) *lines { return &lines{to: o.Stderr, id: id} }

func (l *lines) add(p []byte) {
	for len(p) > 0 {
		line, rest, whole := bytes.Cut(p, []byte("\n"))
		room := maxLine - len(l.part)
		l.part = append(l.part, line[:min(len(line), room)]...)
		l.long = l.long || len(line) > room
		if whole {
			l.print()
		}
		p = rest
	}
}

// flush prints what has no line feed at its end.
func (l *lines) flush() {
	if len(l.part) > 0 {
		l.print()
	}
}

func (l *lines) print() {
	text := Plain(string(l.part), 4*maxLine)
	if l.long {
		text += "…"
	}
	fmt.Fprintf(l.to, "%s  %s\n", l.id, text)
	l.part, l.long = l.part[:0], false
}
