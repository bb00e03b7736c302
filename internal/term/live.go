package term

import (
	"os"
	"strings"

	xterm "golang.org/x/term"
)

// Enter begins a screen of its own, behind which that of the shell stays as it is, and
// hides the cursor. Leave gives both back.
const (
	Enter = "\x1b[?1049h\x1b[?25l"
	Leave = "\x1b[?25h\x1b[?1049l"
)

// Frame has lines take the place of what is on the screen, without a flicker. They must
// be no more than the screen has.
func Frame(lines []string) string {
	return "\x1b[H" + strings.Join(lines, "\x1b[K\r\n") + "\x1b[K\x1b[J"
}

// Raw has the terminal f give each key as it is typed, also Ctrl-C, and show none. What it
// returns has the terminal be as it was.
func Raw(f *os.File) (back func(), err error) {
	was, err := xterm.MakeRaw(int(f.Fd()))
	if err != nil {
		return nil, err
	}
	return func() { _ = xterm.Restore(int(f.Fd()), was) }, nil // a terminal that is gone needs nothing
}
