package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/internal/wording"
)

// A Warning is what the sender of a job may not have meant. The job is stored all the same.
type Warning struct {
	Field   string `json:"field"`   // such as "options.quue"
	Message string `json:"message"` // for a person: what is odd, and what was probably meant
}

// maxWarnings bounds what is said of one job.
const maxWarnings = 20

// Warnings tells of members of options that nobody reads: they are kept and given
// back (contract §1.5), and change nothing, which is not what one meant who wrote
// "quue". Names that begin with x_ are somebody's own, and are not told. At most
// 20 are; nil is none.
func (c *Checked) Warnings() (all []Warning) {
	if !bytes.Contains(c.e.Extra, []byte(`"options"`)) {
		return nil
	}
	options := rawjson.Member(c.e.Extra, "options")
	if len(options) == 0 || options[0] != '{' {
		return nil
	}
	_ = Members(options, func(name string, _ json.RawMessage) error { // it was valid when it was read
		if !strings.HasPrefix(name, "x_") && len(all) < maxWarnings {
			all = append(all, unread(name))
		}
		return nil
	})
	return all
}

// unread is the warning about an option of that name.
func unread(name string) Warning {
	shown := fmt.Sprintf("options.%.80s", wording.Printable(name))
	w := Warning{Field: shown, Message: shown + " is not known here: it is kept with the job, and changes nothing"}
	if near := wording.Nearest(name, optionNames); near != "" {
		w.Message += "; did you mean " + near + "?"
	}
	return w
}

// Warnings are those of the jobs that a schedule makes; nil where its template
// cannot be read.
func (s *CronSpec) Warnings() []Warning {
	if s.makesFlow() {
		return nil
	}
	c, err := ParseEnvelope(s.Template)
	if err != nil {
		return nil
	}
	return c.Warnings()
}
