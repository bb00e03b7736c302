package wording

import "testing"

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"serve", "serve", 0}, {"sreve", "serve", 2}, {"kitten", "sitting", 3}} {
		if got := Distance(tt.a, tt.b); got != tt.want {
			t.Errorf("%q, %q: got %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestPrintable(t *testing.T) {
	for s, want := range map[string]string{"a é 💌": "a é 💌", "a\x1b[31m\n": `a\x1b[31m\n`, "\u202e": `\u202e`} {
		if got := Printable(s); got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	}
}
