package cronsched

import (
	"strings"

	"github.com/outrider-jobs/outrider/internal/wording"
	"github.com/outrider-jobs/outrider/job"
)

// The two things that [Parse] is given, by the names that the wire has for them.
const (
	ofExpression = "expression"
	ofZone       = "timezone"
)

// Fault says what is wrong with an expression or a time zone, and where. It is
// the cause of every error of [Parse], which is a *job.Error of kind Invalid.
type Fault struct {
	Field      string // "expression" or "timezone"
	Text       string // what was given
	Position   int    // where the fault begins, in bytes from 0
	Length     int    // how many bytes it has; at least 1, also behind the end
	Problem    string
	Suggestion string // what to give in place of Text, if that is obvious
	Hint       string // what else a person should know
}

// Error is the fault in one line.
func (f *Fault) Error() string { return "cron " + f.Field + ": " + f.Problem }

// shown is how many characters of a long text are shown on either side of a fault.
const shown = 60

// Excerpt is the text in one line, and in the next a mark under the fault.
func (f *Fault) Excerpt() string {
	at := min(f.Position, len(f.Text))
	end := min(at+f.Length, len(f.Text))
	before, fault, after := []rune(wording.Printable(f.Text[:at])), []rune(wording.Printable(f.Text[at:end])), []rune(wording.Printable(f.Text[end:]))
	if len(before) > shown {
		before = append([]rune("…"), before[len(before)-shown:]...)
	}
	if len(fault) > shown {
		fault = append(fault[:shown:shown], '…')
	}
	if len(after) > shown {
		after = append(after[:shown:shown], '…')
	}
	line := string(before) + string(fault) + string(after)
	return line + "\n" + strings.Repeat(" ", len(before)) + strings.Repeat("^", max(1, len(fault))) + " here"
}

// Help is what to do about it, or empty.
func (f *Fault) Help() string {
	switch {
	case f.Suggestion == "":
		return f.Hint
	case f.Hint == "":
		return "did you mean `" + f.Suggestion + "`?"
	}
	return "did you mean `" + f.Suggestion + "` (" + f.Hint + ")?"
}

// Report is the fault in several lines, for a terminal: the error, the excerpt
// and the help.
func (f *Fault) Report() string {
	s := f.Error()
	if f.Text != "" {
		s += "\n  " + strings.ReplaceAll(f.Excerpt(), "\n", "\n  ")
	}
	if help := f.Help(); help != "" {
		s += "\n  help: " + help
	}
	return s
}

// asError is f as callers of the package see it.
func (f *Fault) asError() error {
	e := &job.Error{Kind: job.Invalid, Message: f.Error(), Err: f,
		Details: map[string]any{"field": f.Field, "position": f.Position, "length": f.Length}}
	if f.Suggestion != "" {
		e.Details["suggestion"] = f.Suggestion
	}
	if f.Hint != "" {
		e.Details["hint"] = f.Hint
	}
	return e
}
