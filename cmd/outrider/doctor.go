package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/internal/wording"
)

// How a part of an installation is.
const (
	wellPart = "ok"
	oddPart  = "warning"
	badPart  = "error"
)

// diagnosis is what doctor has seen of one part.
type diagnosis struct {
	Part   string `json:"part"`
	Status string `json:"status"`
	Text   string `json:"text"`
	Do     string `json:"do,omitempty"` // what a person does about it
}

// doctor looks at an installation and writes down what it finds.
type doctor struct {
	*app
	cfg       config
	diagnoses []diagnosis
	reached   bool // the server answers at --url
}

func (d *doctor) well(part, format string, args ...any) {
	d.diagnoses = append(d.diagnoses, diagnosis{part, wellPart, fmt.Sprintf(format, args...), ""})
}

func (d *doctor) odd(part, text, do string) {
	d.diagnoses = append(d.diagnoses, diagnosis{part, oddPart, text, do})
}

func (d *doctor) bad(part, text, do string) {
	d.diagnoses = append(d.diagnoses, diagnosis{part, badPart, text, do})
}

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at all of an installation, and say what to do about what is wrong",
		Long: "Looks at the settings, the file of jobs and its disk, the clocks, the address and the server behind it, " +
			"and at every outbox: whether it can be reached, its tables and rights, rows that wait or are parked, and how a SQLite " +
			"file keeps its journal. Changes nothing, and may run beside a server that works. Give it the settings that serve has. " +
			"The exit code is 1 if something is wrong; a warning alone is 0.",
		Args: noArgs,
	}
	bindAll(cmd)
	output := bindOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		format, err := output()
		if err != nil {
			return err
		}
		d := &doctor{app: a}
		d.examine(cmd)
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		return d.report(format)
	}
	return cmd
}

// examine looks at one part after the other.
func (d *doctor) examine(cmd *cobra.Command) {
	ctx := cmd.Context()
	d.well("program", "%s", ownBuild())
	cfg, wrong := d.readSettings(cmd)
	d.cfg = cfg
	if len(wrong) == 0 {
		wrong = cfg.faults()
	}
	for _, err := range wrong {
		d.bad("settings", err.Error(), "correct it; outrider config print shows where each setting comes from")
	}
	if len(wrong) > 0 {
		return // what follows would look at other things than are meant
	}
	given := 0
	for _, s := range cfg.told {
		if s.Origin != "default" {
			given++
		}
	}
	d.well("settings", "%s given, the others have their defaults", count(int64(given), "setting", "settings"))
	for _, look := range []func(context.Context){d.server, d.address, d.store, d.limits} {
		look(ctx)
	}
	if len(cfg.outboxes) == 0 {
		d.well("outbox", "none is given (--outbox): jobs come over HTTP only")
	}
	for _, dsn := range cfg.outboxes {
		d.outbox(ctx, dsn)
	}
}

// report prints what was found, and is the error of a command that found something wrong.
func (d *doctor) report(format format) error {
	bad := 0
	for _, f := range d.diagnoses {
		if f.Status == badPart {
			bad++
		}
	}
	if format.data() {
		if err := format.printValue(d.stdout, struct {
			Findings []diagnosis `json:"diagnoses"`
		}{d.diagnoses}, "diagnoses"); err != nil {
			return err
		}
	} else if err := d.printFindings(); err != nil {
		return err
	}
	if bad > 0 {
		return &failure{exitFailed, fmt.Errorf("%s wrong; what to do stands above", count(int64(bad), "thing is", "things are"))}
	}
	return nil
}

func (d *doctor) printFindings() error {
	styles := map[string]term.Style{wellPart: term.Good, oddPart: term.Warn, badPart: term.Bad}
	wide := d.screen.Width
	if wide == 0 {
		wide = helpWidth
	}
	for _, f := range d.diagnoses {
		head := fmt.Sprintf("%-7s  %-8s  ", f.Status, f.Part)
		var lines []string
		for line := range strings.SplitSeq(f.Text, "\n") {
			lines = append(lines, within(line, wide-len(head))...)
		}
		for i, line := range within(f.Do, wide-len(head)-3) {
			lines = append(lines, []string{"-> ", "   "}[min(i, 1)]+line)
		}
		text := d.screen.Paint(styles[f.Status], f.Status) + head[len(f.Status):] + strings.Join(lines, "\n"+strings.Repeat(" ", len(head)))
		if _, err := fmt.Fprintln(d.stdout, text); err != nil {
			return err
		}
	}
	return nil
}

// within are the lines of a text, without what would move the cursor.
func within(text string, columns int) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimRight(term.Fill(wording.Printable(strings.TrimSpace(text)), columns), "\n"), "\n")
}
