// Package wording compares words, makes them safe to print, and shows where a
// text is wrong.
package wording

import (
	"strconv"
	"strings"
	"unicode"
)

// Distance is the Levenshtein distance of two words, in bytes.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// Nearest is the candidate that word is probably a slip of, or empty.
func Nearest(word string, candidates []string) string {
	best, limit := "", 1+len(strings.TrimLeft(word, "-"))/4
	for _, c := range candidates {
		if d := Distance(strings.ToLower(word), strings.ToLower(c)); d <= limit {
			best, limit = c, d-1
		}
	}
	return best
}

// Printable is s with what would steer a terminal, or break a table, as an escape.
func Printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}
