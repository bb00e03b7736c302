package main

import (
	"bytes"
	"encoding/json"
)

// typedArgs reads the args of a job as a person types them. One word that begins with [
// is the whole array. Otherwise each word is one of the args: what is JSON is meant
// as that, and anything else is a text.
func typedArgs(words []string) (json.RawMessage, error) {
	if len(words) == 1 {
		if raw := bytes.TrimSpace([]byte(words[0])); len(raw) > 0 && raw[0] == '[' {
			if !json.Valid(raw) {
				return nil, usage("the args must be one JSON array in quotes, such as '[\"ada@example.com\"]', got %s", words[0])
			}
			return raw, nil
		}
	}
	args := []json.RawMessage{}
	for _, word := range words {
		one := json.RawMessage(word)
		if !json.Valid(one) {
			var text bytes.Buffer
			e := json.NewEncoder(&text)
			e.SetEscapeHTML(false)
			if err := e.Encode(word); err != nil {
				return nil, err
			}
			one = bytes.TrimSpace(text.Bytes())
		}
		args = append(args, one)
	}
	return json.Marshal(args)
}

// dash is a cell of a table, with a dash where it would be empty.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
