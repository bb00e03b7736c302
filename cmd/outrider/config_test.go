package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/internal/netguard"
	"github.com/outrider-jobs/outrider/internal/wording"
	"github.com/outrider-jobs/outrider/outbox"
	"github.com/outrider-jobs/outrider/sidecar"
)

// configured reads a serve configuration from args and environ.
func configured(t *testing.T, environ []string, args ...string) (config, error) {
	t.Helper()
	a := &app{env: environment(environ)}
	cmd := a.serveCommand()
	var c config
	var err error
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err = a.configure(cmd)
		return nil
	}
	cmd.SetArgs(append([]string{}, args...))
	if e := cmd.ExecuteContext(t.Context()); e != nil {
		t.Fatal(e)
	}
	return c, err
}

func TestDefaults(t *testing.T) {
	c, err := configured(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.listen != (netguard.Address{Network: "tcp", Where: "127.0.0.1:8080"}) || c.db != "./outrider.db" || c.grace != 30*time.Second ||
		c.logLevel != slog.LevelInfo || c.logFormat != "text" || c.table != sqlite.DefaultTable || c.outboxes != nil || c.hosts != nil ||
		c.timeout != 30*time.Minute || c.silence != 45*time.Second || c.testDirectives ||
		c.backtraces != sidecar.KeepBacktraces || c.notified || c.pokeSocket != "" || !reflect.DeepEqual(c.relay, outbox.RelayOptions{Release: outbox.OnRelay, Lease: time.Minute}) {
		t.Errorf("got %+v", c)
	}
}

// A script passes on a variable that may not be set.
func TestAnEmptyDurationIsTheRelaysOwn(t *testing.T) {
	c, err := configured(t, nil, "--outbox-lease=", "--outbox-keep=", "--outbox-poll-busy=", "--outbox-poll-idle=")
	if err != nil || !reflect.DeepEqual(c.relay, outbox.RelayOptions{Release: outbox.OnRelay}) {
		t.Errorf("got %+v, %v", c.relay, err)
	}
}

func TestFlagBeatsEnvironmentBeatsDefault(t *testing.T) {
	env := []string{"OUTRIDER_DB=env.db", "OUTRIDER_SHUTDOWN_GRACE=7s", "OUTRIDER_LISTEN=127.0.0.1:1", "OUTRIDER_HOST=a,b",
		"OUTRIDER_OUTBOX=sqlite:one.db,sqlite:two.db", "OUTRIDER_LOG_LEVEL="}
	c, err := configured(t, env, "--db", "flag.db", "--host", "c", "--listen", "localhost:2")
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(c.db, c.grace, c.listen.Where, c.hosts, c.outboxes, c.logLevel)
	want := "flag.db7s127.0.0.1:2[c][sqlite:one.db sqlite:two.db]INFO"
	if strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestMistakes holds what the program says of mistakes, word for word.
func TestMistakes(t *testing.T) {
	var b strings.Builder
	for _, m := range []struct{ env, args string }{
		{"", "serv"},
		{"", "frobnicate"},
		{"", "outbox chek"},
		{"", "serve --lisen 127.0.0.1:0"},
		{"", "serve --frobnicate"},
		{"", "serve -x"},
		{"", "serve --listen"},
		{"", "serve now"},
		{"", "serve --listen 8080"},
		{"", "serve --listen 127.0.0.1:http"},
		{"", "serve --listen 127.0.0.1:65536"},
		{"", "serve --listen 0.0.0.0:8080"},
		{"", "serve --listen :8080"},
		{"", "serve --listen [::]:8080"},
		{"", "serve --listen 0:8080"},
		{"", "serve --listen example.com:8080"},
		{"", "serve --listen 192.168.1.7:8080"},
		{"", "serve --listen unix://run/outrider.sock"},
		{"", "serve --listen unix:///" + strings.Repeat("long/", 20) + "sock"},
		{"", "serve --shutdown-grace 30"},
		{"", "serve --shutdown-grace -1s"},
		{"", "serve --default-timeout -1s"},
		{"", "serve --default-timeout 1800"},
		{"", "serve --heartbeat-timeout 14s"},
		{"", "serve --heartbeat-timeout 9h"},
		{"OUTRIDER_TEST_DIRECTIVES=maybe", "serve"},
		{"", "serve --test-directives=maybe"},
		{"", "serve --accept-damage=maybe"},
		{"", "serve --outbox sqlite:a.db --outbox-release on_complete --outbox-keep 24h"},
		{"", "serve --log-level loud"},
		{"", "serve --log-format xml"},
		{"", "serve --outbox shop.db"},
		{"", "serve --outbox sqlite:"},
		{"", "serve --outbox oracle://ada:secret@db/shop"},
		{"", "serve --outbox postgres://ada:secret@db:port/shop"},
		{"", "serve --outbox mysql://ada:secret@db"},
		{"", "serve --outbox-release at_once"},
		{"", "serve --outbox-lease 5"},
		{"", "serve --outbox-lease 10ms"},
		{"", "serve --outbox-keep -1s"},
		{"", "serve --outbox-batch 0"},
		{"", "serve --outbox-wake notify"},
		{"", "serve --outbox-poll-idle soon"},
		{"", "serve --outbox-poke-socket /" + strings.Repeat("long/", 20) + "sock"},
		{"", "serve --cron-coordination leader"},
		{"", "serve --cron-coordination outbox"},
		{"", "serve --cron-coordination outbox --outbox sqlite:a.db --outbox sqlite:b.db"},
		{"", "serve --cron-flie crons.yaml"},
		{"", "relay"},
		{"", "relay --outbox sqlite:shop.db --to 127.0.0.1:8080"},
		{"", "relay --outbox sqlite:shop.db --outbox-release on_complete"},
		{"OUTRIDER_LISTEN=0.0.0.0:1", "serve"},
		{"OUTRIDER_LISTN=127.0.0.1:1", "serve now"},
		{"OUTRIDER_SOMETHING_ELSE=1", "serve now"},
		{"", "outbox check"},
		{"", "outbox init shop.db"},
		{"", "outbox init sqlite:shop.db --wake listen"},
		{"", "outbox sql --db oracle"},
		{"", "outbox sql --db mysql --function"},
		{"", "outbox sql --db postgres --table a.b"},
		{"", "outbox sql --db postgres --wake always"},
		{"", "outbox replay sqlite:shop.db"},
		{"", "outbox replay sqlite:shop.db 1 --all"},
		{"", "outbox replay sqlite:shop.db one"},
		{"", "outbox ls sqlite:shop.db --limit 0"},
		{"", "outbox status sqlite:shop.db -o xml"},
		{"OUTRIDER_OUTBOX=sqlite:a.db,sqlite:b.db", "outbox discard 1"},
		{"", "outbox check sqlite:missing.db"},
		{"", "bench --workload pusch"},
		{"", "bench --concurrency 0"},
		{"", "bench --duration soon"},
		{"", "bench --workload outbox --url http://127.0.0.1:8080"},
		{"", "bench --url 127.0.0.1:8080"},
		{"", "bench -o xml"},
		{"", "bench --concurrency 1,many"},
		{"", "bench --concurrency 1,2000"},
		{"", "bench --rate 0"},
		{"", "bench --rate 100 --workload pickup"},
		{"", "bench --beside 0"},
		{"", "bench --beside 1000,1000"},
		{"", "bench --beside 1000 --beside-state pending"},
		{"", "bench --beside-state completed"},
		{"", "bench --beside 1000 --workload cron"},
		{"", "work"},
		{"", "work now"},
		{"", "work --exec a.b=true now"},
		{"", "work --exec a.b"},
		{"", "work --exec A=true"},
		{"", "work --exec a.b=./no-such.sh --http a.b=http://h"},
		{"", "work --exec a.b=no-such-program-at-all"},
		{"", "work --http a.b=http://u:hunter2@h/"},
		{"", "work --http a.b=127.0.0.1:9000"},
		{"", "work --exec a.b=true --queue Mail"},
		{"", "work --exec a.b=true --concurrency 0"},
		{"", "work --exec a.b=true --concurrency many"},
		{"", "work --exec a.b=true --input all"},
		{"", "work --exec a.b=true --grace 25"},
		{"", "work --exec a.b=true --grace -1s"},
		{"", "work --exec a.b=true --secret-file none.txt"},
		{"", "work --exec a.b=true --ulr http://127.0.0.1:8080"},
		{"OUTRIDER_WORK_SECRET=x OUTRIDER_WORK_SECRET_FILE=y", "work --exec a.b=true"},
		{"", "bench --compare 127.0.0.1:8080"},
		{"", "bench --compare http://127.0.0.1:8080 --workload inprocess"},
		{"", "bench --compare http://127.0.0.1:8080 --baseline"},
		{"", "bench --compare http://127.0.0.1:8080 --beside 1000"},
		{"", "bench --compare http://127.0.0.1:8080 --profile profiles"},
		{"", "bench --url http://127.0.0.1:8080 --profile profiles"},
	} {
		var env []string
		if m.env != "" {
			env = strings.Fields(m.env)
			fmt.Fprintf(&b, "$ %s outrider %s\n", m.env, m.args)
		} else {
			fmt.Fprintf(&b, "$ outrider %s\n", m.args)
		}
		o := try(t, env, strings.Fields(m.args)...)
		fmt.Fprintf(&b, "%s%sexit %d\n\n", o.stdout, o.stderr, o.code)
	}
	golden(t, "testdata/mistakes.golden", b.String())
}

// golden compares got with a file that -update rewrites.
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

func TestMistakesAreOneLine(t *testing.T) {
	for _, args := range []string{"serv", "serve --lisen x", "serve --listen 0.0.0.0:1", "outbox sqll", "bench --jobs x"} {
		o := try(t, nil, strings.Fields(args)...)
		if o.code != exitUsage || o.stdout != "" || strings.Count(o.stderr, "\n") != 1 {
			t.Errorf("%s: got exit %d, stdout %q, stderr %q", args, o.code, o.stdout, o.stderr)
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"serve", "outbox", "bench", "version"}
	for word, want := range map[string]string{"serv": "serve", "srve": "serve", "Bench": "bench", "versoin": "version",
		"x": "", "": "", "unrelated": ""} {
		if got := wording.Nearest(word, words); got != want {
			t.Errorf("Nearest(%q): got %q, want %q", word, got, want)
		}
	}
}

func TestVersionAndHelp(t *testing.T) {
	if o := try(t, nil, "version"); o.code != exitOK || !strings.HasPrefix(o.stdout, "outrider ") {
		t.Errorf("version: %+v", o)
	}
	for _, args := range [][]string{{}, {"--help"}, {"outbox"}, {"serve", "--help"}, {"cron"}, {"cron", "apply", "--help"}} {
		if o := try(t, nil, args...); o.code != exitOK || !strings.Contains(o.stdout, "Usage:") || o.stderr != "" {
			t.Errorf("%v: %+v", args, o)
		}
	}
	if o := try(t, nil, "outbox", "sql"); o.code != exitOK || !strings.Contains(o.stdout, "CREATE TABLE") {
		t.Errorf("outbox sql: %+v", o)
	}
}

func TestRulesOfJobs(t *testing.T) {
	c, err := configured(t, nil)
	if err != nil || c.rules.Releases != 100 || c.rules.OnExhaustion != "" || c.rules.OnExhaustionOf != nil {
		t.Errorf("by default %+v, %v", c.rules, err)
	}
	for _, how := range []struct{ env, args []string }{
		{nil, []string{"--max-requeues", "0", "--on-exhaustion", "dead_letter", "--on-exhaustion", "logs=discard"}},
		{[]string{"OUTRIDER_MAX_REQUEUES=0", "OUTRIDER_ON_EXHAUSTION=dead_letter,logs=discard"}, nil},
	} {
		c, err := configured(t, how.env, how.args...)
		if err != nil || c.rules.Releases != -1 || c.rules.OnExhaustion != "dead_letter" || c.rules.OnExhaustionOf["logs"] != "discard" {
			t.Errorf("%v: %+v, %v", how, c.rules, err)
		}
	}
	for _, bad := range [][]string{{"--max-requeues", "-1"}, {"--max-requeues", "many"}, {"--on-exhaustion", "dead-letter"}, {"--on-exhaustion", "mail"},
		{"--on-exhaustion", "Mail=discard"}, {"--on-exhaustion", "=discard"}, {"--on-exhaustion", "mail=bury"}} {
		if _, err := configured(t, nil, bad...); err == nil || !strings.Contains(err.Error(), bad[0]) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestBacktraces(t *testing.T) {
	for _, tt := range []struct {
		env, args string
		want      sidecar.Backtraces
	}{{"", "--backtraces=omit", sidecar.OmitBacktraces}, {"omit", "", sidecar.OmitBacktraces}, {"omit", "--backtraces=keep", sidecar.KeepBacktraces}} {
		c, err := configured(t, []string{"OUTRIDER_BACKTRACES=" + tt.env}, strings.Fields(tt.args)...)
		if err != nil || c.backtraces != tt.want {
			t.Errorf("%q %q: %q, %v", tt.env, tt.args, c.backtraces, err)
		}
	}
	if _, err := configured(t, nil, "--backtraces", "redact"); err == nil {
		t.Error("redact was taken")
	}
}

func TestTimesOfWorkersAreSettings(t *testing.T) {
	for _, tt := range []struct {
		env, args        []string
		timeout, silence time.Duration
		directives       bool
	}{
		{nil, []string{"--default-timeout=2h", "--heartbeat-timeout=15s", "--test-directives"}, 2 * time.Hour, 15 * time.Second, true},
		{[]string{"OUTRIDER_DEFAULT_TIMEOUT=0", "OUTRIDER_HEARTBEAT_TIMEOUT=8h", "OUTRIDER_TEST_DIRECTIVES=true"}, nil, -1, 8 * time.Hour, true},
		{[]string{"OUTRIDER_DEFAULT_TIMEOUT=0", "OUTRIDER_TEST_DIRECTIVES=true"}, []string{"--default-timeout=1s", "--test-directives=false"}, time.Second, 45 * time.Second, false},
	} {
		c, err := configured(t, tt.env, tt.args...)
		if err != nil || c.timeout != tt.timeout || c.silence != tt.silence || c.testDirectives != tt.directives {
			t.Errorf("%q %q: %v, %v, %v, %v", tt.env, tt.args, c.timeout, c.silence, c.testDirectives, err)
		}
	}
}

// TestDamageIsAcceptedWhereThatIsSaid, and nowhere else.
func TestDamageIsAcceptedWhereThatIsSaid(t *testing.T) {
	for _, tt := range []struct {
		env, args []string
		want      bool
	}{
		{nil, nil, false},
		{nil, []string{"--accept-damage"}, true},
		{[]string{"OUTRIDER_ACCEPT_DAMAGE=true"}, nil, true},
		{[]string{"OUTRIDER_ACCEPT_DAMAGE=true"}, []string{"--accept-damage=false"}, false},
	} {
		if c, err := configured(t, tt.env, tt.args...); err != nil || c.acceptDamage != tt.want {
			t.Errorf("%q %q: %v, %v", tt.env, tt.args, c.acceptDamage, err)
		}
	}
}

// TestTestDirectivesAreTold: nobody has them on without knowing.
func TestTestDirectivesAreTold(t *testing.T) {
	for _, on := range []bool{false, true} {
		s := sit(t, nil, "serve", "--listen", "127.0.0.1:0", "--db", tempDB(t), fmt.Sprintf("--test-directives=%v", on))
		readyURL(t, s.stdout)
		s.stop()
		if said := strings.Contains(s.stderr.rest(), "test_directive"); said != on {
			t.Errorf("%v: warned %v", on, said)
		}
	}
}

// What an operator may see of the settings: each with where it comes from, and no secret.
func TestSettingsAreTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(file, []byte("mysql://ada:"+canary+"@db.test/shop\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, env := range [][]string{{"OUTRIDER_OUTBOX=mysql://ada:" + canary + "@db.test/shop"}, {"OUTRIDER_OUTBOX_FILE=" + file}} {
		c, err := configured(t, append(env, "OUTRIDER_HOST=a.test,b.test"), "--shutdown-grace", "9s")
		if err != nil {
			t.Fatal(err)
		}
		told := map[string]string{}
		for _, s := range c.told {
			told[s.Name] = s.Origin + " " + strings.Join(s.Value, ",")
		}
		origin, _, _ := strings.Cut(env[0], "=")
		for name, want := range map[string]string{"host": "OUTRIDER_HOST a.test,b.test", "shutdown_grace": "--shutdown-grace 9s", "log_level": "default info",
			"cron_file": "default ", "on_exhaustion": "default ", "outbox": origin + " mysql://ada:***@db.test:3306/shop"} {
			if told[name] != want {
				t.Errorf("%s: %q, want %q", name, told[name], want)
			}
		}
		if s := fmt.Sprint(told); strings.Contains(s, canary) {
			t.Errorf("a secret is told: %s", s)
		}
	}
}
