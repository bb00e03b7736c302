package handwork

import (
	"strings"
	"testing"
)

func TestMappingsAreRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Mapping{
		"a.b=./x.sh":              {Pattern: "a.b", Command: "./x.sh"},
		"a.b = jq '.[0]' | mail ": {Pattern: "a.b", Command: "jq '.[0]' | mail"},
		"a.b=X=1 y":               {Pattern: "a.b", Command: "X=1 y"},
		"email.*=true":            {Pattern: "email.*", Command: "true"},
		"email*=true":             {Pattern: "email*", Command: "true"},
		"*=true":                  {Pattern: "*", Command: "true"},
		"single=true":             {Pattern: "single", Command: "true"},
		"a.b_2.c3=one\ntwo":       {Pattern: "a.b_2.c3", Command: "one\ntwo"},
		"a.b=http://127.0.0.1/x":  {Pattern: "a.b", Command: "http://127.0.0.1/x"},
	} {
		if got, err := ParseExec(text); err != nil || got != want {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
	for text, why := range map[string]string{
		"":          "must be a job type, =",
		"a.b":       "must be a job type, =",
		"a.b= ":     "must be a job type, =",
		"=true":     "must begin with a job type",
		"A.b=true":  "must begin with a job type",
		"a.*.b=x":   "must begin with a job type",
		"**=x":      "must begin with a job type",
		"*.b=x":     "must begin with a job type",
		"a..b=x":    "must begin with a job type",
		"a b=x":     "must begin with a job type",
		"a.b=x\x00": "zero byte",
	} {
		if _, err := ParseExec(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: got %v, want %q", text, err, why)
		}
	}
	for text, why := range map[string]string{
		"a.b=http://127.0.0.1:9000/jobs?k=v": "", "*=https://h.example": "",
		"a.b=127.0.0.1:9000": "must have a URL", "a.b=ftp://h/": "must have a URL", "a.b=http:///x": "must have a URL", "a.b=http://h:x y": "must have a URL",
		"a.b=http://u:hunter2@h/": "must not have a password", "a.b=http://h/#x": "must not have a #",
	} {
		_, err := ParseHTTP(text)
		if (err == nil) != (why == "") || err != nil && (!strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%q: got %v, want %q", text, err, why)
		}
	}
}

func TestTheClosestMappingIsTaken(t *testing.T) {
	t.Parallel()
	ms := Mappings{{Pattern: "*"}, {Pattern: "email.*"}, {Pattern: "email.bulk.*"}, {Pattern: "email.send"}, {Pattern: "sms*"}}
	for kind, want := range map[string]string{"email.send": "email.send", "email.sent": "email.*", "email.bulk.all": "email.bulk.*", "email": "*",
		"emails.x": "*", "sms": "sms*", "smsx.y": "sms*", "other": "*"} {
		if got := ms.Find(kind); got == nil || got.Pattern != want {
			t.Errorf("%s: got %+v, want %s", kind, got, want)
		}
	}
	if got := ms[1:].Find("other"); got != nil {
		t.Errorf("other: got %+v, want none", got)
	}
	if err := ms.Distinct(); err != nil {
		t.Error(err)
	}
	if err := append(ms, Mapping{Pattern: "sms*", URL: "http://h"}).Distinct(); err == nil || !strings.Contains(err.Error(), "sms* is mapped twice") {
		t.Errorf("got %v", err)
	}
}
