package sqlitestore

import (
	"bufio"
	"bytes"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// maxArchiveLine bounds a line of an archive: more is no archive.
const maxArchiveLine = 256 << 20

// ArchivePlace is how far an archive goes that may have been cut.
type ArchivePlace struct {
	Jobs, Events int64 // that stand in it
	Lines        int64
	Bytes        int64 // up to the end of the last whole line: what is behind must be cut off
	Complete     bool  // it has its end

	store string
	only  []string
	kind  string // of the last line; empty where there is the header alone, or nothing
	key   []driver.Value
}

// FindPlace reads an archive up to its last whole line.
func FindPlace(r io.Reader) (*ArchivePlace, error) {
	p := &ArchivePlace{}
	lines := newArchiveLines(r)
	var last []byte
	for {
		line, err := lines.next()
		if errors.Is(err, errCut) || err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if p.Complete {
			return nil, job.Errorf(job.Invalid, "line %d stands behind the end of the archive; it is not gone on with", lines.n)
		}
		if err := p.pass(line, lines.n); err != nil {
			return nil, err
		}
		last = append(last[:0], line...)
		p.Lines, p.Bytes = lines.n, lines.bytes
	}
	if p.Lines == 0 {
		return nil, job.Errorf(job.Invalid, "it holds no whole line: begin the archive anew")
	}
	if p.Lines == 1 || p.Complete {
		return p, nil
	}
	return p, p.lastKey(last)
}

// pass counts a line.
func (p *ArchivePlace) pass(line []byte, n int64) error {
	if n == 1 {
		h, err := headOfArchive(line)
		if err != nil {
			return err
		}
		p.store, p.only = h.Store, h.Only
		return nil
	}
	kind, ok := kindOfLine(line)
	switch {
	case !ok:
		return job.Errorf(job.Invalid, "line %d is none of an archive", n)
	case kind == "end":
		p.Complete = true
	case kind == jobsKind:
		p.Jobs++
	case kind == eventsKind:
		p.Events += countEvents(line)
	}
	p.kind = kind
	return nil
}

// lastKey reads behind which row the archive goes on.
func (p *ArchivePlace) lastKey(line []byte) error {
	i := slices.IndexFunc(archives, func(a archived) bool { return a.kind == p.kind })
	if _, ok := rawjson.Valid(line); !ok || i < 0 {
		return job.Errorf(job.Invalid, "line %d is none of an archive", p.Lines)
	}
	a := &archives[i]
	row := rawjson.Member(line, p.kind)
	if a.kind == eventsKind {
		var events []struct{ Seq int64 }
		if err := json.Unmarshal(row, &events); err != nil || len(events) == 0 {
			return job.Errorf(job.Invalid, "line %d has no events", p.Lines)
		}
		p.key = []driver.Value{events[len(events)-1].Seq}
		return nil
	}
	for _, column := range a.key {
		c := archiveColumn{column: strings.TrimPrefix(column, "s.")}
		if slices.Contains(a.uuids, c.column) {
			c.as = asUUID
		}
		raw := rawjson.Member(row, archiveName(c.column))
		if raw == nil {
			return job.Errorf(job.Invalid, "line %d has no %s", p.Lines, archiveName(c.column))
		}
		v, err := c.value(raw)
		if err != nil {
			return job.Errorf(job.Invalid, "line %d: %s: %w", p.Lines, archiveName(c.column), err)
		}
		p.key = append(p.key, v)
	}
	return nil
}

// headOfArchive reads the first line.
func headOfArchive(line []byte) (h archiveHead, err error) {
	if err := json.Unmarshal(line, &h); err != nil || h.Format == 0 {
		return h, job.Errorf(job.Invalid, "line 1 is not the first line of an archive: it was not written by outrider export")
	}
	if h.Format > ArchiveFormat || h.Schema > version {
		return h, job.Errorf(job.Unsupported, "the archive has format %d of schema %d, written by %s, and this outrider reads format %d up to schema %d: import it with a newer outrider", h.Format, h.Schema, h.MadeBy, ArchiveFormat, version)
	}
	return h, nil
}

// kindOfLine is the one name in a line.
func kindOfLine(line []byte) (string, bool) {
	if !bytes.HasPrefix(line, []byte(`{"`)) {
		return "", false
	}
	end := bytes.IndexByte(line[2:], '"')
	if end < 0 || len(line) < end+4 || line[end+3] != ':' || line[len(line)-1] != '}' {
		return "", false
	}
	return string(line[2 : end+2]), true
}

// countEvents counts the events in a line.
func countEvents(line []byte) (n int64) {
	if _, ok := rawjson.Valid(line); !ok {
		return 0
	}
	_ = rawjson.Elements(rawjson.Member(line, eventsKind), func(int, json.RawMessage) error { n++; return nil }) // what is no list has none
	return n
}

// errCut is that the last line has no end.
var errCut = errors.New("the last line is not whole")

// archiveLines reads lines and counts them.
type archiveLines struct {
	r        *bufio.Reader
	n, bytes int64
	long     []byte
}

func newArchiveLines(r io.Reader) *archiveLines {
	return &archiveLines{r: bufio.NewReaderSize(r, 1<<20)}
}

// next is the next line without its end, good until the one after it.
func (l *archiveLines) next() ([]byte, error) {
	l.long = l.long[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		switch {
		case err == nil && len(l.long) == 0:
			l.n, l.bytes = l.n+1, l.bytes+int64(len(part))
			return part[:len(part)-1], nil
		case err == nil:
			l.long = append(l.long, part...)
			l.n, l.bytes = l.n+1, l.bytes+int64(len(l.long))
			return l.long[:len(l.long)-1], nil
		case err == bufio.ErrBufferFull:
			if l.long = append(l.long, part...); len(l.long) > maxArchiveLine {
				return nil, job.Errorf(job.Invalid, "line %d is longer than %d MB, so this is no archive", l.n+1, maxArchiveLine>>20)
			}
		case err == io.EOF && len(part)+len(l.long) > 0:
			return nil, errCut
		default:
			return nil, err
		}
	}
}

// badLine is the error for a line that cannot be imported.
func badLine(n int64, err error) error {
	return job.Errorf(job.Invalid, "line %d: %w", n, err)
}

// errLine makes one.
func errLine(n int64, format string, args ...any) error {
	return badLine(n, fmt.Errorf(format, args...))
}
