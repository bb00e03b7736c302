package job

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// What the journeys of a job need of the table, made once: none of them looks at a
// row that has nothing to do with it.
var (
	spellings map[string]spelling // of the names in a request
	takers    map[string]func(j *Job, name string, v json.RawMessage) (whole bool, err error)
	names     rawjson.Names // all of these, so that reading one allocates nothing

	read      []reader // of a request, in their order
	firstRead int      // how many of them are read before all others
	shows     []func(rawjson.Writer, *Job, View) rawjson.Writer
	sends     []func(rawjson.Writer, *Envelope) rawjson.Writer // all of a PUSH
	options   []func(rawjson.Writer, *Envelope) rawjson.Writer // what is sent but the id, the type and the args
	rows      []member                                         // all, for what is not in a hurry
	rawRows   []*member                                        // of Envelope, that are JSON
	sizes     []func(*Job) int
	rounds    []func(*Envelope)       // up to whole milliseconds
	bounds    []func(*Envelope) error // of lengths and instants

	optionNames []string // the names that options may have
)

// spelling is what a name in a request means; the zero value is a name that nobody knows.
type spelling struct {
	member uint64 // the bit of the row that reads it
	is     meaning
}

type meaning uint8

const (
	isAsked  meaning = 1 << iota // the parser reads it, and it is not in Extra
	isEchoed                     // it is given back from Extra
	isSystem                     // only a server sets it: it is dropped
	isAdded                      // an answer adds it: it is dropped at the top level
	isTop                        // it means something at the top level alone
)

// reader is a row that reads requests: where its bit is among what was said.
type reader struct {
	member uint64
	read   func(*parser) error
}

func init() {
	rows = members()
	spellings = map[string]spelling{"options": {is: isAsked | isTop}}
	takers = map[string]func(*Job, string, json.RawMessage) (bool, error){}
	for i := range rows {
		rows[i].indexNames(uint64(1) << i)
	}
	for _, name := range remarks {
		spellings[name] = spelling{is: isAdded}
		takers[name] = passedOver
	}
	names = rawjson.Names{}
	for name := range spellings {
		names[name] = name
	}
	for _, name := range []string{"queues", "count", DefaultQueue} {
		names[name] = name
	}
	indexJourneys()
}

// indexNames notes what the names of a row mean.
func (m *member) indexNames(bit uint64) {
	if bit == 0 {
		panic("job: the table has more members than a uint64 has bits")
	}
	is := isAsked
	if m.top {
		is |= isTop
	}
	for _, name := range m.asks {
		spellings[name] = spelling{bit, is}
	}
	for _, name := range m.echoes {
		spellings[name] = spelling{bit, isEchoed}
	}
	if !m.top {
		optionNames = append(append(optionNames, m.asks...), m.echoes...)
	}
	answers := m.answers
	if answers == nil && m.name != "" {
		answers = []string{m.name}
	}
	for _, name := range answers {
		if m.take != nil {
			takers[name] = m.take
		}
		if m.status && m.added {
			spellings[name] = spelling{is: isAdded}
		} else if m.status {
			spellings[name] = spelling{is: isSystem}
		}
	}
	if m.always {
		bit = ^uint64(0)
	}
	switch r := (reader{bit, m.read}); {
	case m.read == nil:
	case m.first:
		read = slices.Insert(read, firstRead, r)
		firstRead++
	default:
		read = append(read, r)
	}
}

// indexJourneys collects what shows, sends and measures.
func indexJourneys() {
	var late []func(rawjson.Writer, *Job, View) rawjson.Writer
	for i, m := range rows {
		switch {
		case m.show == nil:
		case m.late:
			late = append(late, m.show)
		default:
			shows = append(shows, m.show)
		}
		if m.field == "Extra" {
			shows = append(shows, late...)
		}
		if m.send != nil {
			sends = append(sends, m.send)
		}
		if m.send != nil && !m.top {
			options = append(options, m.send)
		}
		if m.round != nil {
			rounds = append(rounds, m.round)
		}
		if m.bound != nil {
			bounds = append(bounds, m.bound)
		}
		if m.json != nil {
			rawRows = append(rawRows, &rows[i])
		}
		if m.size != nil {
			sizes = append(sizes, m.size)
		}
	}
}

// InTemplate reports whether a name in a request may speak of the job, or the workflow, of a schedule.
func InTemplate(name string) bool {
	return name == templateFlow || spellings[name].is&(isAsked|isEchoed) != 0 && name != "specversion" && name != "id" && !slices.Contains(customIDs[:], name)
}

// Column is how a store keeps a member of a job. A value is nil, an int64, a string
// or a []byte.
type Column struct {
	Name  string
	Body  bool // it is of what a job is, which hardly ever changes; the others are of what becomes of it
	Fixed bool // nothing changes it: it is written when the job is stored

	Value func(*Job) any       // as it is to be stored
	Set   func(*Job, any) bool // takes what was stored, unless that is nil; false for what Value never is
	Equal func(a, b *Job) bool // both have the same in it
}

// Columns are all that a store has to keep of a job. Of the body a PUSH alone may
// overwrite what is not fixed (ojs-unique-jobs.md §5.3).
func Columns() (all []Column) {
	for _, m := range rows {
		if m.column != "" {
			fixed := m.fixed != "" || !m.status && !m.rewritten && !m.movable
			all = append(all, Column{Name: m.column, Body: m.cold || !m.status && !m.hot, Fixed: fixed, Value: m.value, Set: m.set, Equal: m.equal})
		}
	}
	return all
}

// label is what errors call a row.
func (m *member) label() string { return cmp.Or(m.name, m.column) }
