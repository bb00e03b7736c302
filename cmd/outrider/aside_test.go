package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
)

// TestLogOfAServer: what is grave and what is not stand in one order, with their
// attributes and groups, and what is below the level in neither.
func TestLogOfAServer(t *testing.T) {
	var out, errs bytes.Buffer
	a := &app{stdout: &output{w: &out}, stderr: &errs}
	log := a.aside(config{logLevel: slog.LevelInfo, logFormat: "json"})
	log.Debug("never")
	log.Info("one")
	log.With("a", 1).WithGroup("g").Warn("two", "b", 2)
	log.With("a", 1).WithGroup("g").Info("three", "b", 2)
	_, _ = io.WriteString(a.stderr, "error: four\n")
	_, _ = io.WriteString(a.stdout, "five\n")
	a.settle()
	var got []string
	for line := range strings.Lines(errs.String()) {
		var v map[string]any
		if json.Unmarshal([]byte(line), &v) != nil {
			got = append(got, line)
			continue
		}
		delete(v, "time")
		b, _ := json.Marshal(v)
		got = append(got, string(b)+"\n")
	}
	want := `{"level":"INFO","msg":"one"}
{"a":1,"g":{"b":2},"level":"WARN","msg":"two"}
{"a":1,"g":{"b":2},"level":"INFO","msg":"three"}
error: four
`
	if strings.Join(got, "") != want || out.String() != "five\n" {
		t.Errorf("got\n%s%s", strings.Join(got, ""), out.String())
	}
}

// TestMissingLinesAreToldAtAnyLevel: in the form of the log, with the reason.
func TestMissingLinesAreToldAtAnyLevel(t *testing.T) {
	text := string(config{logLevel: slog.LevelError, logFormat: "text"}.missing(3, nil))
	if !strings.Contains(text, `level=WARN msg="log lines were dropped because nobody read the log" lines=3`) || strings.Count(text, "\n") != 1 {
		t.Errorf("got %q", text)
	}
	var v struct {
		Msg, Err string
		Lines    int
	}
	raw := config{logLevel: slog.LevelError, logFormat: "json"}.missing(7, errors.New("no space left on device"))
	if err := json.Unmarshal(raw, &v); err != nil || v.Lines != 7 || v.Err != "no space left on device" || v.Msg != "log lines were dropped because they could not be written" {
		t.Errorf("got %s (%v)", raw, err)
	}
}

// BenchmarkLog is what a line costs who logs it: written at once, and aside.
func BenchmarkLog(b *testing.B) {
	file, err := os.Create(b.TempDir() + "/log")
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	line := func(b *testing.B, log *slog.Logger) {
		b.ReportAllocs()
		for b.Loop() {
			log.Info("unique", "fingerprint", "56b7f878207f01ca3ee1ea2ba921f8027d33cc425dc298704c9a9077d6ce9ef6", "verdict", "ignored", "refused", false)
		}
	}
	b.Run("at once", func(b *testing.B) { line(b, config{}.logger(file)) })
	b.Run("aside", func(b *testing.B) {
		a := &app{stdout: io.Discard, stderr: file}
		line(b, a.aside(config{}))
		a.settle()
	})
}
