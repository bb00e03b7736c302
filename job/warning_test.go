package job

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestWarnings: an option that nobody reads is told, and kept.
func TestWarnings(t *testing.T) {
	for options, want := range map[string]string{
		`{"queue":"mail","priority":1,"tags":["a"]}`: "",
		`{"quue":"mail"}`:                  "options.quue: options.quue is not known here: it is kept with the job, and changes nothing; did you mean queue?",
		`{"Queue":"mail","max_atempts":3}`: "options.Queue: … did you mean queue?|options.max_atempts: … did you mean max_attempts?",
		`{"colour":null}`:                  "options.colour: options.colour is not known here: it is kept with the job, and changes nothing",
		`{"x_quue":1}`:                     "",
		`{"a\u001b[31m":1}`:                `options.a\x1b[31m: options.a\x1b[31m is not known here: it is kept with the job, and changes nothing`,
		`{"delay_unitl":"PT1H"}`:           "options.delay_unitl: … did you mean delay_until?",
	} {
		e, err := ParseEnvelope([]byte(`{"type":"a.b","args":[],"trace":"t","options":` + options + `}`))
		if err != nil {
			t.Errorf("%s: %v", options, err)
			continue
		}
		var got []string
		for _, w := range e.Warnings() {
			message := w.Message
			if strings.Contains(want, "…") {
				message = "…" + message[strings.Index(message, "; ")+1:]
			}
			got = append(got, w.Field+": "+message)
		}
		if strings.Join(got, "|") != want {
			t.Errorf("%s:\ngot  %s\nwant %s", options, strings.Join(got, "|"), want)
		}
	}
	many := `{"a0":1`
	for i := range 50 {
		many += fmt.Sprintf(`,"b%d":1`, i)
	}
	if e, err := ParseEnvelope([]byte(`{"type":"a.b","args":[],"options":` + many + `}}`)); err != nil || len(e.Warnings()) != 20 {
		t.Errorf("%d warnings, %v", len(e.Warnings()), err)
	}
}

// TestOptionNamesAreRead: what is suggested is read, and what is read is never told.
func TestOptionNamesAreRead(t *testing.T) {
	for _, name := range optionNames {
		e, err := ParseEnvelope([]byte(`{"type":"a.b","args":[],"options":{"` + name + `":null}}`))
		if err != nil || e.Warnings() != nil {
			t.Errorf("%s: %v, %v", name, e.Warnings(), err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		e, err := ParseEnvelope([]byte(body().Draw(t, "body")))
		if err != nil {
			t.Skip("no valid body") // this draw, not the test
		}
		told := map[string]bool{}
		for _, w := range e.Warnings() {
			told[strings.TrimPrefix(w.Field, "options.")] = true
		}
		for _, name := range optionNames {
			if told[name] {
				t.Fatalf("%s is told", name)
			}
		}
	})
}
