package main

import (
	"fmt"
	"io"
	"time"

	"github.com/outrider-jobs/outrider/internal/term"
)

// progress tells on standard error how far something is: on a terminal in one line that is
// written anew, else in a line every few seconds.
type progress struct {
	w     io.Writer
	live  bool
	clock func() time.Time
	told  time.Time
	open  bool // a line stands there that was not ended
}

const (
	liveEvery  = 200 * time.Millisecond
	plainEvery = 5 * time.Second
)

func (a *app) progress() *progress {
	live := term.IsTerminal(a.stderr) && a.env["TERM"] != "dumb"
	return &progress{w: a.stderr, live: live, clock: a.clock, told: a.clock()}
}

// say tells it unless something was told a moment ago.
func (p *progress) say(format string, args ...any) {
	now, every := p.clock(), plainEvery
	if p.live {
		every = liveEvery
	}
	if now.Sub(p.told) < every {
		return
	}
	p.told = now
	line := fmt.Sprintf(format, args...)
	if p.live {
		p.open = true
		fmt.Fprintf(p.w, "\r\x1b[K%s", line)
		return
	}
	fmt.Fprintln(p.w, line)
}

// done takes the line away.
func (p *progress) done() {
	if p.open {
		p.open = false
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// megabytes is a size for a person.
func megabytes(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
	case n >= 10<<20:
		return fmt.Sprintf("%d MB", n>>20)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
}
