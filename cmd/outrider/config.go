package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/internal/appdb"
	"github.com/outrider-jobs/outrider/internal/netguard"
	"github.com/outrider-jobs/outrider/internal/wording"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
	"github.com/outrider-jobs/outrider/sidecar"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
	"github.com/outrider-jobs/outrider/sidecar/webhooks"
)

// config is what serve, the outbox commands and those that ask a server are told.
type config struct {
	listen     netguard.Address
	db         string
	outboxes   []appdb.DSN
	table      string
	relay      outbox.RelayOptions // what is zero is left to the relay
	notified   bool                // by PostgreSQL, of commits
	pokeSocket string              // a path, or empty
	hosts      []string
	logLevel   slog.Level
	logFormat  string
	grace      time.Duration

	backtraces sidecar.Backtraces
	rules      job.Rules
	timeout    time.Duration // of jobs that name none; negative is none
	silence    time.Duration // that ends a worker

	acceptDamage bool // go on without what is lost from the database

	memoryLimit int64 // of the process, in bytes
	bodies      int64 // of it, for those of requests and answers; worked out at the start
	connections int   // at once

	testDirectives bool // for conformance suites only

	cronFile string    // of schedules, or empty
	cronWith string    // coordination of schedules: "none" or "outbox"
	out      io.Writer // for what a file of schedules changes; nil is nowhere

	tokenFile   string // of roles; for commands that ask, of the token that they send
	token       string // that commands send, where it is not in a file
	tlsCert     string // file
	tlsKey      string // file
	allowRemote bool   // without TLS
	origins     []string
	queryToken  bool

	told     []httpapi.Setting // all of these, as an operator may see them
	allowed  []string          // where events may be sent to webhooks
	webhooks webhooks.Allowed  // the same

	url      string        // of a running server, for the commands that ask one
	patience time.Duration // with one answer of it; 0 is the client's own
	to       string        // the job server of a relay that runs alone
}

// relaySettings are the flags of a command that relays.
var relaySettings = []string{"outbox", "outbox-table", "outbox-release", "outbox-lease", "outbox-keep",
	"outbox-poll-busy", "outbox-poll-idle", "outbox-batch", "outbox-wake", "outbox-poke-socket"}

// setting is one thing that can be told: by a flag, else by a variable of the
// environment or by the file that the variable with _FILE behind its name names,
// else by the file of settings, else by its default.
type setting struct {
	flag, env, standard string
	list                bool // may be given more than once; commas part the values of the variable, those of DSNs only in front of another DSN
	secret              bool // may hold a password, so no message repeats it
	help                string
	set                 func(*config, string) error
}

// settings is all the configuration there is.
var settings = []setting{
	{"listen", "OUTRIDER_LISTEN", "127.0.0.1:8080", false, false,
		"address to serve on (port 0 picks one), or unix:///path; one that other machines reach needs --token-file, and --tls-cert or --allow-remote",
		func(c *config, v string) (err error) { c.listen, err = netguard.ParseAddress(v); return err }},
	{"db", "OUTRIDER_DB", "./outrider.db", false, false,
		"file that stores the jobs",
		setDB},
	{"outbox", "OUTRIDER_OUTBOX", "", true, true,
		"database whose outbox table is relayed: sqlite:FILE, postgres://user:password@host/name, mysql://… or mariadb://…; may be repeated",
		func(c *config, v string) error {
			d, err := appdb.ParseDSN(v)
			c.outboxes = append(c.outboxes, d)
			return err
		}},
	{"outbox-table", "OUTRIDER_OUTBOX_TABLE", sqlite.DefaultTable, false, false,
		"name of the outbox table",
		func(c *config, v string) error { c.table = v; return nil }},
	{"outbox-release", "OUTRIDER_OUTBOX_RELEASE", "on_relay", false, false,
		"when an outbox row is deleted: on_relay, when its job is on this server's disk, or on_complete, when the job has ended, for a disk that may be lost",
		setWord(func(c *config, v string) { c.relay.Release = outbox.Release(v) }, string(outbox.OnRelay), string(outbox.OnComplete))},
	{"outbox-lease", "OUTRIDER_OUTBOX_LEASE", "60s", false, false,
		"how long a silent job server is presumed alive before others relay its rows",
		setDuration(time.Second, func(c *config) *time.Duration { return &c.relay.Lease })},
	{"outbox-keep", "OUTRIDER_OUTBOX_KEEP", "0s", false, false,
		"how long rows are kept after they were sent, with on_relay; 0s deletes them at once",
		setDuration(0, func(c *config) *time.Duration { return &c.relay.Keep })},
	{"outbox-poll-busy", "OUTRIDER_OUTBOX_POLL_BUSY", "", false, false,
		"shortest polling interval of the outbox; empty: 2ms for SQLite, otherwise 20ms",
		setDuration(time.Millisecond, func(c *config) *time.Duration { return &c.relay.Busy })},
	{"outbox-poll-idle", "OUTRIDER_OUTBOX_POLL_IDLE", "", false, false,
		"longest polling interval of the outbox; empty: 40ms for SQLite, otherwise 1s",
		setDuration(time.Millisecond, func(c *config) *time.Duration { return &c.relay.Idle })},
	{"outbox-batch", "OUTRIDER_OUTBOX_BATCH", "", false, false,
		"maximum number of rows relayed together; empty: 200 for SQLite, otherwise 500",
		setNumber(1, job.MaxBatch, func(c *config) *int { return &c.relay.Batch })},
	{"outbox-wake", "OUTRIDER_OUTBOX_WAKE", "poll", false, false,
		"poll, or listen to be notified of commits by PostgreSQL as well (outrider outbox init --wake listen)",
		setWord(func(c *config, v string) { c.notified = v == "listen" }, "poll", "listen")},
	{"outbox-poke-socket", "OUTRIDER_OUTBOX_POKE_SOCKET", "", false, false,
		"Unix stream socket; one byte on it tells the relays that there are rows",
		setPokeSocket},
	{"host", "OUTRIDER_HOST", "", true, false,
		"host name that requests may use besides the loopback names; may be repeated",
		func(c *config, v string) error { c.hosts = append(c.hosts, v); return nil }},
	{"token-file", "OUTRIDER_TOKEN_FILE", "", false, false,
		"file of tokens and their roles: who may ask what (see outrider token --help); read again on SIGHUP",
		func(c *config, v string) error { c.tokenFile = v; return nil }},
	{"tls-cert", "OUTRIDER_TLS_CERT", "", false, false,
		"file with the certificates to serve https with, the server's own first; read again on SIGHUP",
		func(c *config, v string) error { c.tlsCert = v; return nil }},
	{"tls-key", "OUTRIDER_TLS_KEY", "", false, false,
		"file with the private key of --tls-cert",
		func(c *config, v string) error { c.tlsKey = v; return nil }},
	{"allow-remote", "OUTRIDER_ALLOW_REMOTE", "false", false, false,
		"let other machines reach the server without TLS: whoever can listen on the way reads jobs and tokens",
		setBool(func(c *config) *bool { return &c.allowRemote })},
	{"allow-origin", "OUTRIDER_ALLOW_ORIGIN", "", true, false,
		"origin of web pages that may use the server, such as https://dashboard.example; may be repeated",
		setOrigin},
	{"allow-query-token", "OUTRIDER_ALLOW_QUERY_TOKEN", "false", false, false,
		"take the token of a stream also from its query (?token=…), for browsers, which can set no header there",
		setBool(func(c *config) *bool { return &c.queryToken })},
	{"log-level", "OUTRIDER_LOG_LEVEL", "info", false, false,
		"lowest level to log: debug, info, warn or error",
		setLogLevel},
	{"log-format", "OUTRIDER_LOG_FORMAT", "text", false, false,
		"text or json",
		setWord(func(c *config, v string) { c.logFormat = v }, "text", "json")},
	{"shutdown-grace", "OUTRIDER_SHUTDOWN_GRACE", "30s", false, false,
		"how long a stop waits for running jobs",
		setGrace},
	{"default-timeout", "OUTRIDER_DEFAULT_TIMEOUT", "30m", false, false,
		"how long a job without a timeout may run; 0 means no limit",
		setTimeout},
	{"heartbeat-timeout", "OUTRIDER_HEARTBEAT_TIMEOUT", "45s", false, false,
		"how long a worker that has sent a heartbeat may be silent before its jobs go to others; 15s to 8h (workers send one every 5s)",
		setSilence},
	{"backtraces", "OUTRIDER_BACKTRACES", "keep", false, false,
		"keep the backtraces that workers report, or omit them: neither store nor show them",
		setWord(func(c *config, v string) { c.backtraces = sidecar.Backtraces(v) }, string(sidecar.KeepBacktraces), string(sidecar.OmitBacktraces))},
	{"on-exhaustion", "OUTRIDER_ON_EXHAUSTION", "", true, false,
		"what happens to a job that has failed for good, if its retry policy does not say: discard (the default) or dead_letter; QUEUE=dead_letter sets it for one queue; may be repeated",
		setExhaustion},
	{"max-requeues", "OUTRIDER_MAX_REQUEUES", strconv.Itoa(job.DefaultReleases), false, false,
		"how often workers may give a job back untouched before that counts as a failure; 0 means never",
		setRequeues},
	{"cron-file", "OUTRIDER_CRON_FILE", "", false, false,
		"file of schedules in YAML or JSON, applied at the start and on SIGHUP; see outrider cron apply --help",
		func(c *config, v string) error { c.cronFile = v; return nil }},
	{"cron-coordination", "OUTRIDER_CRON_COORDINATION", withNone, false, false,
		"none, or outbox if several servers share one --outbox and its schedules: together they make one job of each tick",
		setWord(func(c *config, v string) { c.cronWith = v }, withNone, withOutbox)},
	{"accept-damage", "OUTRIDER_ACCEPT_DAMAGE", "false", false, false,
		"start although acknowledged jobs are lost from --db; its files are copied first; use it for one start only",
		setBool(func(c *config) *bool { return &c.acceptDamage })},
	{"memory-limit", "OUTRIDER_MEMORY_LIMIT", "256MB", false, false,
		"how much memory the server may use, 64MB or more; large bodies beyond it get a 503. If a control group leaves less, that counts",
		setMemoryLimit},
	{"max-connections", "OUTRIDER_MAX_CONNECTIONS", "1024", false, false,
		"maximum number of connections, from 8 to 65536; a worker that waits in a FETCH uses one",
		setNumber(netguard.LeastConnections, 1<<16, func(c *config) *int { return &c.connections })},
	{"allow-webhook", "OUTRIDER_ALLOW_WEBHOOK", "", true, false,
		"where events may be sent to webhooks: public for all public addresses, an address, a network such as 10.1.2.0/24, or a host name; may be repeated; without it nothing is sent",
		setWebhookTarget},
	{"test-directives", "OUTRIDER_TEST_DIRECTIVES", "false", false, false,
		"obey the test_directive in the meta of jobs, for conformance suites only",
		setBool(func(c *config) *bool { return &c.testDirectives })},
	{"url", "OUTRIDER_URL", "http://127.0.0.1:8080", false, true,
		"address of the running server: http://host:port or unix:///path",
		setServer(func(c *config) *string { return &c.url })},
	{"to", "OUTRIDER_RELAY_TO", "http://127.0.0.1:8080", false, true,
		"job server to relay to: http://host:port or unix:///path",
		setServer(func(c *config) *string { return &c.to })},
}

// name is what the setting is called in a file of settings, and by the server.
func (s setting) name() string { return strings.ReplaceAll(s.flag, "-", "_") }

// bind gives cmd the flags of the named settings.
func bind(cmd *cobra.Command, names ...string) {
	bindConfig(cmd.Flags())
	for _, s := range settings {
		help := s.help + " [" + s.env + "]"
		if s.secret {
			help = s.help + " [" + s.env + " or, from a file, " + s.env + "_FILE]"
		}
		if s.flag == "token-file" && !slices.Contains(names, "listen") {
			help = "file with the token to send, unless " + tokenVariable + " has one [" + s.env + "]"
		}
		switch {
		case !slices.Contains(names, s.flag):
		case s.list:
			cmd.Flags().StringArray(s.flag, nil, help)
		case s.standard == "false":
			cmd.Flags().Bool(s.flag, false, help)
		default:
			cmd.Flags().String(s.flag, s.standard, help)
		}
	}
}

// configure reads the settings that cmd is bound to: flag, then environment, a
// variable or a file that one names, then the file of settings, then default. The
// first mistake is the error.
func (a *app) configure(cmd *cobra.Command) (config, error) {
	c, wrong := a.readSettings(cmd)
	if len(wrong) > 0 {
		return c, wrong[0]
	}
	return c, c.coherent()
}

// readSettings reads the settings that cmd is bound to, and returns all mistakes.
func (a *app) readSettings(cmd *cobra.Command) (c config, wrong []error) {
	file, err := a.configFile(cmd.Flags())
	if err != nil {
		return c, []error{err}
	}
	for _, s := range settings {
		f := cmd.Flags().Lookup(s.flag)
		if f == nil {
			continue
		}
		g, err := s.given(f, a.env, file)
		if err == nil {
			c.told = append(c.told, s.told(g))
			err = s.apply(&c, g)
		}
		if err != nil {
			wrong = append(wrong, err)
		}
	}
	if f := cmd.Flags().Lookup("token-file"); f != nil && !f.Changed {
		if c.token, err = a.tokenGiven(); err != nil {
			wrong = append(wrong, err)
		}
	}
	return c, wrong
}

// apply sets what the setting is given.
func (s setting) apply(c *config, g given) error {
	for _, v := range g.values {
		if v == "" && s.standard == "" && !s.list {
			continue // it is left open
		}
		if !s.secret && appdb.MayHoldSecret(v) {
			return usage("%s must not contain a password, and seems to have one", g.origin)
		}
		if err := s.set(c, v); err != nil && g.quiet {
			return usage("%s %w", g.origin, err)
		} else if err != nil {
			return usage("%s %q: %w", g.origin, v, err)
		}
	}
	return nil
}

// told is what an operator may see of a setting. Where it may hold a password that is left
// out: of a database it is the address, of anything else nothing.
func (s setting) told(g given) httpapi.Setting {
	t := httpapi.Setting{Name: s.name(), List: s.list, Origin: cmp.Or(g.place, g.origin)}
	if g.standard || len(g.values) == 0 {
		t.Origin = "default"
	}
	for _, v := range g.values {
		if s.secret {
			v = withoutPassword(v)
		}
		if v != "" {
			t.Value = append(t.Value, v)
		}
	}
	return t
}

// withoutPassword is an address of a database or a server as anybody may see it.
func withoutPassword(v string) string {
	if d, err := appdb.ParseDSN(v); err == nil {
		return d.String()
	}
	if u, err := url.Parse(v); err == nil && u.User == nil && (u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "unix") {
		return u.Scheme + "://" + u.Host + u.Path
	}
	return "***"
}

func environment(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			env[name] = value
		}
	}
	return env
}

// warnOfNearMisses speaks of variables that look like a setting with a slip in its name.
func (a *app) warnOfNearMisses() {
	var given []string
	known := []string{configVariable, workSecret, workSecret + "_FILE"}
	for _, s := range settings {
		known = append(known, s.env, s.env+"_FILE")
	}
	for name := range a.env {
		if strings.HasPrefix(name, "OUTRIDER_") && !slices.Contains(known, name) {
			given = append(given, name)
		}
	}
	sort.Strings(given)
	for _, name := range given {
		if near := wording.Nearest(name, known); near != "" {
			fmt.Fprintf(a.stderr, "warning: %s is not a setting and is ignored; did you mean %s?\n", name, near)
		}
	}
}

// logger writes to w as the configuration says.
func (c config) logger(w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.logLevel}
	if c.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
