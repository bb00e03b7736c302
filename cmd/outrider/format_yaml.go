package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// asYAMLText writes JSON as YAML: members in their order, numbers digit by digit, and a
// text that could be read as something else, or changes a terminal, in quotes.
func asYAMLText(answer []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(answer))
	d.UseNumber()
	var b bytes.Buffer
	if err := writeYAML(&b, d, "", false); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// writeYAML writes the next value of d, and what ends its line. under is that a name
// stands in front of it.
func writeYAML(b *bytes.Buffer, d *json.Decoder, indent string, under bool) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	open, nested := t.(json.Delim)
	space := ""
	if under {
		space = " "
	}
	switch {
	case !nested:
		fmt.Fprintf(b, "%s%s\n", space, scalar(t))
		return nil
	case !d.More() && open == '{':
		fmt.Fprintf(b, "%s{}\n", space)
	case !d.More():
		fmt.Fprintf(b, "%s[]\n", space)
	case under:
		b.WriteByte('\n')
		if open == '{' {
			indent += "  "
		}
	}
	for first := true; d.More(); first = false {
		if !first || under {
			b.WriteString(indent)
		}
		if open == '[' {
			b.WriteString("- ")
			err = writeYAML(b, d, indent+"  ", false)
		} else if t, err = d.Token(); err == nil {
			b.WriteString(scalar(t) + ":")
			err = writeYAML(b, d, indent, true)
		}
		if err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// yamlWords are texts that some readers take for something else.
var yamlWords = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

// scalar writes a value that holds no others.
func scalar(v any) string {
	text, ok := v.(string)
	if !ok {
		if v == nil {
			return "null"
		}
		return fmt.Sprint(v)
	}
	plain := text != "" && (unicode.IsLetter([]rune(text)[0]) || text[0] == '/') &&
		!strings.HasSuffix(text, ":") && !strings.HasSuffix(text, " ") && !strings.Contains(text, ": ") && !strings.Contains(text, " #") &&
		!strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) && !slices.Contains(yamlWords, strings.ToLower(text))
	if plain {
		return text
	}
	return inQuotes(text)
}

// inQuotes writes a text in the quotes of YAML, with what cannot be printed
// spelled out.
func inQuotes(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String() + `"`
}
