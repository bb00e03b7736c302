package handwork

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// lookTime is how long the shell may take to look at a command.
const lookTime = 5 * time.Second

// word is the first word of a command where it is nothing but a name.
var word = regexp.MustCompile(`^[A-Za-z0-9_./+-]+`)

// Preflight looks, before there is a job, whether the command of a mapping can be started:
// its file is there and may be executed, and the shell can read the line. It runs nothing
// of it.
func (m Mapping) Preflight(ctx context.Context) error {
	if m.Command == "" || runtime.GOOS == "windows" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if text, err := ask(ctx, "-n", "-c", m.Command); err != nil {
		return fmt.Errorf("the shell cannot read the command of %s: %s", m.Pattern, text)
	}
	first := word.FindString(m.Command)
	if rest := m.Command[len(first):]; first == "" || rest != "" && !strings.ContainsAny(rest[:1], " \t;|&<>\n") {
		return nil // it is more than a name; the shell will say what it is
	}
	if !strings.Contains(first, "/") {
		if _, err := ask(ctx, "-c", `command -v "$1"`, "sh", first); err != nil {
			return fmt.Errorf("there is no command %s; for a file in this folder write %s=./%[1]s", first, m.Pattern)
		}
		return nil
	}
	info, err := os.Stat(first)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if here, err := os.Getwd(); err == nil && !filepath.IsAbs(first) {
			return fmt.Errorf("there is no file %s in %s", first, here)
		}
		return fmt.Errorf("there is no file %s", first)
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a folder, and no command", first)
	case !executable(first, info):
		return fmt.Errorf("%s may not be executed; type: chmod +x %[1]s", first)
	}
	return nil
}

// executable reports whether this user may execute a file.
func executable(name string, info fs.FileInfo) bool {
	_, err := exec.LookPath(name)
	return err == nil && info.Mode()&0o111 != 0
}

// ask runs the shell for a look, and returns what it says on standard error.
func ask(ctx context.Context, args ...string) (said string, err error) {
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, "/bin/sh", args...)
	cmd.Stderr = &errs
	err = cmd.Run()
	if said = Plain(errs.String(), maxReason); said == "" && err != nil {
		said = err.Error() // there may be no shell, as in some containers
	}
	return said, err
}
