package outrider_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	citedSections = regexp.MustCompile(`(?i)contract(?:\.md)?,? (§\d+(?:\.\d+)?(?:\(\d+\))?(?:(?:,? and |, | to )§\d+(?:\.\d+)?)*)`)
	aSection      = regexp.MustCompile(`§(\d+(?:\.\d+)?)`)
	citedChoice   = regexp.MustCompile(`\bC-\d\d\b`)
	commentBreak  = regexp.MustCompile(`\n\s*//\s?`)
	heading       = regexp.MustCompile(`(?m)^#{2,3} (\d+(?:\.\d+)?)\.? `)
	choiceRow     = regexp.MustCompile(`(?m)^\| (C-\d\d) \|`)
)

// Every section and every choice of the contract that a comment or a document
// cites is in docs/contract.md.
func TestCitedSectionsOfTheContractExist(t *testing.T) {
	page, err := os.ReadFile("docs/contract.md")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, pattern := range []*regexp.Regexp{heading, choiceRow} {
		for _, m := range pattern.FindAllStringSubmatch(string(page), -1) {
			if there[m[1]] {
				t.Errorf("docs/contract.md has %s twice", m[1])
			}
			there[m[1]] = true
		}
	}
	cited := 0
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && (d.Name() == ".git" || d.Name() == "node_modules") {
				return fs.SkipDir
			}
			return err
		}
		if ext := filepath.Ext(path); ext != ".go" && ext != ".md" && ext != ".sql" {
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, name := range citations(string(raw)) {
			cited++
			if !there[name] {
				t.Errorf("%s cites %s of the contract, which docs/contract.md does not have", path, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if cited < 200 {
		t.Errorf("only %d citations were found", cited)
	}
}

// citations are the sections and choices of the contract that a file cites, also
// over the end of a line.
func citations(text string) (all []string) {
	text = commentBreak.ReplaceAllString(text, " ")
	text = strings.ReplaceAll(text, "\n", " ")
	for _, list := range citedSections.FindAllStringSubmatch(text, -1) {
		for _, m := range aSection.FindAllStringSubmatch(list[1], -1) {
			all = append(all, m[1])
		}
	}
	return append(all, citedChoice.FindAllString(text, -1)...)
}

func TestCitations(t *testing.T) {
	got := strings.Join(citations("// a (contract\n// §3.3, §3.14) and contract §4.10(4), contract.md §5\n// core §9, contract C-16"), " ")
	if want := "3.3 3.14 4.10 5 C-16"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
