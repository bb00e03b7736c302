package term

import (
	"os"

	"golang.org/x/sys/windows"
)

// prepare has the console understand colours, and reports whether it can.
func prepare(f *os.File) bool {
	var mode uint32
	h := windows.Handle(f.Fd())
	if windows.GetConsoleMode(h, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
