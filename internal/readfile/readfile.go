// Package readfile reads files that a person has named, which may be pipes,
// devices or sockets.
//
// It imports nothing of ours. It must never decide what a file means.
package readfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// How is how a file is read that a person has named.
type How struct {
	Limit    int64         // bytes
	Again    bool          // it will be read again, so that it must be a plain file
	Devices  bool          // it may be a device, such as the terminal behind /dev/stdin
	Patience time.Duration // with the writer of a pipe; 0 is as long as it takes
}

// File reads at most a limit of bytes of a file. It never waits for somebody
// who might write to a pipe: that one must be there.
func File(name string, how How) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|openAtOnce, 0)
	if err != nil {
		if st, stat := os.Stat(name); stat == nil {
			if odd := how.fits(name, st.Mode()); odd != nil {
				return nil, odd // as of a socket, which cannot be opened
			}
		}
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := how.fits(name, st.Mode()); err != nil {
		return nil, err
	}
	piped := st.Mode().Type() == fs.ModeNamedPipe
	if piped && how.Patience > 0 {
		_ = f.SetReadDeadline(time.Now().Add(how.Patience)) // where none can be set it is waited for
	}
	raw, err := io.ReadAll(io.LimitReader(f, how.Limit))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("%s is a pipe, and nobody wrote to it or closed it for %v", name, how.Patience)
	case err == nil && piped && len(raw) == 0:
		return nil, fmt.Errorf("%s is a pipe without a writer", name)
	}
	return raw, err
}

// fits says why a file cannot be read, by what kind of file it is.
func (how How) fits(name string, mode fs.FileMode) error {
	what := "not a plain file"
	switch mode.Type() {
	case 0:
		return nil
	case fs.ModeDir:
		what = "a folder"
	case fs.ModeSocket:
		what = "a socket"
	case fs.ModeNamedPipe:
		if !how.Again {
			return nil
		}
		return fmt.Errorf("%s is a pipe, and must be a plain file, because SIGHUP reads it again", name)
	case fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
		if how.Devices {
			return nil
		}
		what = "a device"
	}
	return fmt.Errorf("%s is %s, and must be a plain file", name, what)
}
