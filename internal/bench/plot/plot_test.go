package main

import (
	"bytes"
	"encoding/xml"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestFigures compares what is drawn of a report with files that -update rewrites.
func TestFigures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := run([]string{"-out", dir, "testdata/report.json"}, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	drawn, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range drawn {
		name := filepath.Base(file)
		names = append(names, name)
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(golden); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what was drawn (%v); look at it, then run go test ./internal/bench/plot -update. Got:\n%s", golden, err, got)
		}
		for d := xml.NewDecoder(bytes.NewReader(got)); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	if want := []string{"beside-push.svg", "bytes.svg", "cpu.svg", "latency.svg", "rates.svg"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

func TestScales(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		values, ticks []float64
		log           bool
	}{
		{[]float64{300, 45000}, []float64{200, 500, 1000, 2000, 5000, 10000, 20000, 50000}, true},
		{[]float64{1, 1e6}, []float64{1, 10, 100, 1000, 1e4, 1e5, 1e6}, true},
		{[]float64{9000, 18000}, []float64{0, 5000, 10000, 15000, 20000}, false},
		{[]float64{0, 1000}, []float64{0, 200, 400, 600, 800, 1000}, false},
	} {
		s := newScale(tt.values, 0, 100)
		if !slices.Equal(s.ticks, tt.ticks) || s.log != tt.log {
			t.Errorf("%v: got %v, log %t", tt.values, s.ticks, s.log)
		}
		if s.at(s.lo) != 0 || s.at(s.hi) != 100 {
			t.Errorf("%v: the ends are at %v and %v", tt.values, s.at(s.lo), s.at(s.hi))
		}
	}
}

// TestNamesDoNotMeet: they keep their order, their gap, and the frame.
func TestNamesDoNotMeet(t *testing.T) {
	t.Parallel()
	var lines []series
	for _, y := range []float64{1, 2, 1, 99, 100, 100, 50, 51} {
		lines = append(lines, series{points: []point{{1, y}}})
	}
	got := place(lines, newScale([]float64{0, 100}, below, top))
	slices.Sort(got)
	for i := range got[1:] {
		if got[i+1]-got[i] < labelGap {
			t.Errorf("got %v", got)
		}
	}
	if got[0] < top || got[len(got)-1] > below {
		t.Errorf("got %v", got)
	}
}

func TestWhatCannotBeDrawn(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "report.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ text, want string }{
		{"push 100/s", "is not a report of outrider bench -o json"},
		{`{"results":[]}`, "nothing to draw"},
	} {
		write(tt.text)
		if err := run([]string{file}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v", tt.text, err)
		}
	}
	if err := run(nil, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "name the reports") {
		t.Errorf("got %v", err)
	}
}
