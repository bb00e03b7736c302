package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/goccy/go-yaml"
)

// What a program reads from YAML is what the server said, and none of it reaches a
// terminal as a command.
func TestYAMLSaysWhatJSONSays(t *testing.T) {
	for _, text := range []string{
		`{"a":"x\u001b[31m\ny","b":1204,"d":"\u0085\u202e\u2028 z\ufeff","bell":"\u0007","wide":"日本語","smile":"💌","tag":"\udb40\udc01"}`,
		`{"e":["yes","No","~","", " x ","x ","0x10","<<","a: b # c","a #","a:","- x","1_000","1:30","2026-01-01","nUll",".inf","!x","&a","*a","|",">","%","@","{}","[]","\"q\"","back\\slash","tab\tx","r\r\n\n"]}`,
		`{"n":null,"t":true,"f":false,"o":{},"l":[],"in":{"l":[{"a":1,"b":[2,[3,4],[]]},{}, "x"],"o":{"p":{"q":"r"}}},"y":1,"\u001bkey: ":2,"":3}`,
		`[]`, `{}`, `"a"`, `[[[1],[2]],{"a":[{"b":{"c":1}}]}]`,
	} {
		var b strings.Builder
		if err := asYAML.print(&b, []byte(text), ""); err != nil {
			t.Fatal(err)
		}
		if at := strings.IndexFunc(b.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); at >= 0 {
			t.Errorf("%q has a character that a terminal may obey, at %d", b.String(), at)
		}
		var read, want, got any
		if err := yaml.Unmarshal([]byte(b.String()), &read); err != nil {
			t.Errorf("%s\n%v", b.String(), err)
			continue
		}
		back, err := json.Marshal(read)
		if err != nil {
			t.Fatal(err)
		}
		if json.Unmarshal([]byte(text), &want) != nil || json.Unmarshal(back, &got) != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nis read as %s, want %s", b.String(), back, text)
		}
	}
	var b strings.Builder
	if err := asYAML.print(&b, []byte(`{"big":12345678901234567890123,"exact":1.10}`), ""); err != nil || b.String() != "big: 12345678901234567890123\nexact: 1.10\n" {
		t.Errorf("numbers are %q, %v", b.String(), err)
	}
}
