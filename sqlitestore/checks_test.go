package sqlitestore

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// askedFor is the number in a variable of the environment, or another one.
func askedFor(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	s := os.Getenv(variable)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, want a number", variable, s)
	}
	return n
}

// checksOf sets how many cases rapid tries.
func checksOf(t *testing.T, variable string, otherwise int) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	if err := checks.Value.Set(strconv.Itoa(askedFor(t, variable, otherwise))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = checks.Value.Set(before) }) // which it was
}
