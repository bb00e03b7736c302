package term

import "strings"

// Fill breaks text so that its lines take at most so many columns. Lines without an
// indent that follow one another are one paragraph. A longer line with an indent goes
// on under its last column, as a line of a table of two columns does.
func Fill(text string, columns int) string {
	var out, paragraph []string
	flush := func() {
		if len(paragraph) > 0 {
			out = append(out, fold(strings.Join(paragraph, " "), columns, 0)...)
			paragraph = nil
		}
	}
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case line == "":
			flush()
			out = append(out, line)
		case line[0] != ' ':
			paragraph = append(paragraph, line)
		default:
			flush()
			out = append(out, fold(line, columns, under(line))...)
		}
	}
	flush()
	return strings.Join(out, "\n") + "\n"
}

// under is where the text of a line with an indent begins: behind the first two
// spaces that part its columns, or else behind the indent.
func under(line string) int {
	indent := len(line) - len(strings.TrimLeft(line, " "))
	if at := strings.Index(line[indent:], "  "); at >= 0 {
		rest := line[indent+at:]
		return indent + at + len(rest) - len(strings.TrimLeft(rest, " "))
	}
	return indent
}

// fold breaks a line at spaces, and indents what follows the first.
func fold(line string, columns, indent int) (out []string) {
	for Width(line) > columns {
		at := -1
		used := 0
		for i, r := range line {
			if used > columns && at >= 0 {
				break
			}
			if r == ' ' && i > indent && strings.TrimSpace(line[:i]) != "" && strings.TrimSpace(line[i:]) != "" {
				at = i
			}
			used += runeWidth(r)
		}
		if at < 0 {
			break // one word
		}
		out = append(out, strings.TrimRight(line[:at], " "))
		line = strings.Repeat(" ", indent) + strings.TrimLeft(line[at:], " ")
	}
	return append(out, line)
}
