package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/term"
)

// bindYes gives cmd the flag that answers its question beforehand.
func bindYes(cmd *cobra.Command) *bool {
	return cmd.Flags().BoolP("yes", "y", false, "do it without a question")
}

// sure asks a person before something is done that cannot be taken back: what is
// a sentence without its end, such as "remove 12 jobs for good". Where nobody can
// answer, nothing is done.
func (q *question) sure(yes bool, what string) error {
	if yes {
		return nil
	}
	if !term.IsTerminal(q.stdin) {
		return usage("this would %s, and nobody can be asked here: nothing was done; to do it, add --yes", what)
	}
	fmt.Fprintf(q.stderr, "%s? [y/N] ", what)
	line, err := bufio.NewReader(q.stdin).ReadString('\n')
	if err != nil {
		fmt.Fprintln(q.stderr)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was done")
}
