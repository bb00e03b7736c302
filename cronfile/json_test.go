package cronfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// A writer of JSON that makes values in many spellings.
type speller struct{ *rand.Rand }

func (s speller) one(of ...string) string { return of[s.IntN(len(of))] }

func (s speller) space() string { return s.one("", "", "", " ", "\n", "\t", "\r\n  ") }

func (s speller) value(depth int) string {
	kinds := 8
	if depth == 0 {
		kinds = 6
	}
	switch s.IntN(kinds) {
	case 0:
		return s.one("null", "true", "false")
	case 1, 2:
		return s.text()
	case 3, 4, 5:
		return s.one("", "-") + s.one("0", "7", "10", "12345678901234567890", "9007199254740993") + s.one("", ".0", ".50", ".1234567890123456789") + s.one("", "e5", "E+2", "e-400", "e400", "E007")
	case 6:
		return s.list("[", "]", func() string { return s.value(depth - 1) })
	}
	return s.object(depth)
}

func (s speller) text() string {
	return `"` + strings.Repeat(s.one(`a`, `1e5`, `é`, `\u00e9`, `\ud800`, `\/`, `<`, `\u003c`, `\"`, ` `, `{`, `]`, `,`, `*x`, `😀`, `\n`), s.IntN(3)) + `"`
}

// object has names that may come twice.
func (s speller) object(depth int) string {
	return s.list("{", "}", func() string {
		return s.one(`"a"`, `"\u0061"`, `"name"`, `"args"`, `"<<"`, `""`) + s.space() + ":" + s.space() + s.value(depth-1)
	})
}

func (s speller) list(begin, end string, item func() string) string {
	var items []string
	for range s.IntN(4) {
		items = append(items, s.space()+item()+s.space())
	}
	return begin + strings.Join(items, ",") + s.space() + end
}

// TestJSONKeepsEveryByte: a file in JSON says what the args and the meta of a job are
// to the byte, as a job that is sent does (contract §1.5).
func TestJSONKeepsEveryByte(t *testing.T) {
	t.Parallel()
	s := speller{rand.New(rand.NewPCG(1, 2))}
	for range 5_000 {
		args, meta := s.list("[", "]", func() string { return s.value(3) }), s.object(3)
		retry := `{"max_attempts"` + s.space() + `:` + s.space() + s.one("3", "0", "12") + `}`
		members := []string{`"type":"x.y"`, `"args"` + s.space() + `:` + s.space() + args + s.space(), s.space() + `"meta":` + meta,
			`"options":` + s.space() + `{"retry":` + retry + `}`}
		s.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		entry := strings.Join(members, ","+s.space())
		if s.IntN(2) == 0 {
			entry = `"job_template":{` + entry + `}`
		}
		file := s.space() + `{"x-a":` + s.value(2) + `,` + s.space() + `"crons":[` + s.space() + `{"name":"first","cron":"@daily","type":"x.y"},` +
			s.space()
		line := 1 + strings.Count(file, "\n")
		file += `{"name":"a","cron":"@daily",` + entry + `}]}`
		f, err := Parse(s.one("a.json", "a.yaml"), []byte(file))
		if err != nil {
			t.Fatalf("%s\n%v", file, err)
		}
		specs, err := f.Specs()
		if err != nil || len(specs) != 2 || f.Entries[1].Line != line {
			t.Fatalf("%s\n%d specs, the last in line %d, want %d; %v", file, len(specs), f.Entries[1].Line, line, err)
		}
		template := specs[1].Template
		for _, want := range []struct {
			got  json.RawMessage
			want string
		}{{rawjson.Member(template, "args"), args}, {rawjson.Member(template, "meta"), meta}, {rawjson.Member(rawjson.Member(template, "options"), "retry"), retry}} {
			if !bytes.Equal(want.got, []byte(want.want)) {
				t.Fatalf("%s\ngot  %s\nwant %s", file, want.got, want.want)
			}
		}
	}
}

// TestJSONDepth: an entry in JSON may be as deep as what is sent to a server.
func TestJSONDepth(t *testing.T) {
	for deep, ok := range map[int]bool{job.MaxDepth: true, job.MaxDepth + 1: false} {
		for around, format := range []string{`{"name":"a","cron":"@daily","type":"x.y","args":%s}`, `{"name":"a","cron":"@daily","job_template":{"type":"x.y","args":%s}}`} {
			levels := deep - 1 - around
			list := strings.Repeat("[", levels) + strings.Repeat("]", levels)
			f, err := Parse("deep.json", []byte(`{"crons":[`+fmt.Sprintf(format, list)+`]}`))
			if err != nil || len(f.Entries) != 1 || (f.Entries[0].Err == nil) != ok {
				t.Errorf("%d, %s: got %+v, %v", deep, format, f, err)
			}
		}
	}
}
