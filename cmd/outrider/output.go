package main

import (
	"io"
	"sync"
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
