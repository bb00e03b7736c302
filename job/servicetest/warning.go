package servicetest

import (
	"encoding/json"
	"strings"

	"github.com/outrider-jobs/outrider/job"
)

var warning = []verdict{
	{"an option that nobody knows is told and kept", unknownOptions},
	{"each job of a batch has its own warnings", unknownOptionsOfMany},
	{"an unknown option in the template of a schedule is told and kept", unknownOptionsOfSchedules},
}

// quue gives an envelope an option with a slip in its name.
func quue(e *job.Envelope) { e.Extra = json.RawMessage(`{"options":{"quue":"mail","x_own":1}}`) }

// wantQuue is the one warning that quue earns.
func (k *kit) wantQuue(what string, got []job.Warning) {
	k.t.Helper()
	if len(got) != 1 || got[0].Field != "options.quue" || !strings.Contains(got[0].Message, "did you mean queue?") {
		k.t.Errorf("%s: warnings %+v", what, got)
	}
}

func unknownOptions(k *kit) {
	for _, what := range []string{"new", "met"} {
		r, err := k.enqueue(func(e *job.Envelope) {
			quue(e)
			e.Unique = json.RawMessage(`{"on_conflict":"ignore"}`)
		})
		if err != nil || r.Existing != (what == "met") {
			k.t.Fatalf("%s: %+v, %v", what, r, err)
		}
		k.wantQuue(what, r.Warnings)
		k.expect([]byte(member(k.t, []byte(text(k.read(r.ID))), "options")), "quue", `"mail"`)
	}
	r, err := k.enqueue(func(e *job.Envelope) { e.Extra = json.RawMessage(`{"tags":["a"],"quue":1}`) })
	if err != nil || r.Warnings != nil {
		k.t.Errorf("nothing is odd: %+v, %v", r.Warnings, err)
	}
}

func unknownOptionsOfMany(k *kit) {
	rs, err := k.s.Enqueue(k.ctx(), envelope(nil), envelope(quue), envelope(nil), envelope(quue))
	if err != nil {
		k.t.Fatal(err)
	}
	for i, r := range rs {
		if i%2 == 1 {
			k.wantQuue("in a batch", r.Warnings)
		} else if r.Warnings != nil {
			k.t.Errorf("job %d has the warnings of another: %+v", i, r.Warnings)
		}
	}
}

func unknownOptionsOfSchedules(k *kit) {
	c, _, err := k.s.PutCron(k.ctx(), job.CronSpec{Name: "a", Expression: "@daily", Template: json.RawMessage(`{"type":"a.b","args":[],"options":{"quue":"mail","x_own":1}}`)})
	if err != nil {
		k.t.Fatal(err)
	}
	k.wantQuue("stored", c.Warnings())
	if c, err = k.s.Cron(k.ctx(), "a"); err != nil {
		k.t.Fatal(err)
	}
	k.wantQuue("read", c.Warnings())
}
