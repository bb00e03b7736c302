package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
)

// profile writes a CPU profile of this process into a file until it is stopped.
func profile(file string) (stop func() error, err error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, fmt.Errorf("write a profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("write a profile: %w", err), f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

// span is a stretch of a workload that is measured.
type span struct {
	bench  *bench
	before used
	stop   func() error // ends the profile
}

// span begins one. name is what its profile is called after.
func (b *bench) span(name string) (s span, err error) {
	s = span{bench: b, stop: func() error { return nil }}
	if b.cfg.Profile != "" && name != "" {
		p := b.point
		p.work.Name = name
		file, err := filepath.Abs(filepath.Join(b.cfg.Profile, p.String()+".pprof"))
		if err != nil {
			return s, err
		}
		if b.point.work.inProcess {
			s.stop, err = profile(file)
		} else if err = os.WriteFile(file, nil, 0o644); err == nil { // the server cannot tell us that it cannot
			_, err = fmt.Fprintln(b.child.stdin, file) // it ends with the server
		}
		if err != nil {
			return s, err
		}
	}
	s.before = b.used()
	return s, nil
}

// end writes into r what was used in the span.
func (s span) end(r *Result) error {
	if !s.bench.point.work.Paced { // most of what those use is used while they wait
		r.charge(s.before, s.bench.used())
		r.Concurrency = s.bench.point.concurrency
	}
	return s.stop()
}
