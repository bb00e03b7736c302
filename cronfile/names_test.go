package cronfile

import (
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// TestNamesAreAsWritten: the name of a member in YAML is its text, also where that
// would be a number or a boolean as a value.
func TestNamesAreAsWritten(t *testing.T) {
	t.Parallel()
	for meta, want := range map[string]string{
		`{1.10: stable}`:                    `{"1.10":"stable"}`,
		`{1.1: a, 1.10: b}`:                 `{"1.1":"a","1.10":"b"}`,
		`{1: a, 1.0: b, +1: c, -0: d}`:      `{"+1":"c","-0":"d","1":"a","1.0":"b"}`,
		`{0x1F: a, 1_000: b, 0o17: c}`:      `{"0o17":"c","0x1F":"a","1_000":"b"}`,
		`{true: a, False: b, TRUE: c}`:      `{"False":"b","TRUE":"c","true":"a"}`,
		`{1e3: a, 12345678901234567890: 1}`: ``,
		`{? 1.10 : a}`:                      `{"1.10":"a"}`,
		`{a: {2.50: {3.0: 1.50}}}`:          `{"a":{"2.50":{"3.0":1.50}}}`,
		`{007: a}`:                          ``,
		`{"007": a}`:                        `{"007":"a"}`,
		`{1.1: a, 1.1: b}`:                  ``,
		`{1.1: a, "1.1": b}`:                ``,
		`{true: a, "true": b}`:              ``,
	} {
		for _, file := range []string{
			"crons:\n  - {name: a, cron: '@daily', type: x.y, meta: " + meta + "}\n",
			"x-meta: &meta " + meta + "\ncrons:\n  - name: a\n    cron: '@daily'\n    type: x.y\n    meta: *meta\n",
		} {
			f, err := Parse("a.yaml", []byte(file))
			if err == nil && len(f.Entries) == 1 {
				err = f.Entries[0].Err
			}
			if want == "" {
				if err == nil {
					t.Errorf("%s: got %s, want a refusal", file, f.Entries[0].Spec.Template)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			if got := string(rawjson.Member(f.Entries[0].Spec.Template, "meta")); got != want {
				t.Errorf("%s: got %s, want %s", strings.TrimSpace(file), got, want)
			}
		}
	}
}
