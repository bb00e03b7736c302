package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// format is how an answer is printed: table, which is for a person, or one of those
// for programs, which hold all that the server said, with exact times.
type format string

const (
	asTable  format = "table"
	asJSON   format = "json"
	asNDJSON format = "ndjson"
	asYAML   format = "yaml"
)

// data reports whether a program reads the answer.
func (f format) data() bool { return f != asTable }

// bindOutput gives cmd the flag -o. What it returns reads it.
func bindOutput(cmd *cobra.Command) func() (format, error) {
	output := cmd.Flags().StringP("output", "o", string(asTable), "table, json, ndjson (a line for each of a list) or yaml")
	return func() (format, error) {
		switch f := format(*output); f {
		case asTable, asJSON, asNDJSON, asYAML:
			return f, nil
		}
		return "", usage("-o must be table, json, ndjson or yaml, got %q", *output)
	}
}

// print writes JSON in a format for programs. As ndjson each of the list that the
// member items holds gets a line, and an answer without a list is one line.
func (f format) print(w io.Writer, answer []byte, items string) error {
	switch f {
	case asYAML:
		text, err := asYAMLText(answer)
		if err != nil {
			return fmt.Errorf("the server's answer cannot be read: %w", err)
		}
		_, err = w.Write(text)
		return err
	case asNDJSON:
		return printLines(w, answer, items)
	}
	_, err := fmt.Fprintf(w, "%s\n", bytes.TrimRight(answer, "\n"))
	return err
}

func printLines(w io.Writer, answer []byte, items string) error {
	all := []json.RawMessage{answer}
	if items != "" {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(answer, &members); err != nil {
			return fmt.Errorf("the server's answer cannot be read: %w", err)
		}
		if err := json.Unmarshal(members[items], &all); err != nil {
			return fmt.Errorf("the server's answer has no list of %s: %w", items, err)
		}
	}
	for _, one := range all {
		var line bytes.Buffer
		if err := json.Compact(&line, one); err != nil {
			return fmt.Errorf("the server's answer cannot be read: %w", err)
		}
		line.WriteByte('\n')
		if _, err := w.Write(line.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// printValue writes v, which we have made ourselves, in a format for programs.
func (f format) printValue(w io.Writer, v any, items string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	return f.print(w, b.Bytes(), items)
}
