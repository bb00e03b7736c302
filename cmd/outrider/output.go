package main

import (
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/outrider-jobs/outrider/internal/appdb"
)

// output is where a command prints. It remembers the first thing that went wrong,
// so that no command has to ask after each line: half a migration in a full file
// must not look like a whole one.
type output struct {
	mu  sync.Mutex // guards what is below
	w   io.Writer
	err error
}

// Write writes to w.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.w.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// fault is what first went wrong, or nil.
func (o *output) fault() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// flagName is what the name of a flag looks like.
var flagName = regexp.MustCompile(`^--?[A-Za-z0-9][A-Za-z0-9_-]*$`)

// mayHoldSecret reports whether a word of the command line may hold a password. A DSN
// does not that is shown as it was written.
func mayHoldSecret(word string) bool {
	d, err := appdb.ParseDSN(word)
	return appdb.MayHoldSecret(word) && (err != nil || d.String() != word)
}

// mask is what is said of err, without the words of the command line that may hold
// a password. Of a mistake in those words themselves it is the first line: the
// next ones show a part of a word.
func mask(err error, args []string) string {
	text := err.Error()
	var words []string
	for _, word := range args {
		if len(word) > 2 && word[0] == '-' && word[1] != '-' && mayHoldSecret(word[2:]) {
			words = append(words, word[2:]) // of a flag with one letter
		}
		if name, v, ok := strings.Cut(word, "="); ok && strings.HasPrefix(word, "-") {
			word = v
			if !flagName.MatchString(name) { // a DSN is written to it, and has a = of its own
				words = append(words, name)
			}
		}
		if mayHoldSecret(word) {
			words = append(words, word)
		}
	}
	for _, word := range words {
		if exitCode(err) == exitUsage {
			text, _, _ = strings.Cut(text, "\n")
		}
		quoted := strconv.Quote(word)
		text = strings.NewReplacer(word, "***", quoted[1:len(quoted)-1], "***").Replace(text)
	}
	return text
}
