package cronsched

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got:\n%s", file, got)
	}
}

// bad are expressions that must be refused.
var bad = []string{
	"", "   ", "0", "0 3", "0 3 * *", "not a valid cron", "0 0 0 0 0 0 0", "* * * * * * * *",
	"99 25 32 13 8", "60 * * * *", "0 24 * * *", "0 3 32 * *", "0 3 99 * *", "0 0 0 * *", "0 0 1 0 *", "0 0 1 13 *", "0 0 * * 8", "60 0 0 * * *",
	"0-60 * * * *", "0 0-24 * * *", "0 0 0-31 * *", "0 0 1-32 * *", "0 0 1 1-13 *", "0 0 * * 1-8", "99999999999999999999 * * * *",
	"1,,2 * * * *", ",1 * * * *", "1, * * * *", ", * * * *", "1, 2 * * * *", "0 0 * * ,",
	"+5 * * * *", "-5 * * * *", "5-+7 * * * *", "5- * * * *", "5-6-7 * * * *", "- * * * *", "1.5 * * * *", "0x5 * * * *",
	"*/0 * * * *", "*/ * * * *", "*/+5 * * * *", "*/-5 * * * *", "*/5/5 * * * *", "*/x * * * *", "*/61 * * * *", "*/90 * * * *", "*/100 * * * *", "0 */48 * * *",
	"5-10/7 * * * *", "59/5 * * * *", "0 0 * * 7/2", "/5 * * * *", "*5 * * * *", "5* * * * *", "** * * * *", "*-5 * * * *",
	"30-10 * * * *", "0 22-6 * * *", "0 0 * * 5-0", "0 0 * * FRI-MON", "0 0 * * SAT-MON", "0 0 1 NOV-FEB *", "0 22-6/2 * * *", "0 0 31-1 * *",
	"0 0 * * MONDAY", "0 0 * * monday-friday", "0 0 * * Tues", "0 0 1 September *", "0 0 1 Sept *", "0 0 * * MNO", "0 0 * * XYZ",
	"0 0 1 MON JAN", "0 0 1 MON *", "0 0 * * JAN", "0 0 FRI * *", "0 MON * * *", "0 0 15 * FRI#L",
	"0 0 L-3 * *", "0 0 5L * *", "0 0 * * L", "0 0 * * LW", "0 0 * * 15W", "0 L * * *", "0 0 1 L *", "0 0 1-5W * *", "0 0 W * *", "0 0 WL * *", "0 0 32W * *",
	"0 0 * * 8L", "0 0 * * 1-5L", "0 0 MON#2 * *", "0 0 * * MON#6", "0 0 * * MON#0", "0 0 * * MON#", "0 0 * * #2", "0 0 * * 8#1", "0 0 * * 1#2#3", "0 5#2 * * *",
	"0 0 31 2 *", "0 0 30 FEB *", "0 0 31 4,6,9,11 *", "0 0 30W 2 *",
	"H * * * *", "H/15 * * * *", "0 3 * * * /usr/bin/backup", "0 3 * * * root /usr/bin/backup", "*/5 * * * * curl -s x",
	"0 0 12 * * ? *", "0 0 12 * * ? 2026", "0 0 12 ? * 2-6 *", "cron(0 12 * * ? *)", "cron(0 12 ? * 2-6 *)", "cron(0 12 * *)", "rate(5 minutes)", "rate(1 day)",
	`"0 3 * * *"`, "'0 3 * * *'", "0 3 * * *\u00a0", "0\u00a03 * * *", "0 9–17 * * *", "∗/5 * * * *", "0 3 * * *\n0 4 * * *", "0 3 * * \x1b[31m", "0 3 * * \xff", "0 3 * * \x00", "日 * * * *", "0 3 * * *;",
	"@dayly", "@Daily", "@reboot", "@", "@every", "@every 5", "@every 5 minutes", "@every 1d", "@every day", "@every 500ms", "@every 1.5s", "@every 1.9h1ms", "@every -1h", "@every 0s", "@every +1h", "@every 1h 30m", "@every x", "@every 9999999999h", "@daily 3", "@fortnightly", "daily", "hourly",
	"CRON_TZ=Europe/Paris", "TZ=UTC", "TZ= 0 3 * * *", "TZ=Europe/Pariss 0 3 * * *", "CRON_TZ=Local 0 3 * * *", "CRON_TZ=UTC 0 3 32 * *", "TZ=UTC TZ=UTC * * * * *", "tz=UTC 0 3 * * *",
	strings.Repeat("1,", 128) + "1 * * * *", strings.Repeat("*", 300), strings.Repeat("日", 50) + " * * * *", strings.Repeat("1,", 100) + "x * * * *",
}

var badZones = []string{
	"Local", "local", "localtime", "Europe/Pariss", "europe/paris", "Paris", "New York", "America/NewYork", "Asia/Calcuta", "CETT", "CEST", "PST", "EDT", "IST", "BST", "Z",
	"+02:00", "UTC+2", "GMT-5", "+05:30", "UTC+99", "utc", "Utc", "gmt", "Europe", "Europe/", "/etc/passwd", "../etc/passwd", "Europe/../Europe/Paris", "posix/Europe/Paris", "right/UTC", "posixrules", "Factory", "zone.tab",
	"Mars/Phobos", " UTC", "UTC ", "Europe/Paris\x00", "\x1b[31m", "TZ=UTC", "<+02>-2", strings.Repeat("A", 65), strings.Repeat("Europe/", 100), "日本",
}

// TestBadExpressions holds every word that a person reads.
func TestBadExpressions(t *testing.T) {
	var b strings.Builder
	show := func(expr, zone string) {
		s, err := Parse(expr, zone)
		var e *job.Error
		var f *Fault
		if !errors.As(err, &e) || !errors.As(err, &f) || e.Kind != job.Invalid || s != (Spec{}) {
			t.Fatalf("%q in %q: got %v, %v", expr, zone, s, err)
		}
		checkFault(t, f, e, expr, zone)
		fmt.Fprintf(&b, "%q", expr)
		if zone != "" {
			fmt.Fprintf(&b, " in %q", zone)
		}
		fmt.Fprintf(&b, "\nerror: %s\n", f.Report())
		fmt.Fprintf(&b, "position %v, length %v\n\n", e.Details["position"], e.Details["length"])
	}
	for _, expr := range bad {
		show(expr, "")
	}
	for _, zone := range badZones {
		show("0 3 * * *", zone)
	}
	show("TZ=UTC 0 3 * * *", "Europe/Paris")
	golden(t, "testdata/faults.golden", b.String())
}

func checkFault(t *testing.T, f *Fault, e *job.Error, expr, zone string) {
	t.Helper()
	text := map[string]string{"expression": expr, "timezone": zone}[f.Field]
	if f.Text != text || e.Details["field"] != f.Field || e.Message != f.Error() {
		t.Errorf("%q in %q: got %+v, %+v", expr, zone, f, e)
	}
	if f.Position < 0 || f.Length < 1 || f.Position > len(text) || f.Position+f.Length > max(len(text), f.Position+1) {
		t.Errorf("%q in %q: the fault is at %d, %d", expr, zone, f.Position, f.Length)
	}
	for _, c := range f.Report() {
		if c != '\n' && c < ' ' || c == 0x7f {
			t.Errorf("%q in %q: the report has %q", expr, zone, c)
		}
	}
	if f.Suggestion == "" {
		return
	}
	if expr, zone = f.Suggestion, ""; f.Field == "timezone" {
		expr, zone = "* * * * *", f.Suggestion
	}
	if _, err := Parse(expr, zone); err != nil {
		t.Errorf("the suggestion %q is refused too: %v", f.Suggestion, err)
	}
}

// TestWarnings holds what is said of expressions that are right and may be not meant.
func TestWarnings(t *testing.T) {
	from := time.Date(2026, 1, 15, 0, 0, 0, 0, time.UTC)
	var b strings.Builder
	for _, x := range [][2]string{
		{"* * * * *"}, {"0 3 * * *"}, {"*/5 * * * *"}, {"@daily"}, {"@every 1h"}, {"0 0 1-31 * *"}, {"0 9 * * 1-5", "Europe/Berlin"}, {"0 */6 * * *"}, {"*/10 8-18/2 * * *"},
		{"* 3 * * *"}, {"* 0 * * *"}, {"* 9-17 * * MON"}, {"* * 1 * *"}, {"* * * * SUN"}, {"* 30 3 * * *"}, {"* * 3 * * *"}, {"0 * 3 * * *"}, {"* * * * * *"},
		{"0 0 13 * 5"}, {"0 0 */2 * 1"}, {"0 0 1-31 * MON"},
		{"0 0 31 * *"}, {"0 0 30 * *"}, {"0 0 29 * *"}, {"0 0 29 2 *"}, {"0 0 29 2,3 *"}, {"0 0 31 1,2 *"}, {"0 0 31W * *"}, {"0 0 31 JAN *"}, {"0 0 15,31 * *"}, {"0 0 * * FRI#5"},
		{"*/7 * * * *"}, {"0 */5 * * *"}, {"5/20 * * * *"}, {"40/20 * * * *"}, {"*/45 * * * *"}, {"*/60 * * * *"}, {"0 */24 * * *"}, {"0 0 */2 * *"}, {"0 0 1 */5 *"}, {"0 0 * * */2"}, {"10-20/11 * * * *"},
		{"30 2 * * *", "Europe/Berlin"}, {"30 2 * * *", "America/New_York"}, {"0 0 * * *", "America/Santiago"}, {"15 2 * * *", "Australia/Lord_Howe"}, {"30 * * * *", "Europe/Berlin"}, {"30 1 * * *", "Europe/Dublin"},
		{"30 2 * 3 7L", "Europe/Berlin"}, {"30 2 * * *", "Asia/Tokyo"}, {"CRON_TZ=Europe/Berlin * 2 * * *"}, {"0 12 * * ? *"},
	} {
		s, err := Parse(x[0], x[1])
		if err != nil {
			t.Fatalf("%q in %q: %v", x[0], x[1], err)
		}
		fmt.Fprintf(&b, "%s  %s\n", x[0], x[1])
		for _, w := range s.Warnings(from) {
			fmt.Fprintf(&b, "  %s: %s\n", w.Code, w.Message)
		}
	}
	golden(t, "testdata/warnings.golden", b.String())
}
