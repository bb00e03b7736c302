package main

import (
	"bytes"
	"encoding/json"
	"strings"
)

// argsFrom makes an array of words.
func argsFrom(words []string) (json.RawMessage, error) {
	if len(words) == 1 && strings.HasPrefix(strings.TrimSpace(words[0]), "[") {
		if !json.Valid([]byte(words[0])) {
			return nil, usage("the args must be one JSON array in quotes, such as '[\"ada@example.com\"]', got %s", words[0])
		}
		return json.RawMessage(words[0]), nil
	}
	list := []json.RawMessage{}
	for _, word := range words {
		v, err := valueOf(word)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return json.Marshal(list)
}

// valueOf is a word as JSON: what it is already, or a text. What begins like JSON and
// is none was broken by a shell, as a rule.
func valueOf(word string) (json.RawMessage, error) {
	if json.Valid([]byte(word)) {
		return json.RawMessage(word), nil
	}
	if strings.HasPrefix(word, "{") || strings.HasPrefix(word, "[") || strings.HasPrefix(word, `"`) {
		return nil, usage("%s begins like JSON and is none; put JSON into single quotes, and a text that begins so into double ones within them", word)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(word)
	return bytes.TrimSpace(b.Bytes()), err
}

func metaOf(words []string) (map[string]json.RawMessage, error) {
	meta := map[string]json.RawMessage{}
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		if !ok || name == "" {
			return nil, usage("--meta must be name=value, got %q", word)
		}
		v, err := valueOf(value)
		if err != nil {
			return nil, err
		}
		meta[name] = v
	}
	return meta, nil
}
