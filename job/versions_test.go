package job

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
)

// Versions are compared by their JSON value, and 2 is another than "2".
func TestVersionsWant(t *testing.T) {
	t.Parallel()
	v, err := ParseVersions([]byte(`{"a.b":[2,"3-beta",1.50,12345678901234567890],"c.d":[null],"e.f":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		kind, extra string
		want        bool
	}{
		{"a.b", `{"version":2}`, true},
		{"a.b", `{"version":2.0}`, true},
		{"a.b", `{"x":1,"version":2e0}`, true},
		{"a.b", `{"version":"2"}`, false},
		{"a.b", `{"version":"3-beta"}`, true},
		{"a.b", `{"version":"3\u002dbeta"}`, true},
		{"a.b", `{"version":"3-Beta"}`, false},
		{"a.b", `{"version":1.5}`, true},
		{"a.b", `{"version":12345678901234567890}`, true},
		{"a.b", `{"version":12345678901234567891}`, false},
		{"a.b", `{"version":3}`, false},
		{"a.b", `{"version":[2]}`, false},
		{"a.b", `{"version":true}`, false},
		{"a.b", `{"version":null}`, false},
		{"a.b", `{"version":"` + strings.Repeat("x", 300) + `"}`, false},
		{"a.b", `{}`, false},
		{"a.b", ``, false},
		{"c.d", ``, true},
		{"c.d", `{"version":null}`, true},
		{"c.d", `{"version":1}`, false},
		{"e.f", ``, false},
		{"e.f", `{"version":1}`, false},
		{"x.y", `{"version":1}`, true},
		{"x.y", ``, true},
	} {
		if got := v.Wants(tt.kind, json.RawMessage(tt.extra)); got != tt.want {
			t.Errorf("%s with %s: got %v", tt.kind, tt.extra, got)
		}
		if !(*Versions)(nil).Wants(tt.kind, json.RawMessage(tt.extra)) {
			t.Errorf("%s with %s is not wanted without versions", tt.kind, tt.extra)
		}
	}
}

func TestBadVersions(t *testing.T) {
	t.Parallel()
	many := `{"a.b":[` + strings.Repeat("1,", maxVersions) + `1]}`
	for body, want := range map[string]string{
		`[]`:             "versions must be an object",
		`"a"`:            "versions must be an object",
		`{`:              "versions must be a JSON object",
		`{"a.b":2}`:      "versions.a.b must be an array",
		`{"a.b":null}`:   "versions.a.b must be an array",
		`{"a.b":[1,{}]}`: "versions.a.b[1] must be a string or a number",
		`{"a.b":[[1]]}`:  "versions.a.b[0] must be a string or a number",
		`{"a.b":[true]}`: "versions.a.b[0] must be a string or a number",
		`{"No":[1]}`:     "versions names a type",
		`{"":[1]}`:       "versions names a type",
		many:             "versions must hold at most 1000",
		`{"a.b":["` + strings.Repeat("x", 300) + `"]}`: "versions.a.b[0] must be at most",
	} {
		v, err := ParseVersions([]byte(body))
		var e *Error
		if !errors.As(err, &e) || e.Kind != Invalid || v != nil || !strings.HasPrefix(e.Message, want) {
			t.Errorf("%.60s: got %v, want %s", body, err, want)
			continue
		}
		if field, _ := e.Details["field"].(string); !strings.HasPrefix(want, field) {
			t.Errorf("%.60s: the field is %q", body, field)
		}
	}
	if _, err := ParseVersions([]byte(`{"a.b":[1],"a.b":[2]}`)); err == nil {
		t.Error("a type that comes twice is taken")
	}
}

func TestNewVersions(t *testing.T) {
	t.Parallel()
	v, err := NewVersions(map[string][]any{"a.b": {2, "x", 1.5, nil}, "c.d": nil})
	if err != nil || string(v.JSON()) != `{"a.b":[2,"x",1.5,null],"c.d":[]}` || v.Wants("c.d", nil) || !v.Wants("a.b", nil) {
		t.Errorf("got %s, %v", v.JSON(), err)
	}
	same, err := ParseVersions([]byte(` {"c.d": [], "a.b":[2.0,"x",1.50,null]}`))
	if err != nil || same.Key() != v.Key() || v.Key() == "" || (*Versions)(nil).Key() != "" {
		t.Errorf("keys %s and %s, %v", v.Key(), same.Key(), err)
	}
	for name, bad := range map[string]any{"no number": math.NaN(), "an object": map[string]any{}, "a function": func() {}} {
		if v, err := NewVersions(map[string][]any{"a.b": {bad}}); KindOf(err) != Invalid || v != nil || err == nil {
			t.Errorf("%s: got %v, %v", name, v, err)
		}
	}
}

func TestVersionsWithout(t *testing.T) {
	t.Parallel()
	v, err := ParseVersions([]byte(`{"a.b": [2], "c.d": [1, null]}`))
	if err != nil {
		t.Fatal(err)
	}
	one := json.RawMessage(`{"version":1}`)
	for name, tt := range map[string]struct {
		of, want *Versions
	}{
		"of some":     {v.Without("a.b").Without("x.y"), mustVersions(t, `{"a.b":[],"c.d":[1,null],"x.y":[]}`)},
		"of none":     {(*Versions)(nil).Without("x.y"), mustVersions(t, `{"x.y":[]}`)},
		"of the same": {v.Without("x.y").Without("x.y"), mustVersions(t, `{"a.b":[2],"c.d":[1,null],"x.y":[]}`)},
	} {
		if tt.of.Key() != tt.want.Key() || string(tt.of.JSON()) != string(tt.want.JSON()) {
			t.Errorf("%s: got %s, want %s", name, tt.of.JSON(), tt.want.JSON())
		}
		for _, kind := range []string{"a.b", "c.d", "x.y", "z"} {
			for _, extra := range []json.RawMessage{nil, one, json.RawMessage(`{"version":2}`)} {
				if got, want := tt.of.Wants(kind, extra), tt.want.Wants(kind, extra); got != want {
					t.Errorf("%s: %s of %s: got %v, want %v", name, extra, kind, got, want)
				}
			}
		}
	}
	if !v.Wants("a.b", json.RawMessage(`{"version":2}`)) || !v.Wants("x.y", nil) {
		t.Error("v has changed")
	}
}

func mustVersions(t *testing.T, raw string) *Versions {
	t.Helper()
	v, err := ParseVersions([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return v
}
