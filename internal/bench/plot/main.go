// Command plot draws what `outrider bench -o json` has measured, as SVG:
//
//	go run ./internal/bench/plot -out docs/bench docs/bench/*.json
//
// It may import internal/bench, whose reports it reads. It must never measure
// anything.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/outrider-jobs/outrider/internal/bench"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "error:", err)
		}
		os.Exit(1)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("plot", flag.ContinueOnError)
	flags.SetOutput(stderr)
	out := flags.String("out", ".", "folder for the SVG files")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("name the reports to draw, made with: outrider bench -o json")
	}
	var reports []bench.Report
	for _, name := range flags.Args() {
		r, err := read(name)
		if err != nil {
			return err
		}
		reports = append(reports, r)
	}
	drawn := figures(reports)
	if len(drawn) == 0 {
		return errors.New("the reports hold nothing to draw; a line needs two points: give bench several --concurrency, --rate or --beside")
	}
	for _, f := range drawn {
		if err := os.WriteFile(filepath.Join(*out, f.name+".svg"), f.svg, 0o644); err != nil {
			return err
		}
		fmt.Fprintln(stdout, filepath.Join(*out, f.name+".svg"))
	}
	return nil
}

func read(name string) (r bench.Report, err error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("%s is not a report of outrider bench -o json: %w", name, err)
	}
	return r, nil
}
