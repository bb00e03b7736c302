package handwork

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// A Mapping says what is done with the jobs of some types: a command is run, or a URL is
// asked.
type Mapping struct {
	Pattern string // a job type, or the beginning of some with * at its end, or * for all
	Command string // a line of the shell; empty with a URL
	URL     string
}

// pattern is what a Mapping may have in front of its =.
var pattern = regexp.MustCompile(`^(\*|[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*(\.?\*)?)$`)

// ParseExec reads TYPE=COMMAND.
func ParseExec(text string) (Mapping, error) {
	m := Mapping{}
	var err error
	if m.Pattern, m.Command, err = split(text, "email.send=./send.sh"); err != nil {
		return m, err
	}
	if strings.ContainsRune(m.Command, 0) {
		return m, fmt.Errorf("must not have a zero byte in its command")
	}
	return m, nil
}

// ParseHTTP reads TYPE=URL. Its errors do not show the URL, which may hold a secret.
func ParseHTTP(text string) (Mapping, error) {
	m := Mapping{}
	var err error
	if m.Pattern, m.URL, err = split(text, "email.send=http://127.0.0.1:9000/jobs"); err != nil {
		return m, err
	}
	u, err := url.Parse(m.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return m, fmt.Errorf("must have a URL behind %s=, such as http://127.0.0.1:9000/jobs", m.Pattern)
	case u.User != nil:
		return m, fmt.Errorf("must not have a password in its URL: requests are signed with --secret-file instead")
	case u.Fragment != "":
		return m, fmt.Errorf("must not have a # in its URL, as nothing behind it is sent")
	}
	return m, nil
}

func split(text, such string) (pat, target string, err error) {
	pat, target, ok := strings.Cut(text, "=")
	pat, target = strings.TrimSpace(pat), strings.TrimSpace(target)
	switch {
	case !ok || target == "":
		return "", "", fmt.Errorf("must be a job type, = and what is done with its jobs, such as %s", such)
	case !pattern.MatchString(pat):
		return "", "", fmt.Errorf("must begin with a job type such as email.send, email.* for all that begin with it, or * for every one, got %q", pat)
	}
	return pat, target, nil
}

// Mappings are what a worker does, no two of them with one pattern.
type Mappings []Mapping

// Distinct refuses two mappings with one pattern.
func (ms Mappings) Distinct() error {
	seen := map[string]bool{}
	for _, m := range ms {
		if seen[m.Pattern] {
			return fmt.Errorf("%s is mapped twice; a job is given to one command or URL", m.Pattern)
		}
		seen[m.Pattern] = true
	}
	return nil
}

// Find is the mapping of a job type: the one that names it, or else the one that has
// most of it in front of its *. Nil is none.
func (ms Mappings) Find(jobType string) *Mapping {
	var best *Mapping
	for i, m := range ms {
		start, open := strings.CutSuffix(m.Pattern, "*")
		switch {
		case m.Pattern == jobType:
			return &ms[i]
		case open && strings.HasPrefix(jobType, start) && (best == nil || len(m.Pattern) > len(best.Pattern)):
			best = &ms[i]
		}
	}
	return best
}
