package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

var escape = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// painted is text with its escapes in one form: terminals differ in what they say twice.
// Before each text that stands out its codes stand, and behind it a 0.
func painted(text string) string {
	var b strings.Builder
	now, shown, weight, color := "", "", "", ""
	put := func(part string) {
		for i, line := range strings.SplitAfter(part, "\n") {
			if i > 0 && shown != "" { // no style goes over the end of a line
				shown = ""
			}
			body := strings.TrimSuffix(line, "\n")
			if body != "" {
				if now != shown {
					if shown != "" {
						b.WriteString("\x1b[0m")
					}
					if now != "" {
						b.WriteString("\x1b[" + now + "m")
					}
					shown = now
				}
				b.WriteString(body)
			}
			if body != line {
				if shown != "" {
					b.WriteString("\x1b[0m")
					shown = ""
				}
				b.WriteString("\n")
			}
		}
	}
	at := 0
	for _, m := range escape.FindAllStringSubmatchIndex(text, -1) {
		put(text[at:m[0]])
		for _, code := range strings.Split(text[m[2]:m[3]], ";") {
			switch code {
			case "0", "":
				weight, color = "", ""
			case "22":
				weight = ""
			case "39":
				color = ""
			case "49": // the ground of the terminal
			case "1", "2":
				weight = code
			case "31", "32", "33", "36":
				color = code
			default:
				color += ";" + code // which is not readable
			}
			now = strings.Trim(weight+";"+color, ";")
		}
		at = m[1]
	}
	put(text[at:])
	return b.String()
}

func plain(text string) string { return escape.ReplaceAllString(text, "") }

// marked shows escapes as something that can be read.
func marked(text string) string {
	return strings.NewReplacer("\x1b[0m", "}", "\x1b[1m", "{bold ", "\x1b[2m", "{faint ", "\x1b[31m", "{red ", "\x1b[32m", "{green ", "\x1b[33m", "{yellow ", "\x1b[36m", "{cyan ").Replace(text)
}

// readable reports an escape that one of a light and a dark ground may swallow: all but
// bold, faint, and red, green, yellow and cyan as the theme has them.
func readable(text string) error {
	for _, m := range escape.FindAllStringSubmatch(text, -1) {
		switch m[1] {
		case "0", "1", "2", "31", "32", "33", "36":
		default:
			return fmt.Errorf("the style %s is on the screen: %q", m[1], text)
		}
	}
	return nil
}

func TestPainted(t *testing.T) {
	got := marked(painted("\x1b[1mA\x1b[0m\x1b[39m\x1b[49m b\x1b[32m c\nd\x1b[39m e\n"))
	if want := "{bold A} b{green  c}\n{green d} e\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, bad := range []string{"\x1b[37mx", "\x1b[30mx", "\x1b[47mx", "\x1b[1;97mx", "\x1b[38;5;250mx", "\x1b[7mx"} {
		if readable(painted(bad)) == nil {
			t.Errorf("%q is taken for readable", bad)
		}
	}
}
