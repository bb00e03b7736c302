package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

func TestQuickstart(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var out bytes.Buffer
	if err := run(ctx, t.TempDir(), &out); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "order 1: mail to ada@example.com\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), "\n"); n > 100 {
		t.Errorf("the example has %d lines, it must fit on a page of 100", n)
	}
}
