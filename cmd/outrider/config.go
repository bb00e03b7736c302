package main

import (
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/client"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
	"github.com/outrider-jobs/outrider/sidecar"
)

// config is what serve, the outbox commands and those that ask a server are told.
type config struct {
	listen    address
	db        string
	outboxes  []dsn
	table     string
	relay     relaying
	hosts     []string
	logLevel  slog.Level
	logFormat string
	grace     time.Duration

	backtraces sidecar.Backtraces

	cronFile string    // of schedules, or empty
	cronWith string    // coordination of schedules: "none" or "outbox"
	out      io.Writer // for what a file of schedules changes; nil is nowhere

	url string // of a running server, for the commands that ask one
	to  string // the job server of a relay that runs alone
}

// relaying is how outboxes are relayed. What is zero is left to the relay.
type relaying struct {
	release    outbox.Release
	lease      time.Duration
	keep       time.Duration
	busy, idle time.Duration
	batch      int
	listen     bool
	pokeSocket string // a path, or empty
}

// relaySettings are the flags of a command that relays.
var relaySettings = []string{"outbox", "outbox-table", "outbox-release", "outbox-lease", "outbox-keep",
	"outbox-poll-busy", "outbox-poll-idle", "outbox-batch", "outbox-wake", "outbox-poke-socket"}

// setting is one thing that can be told: by a flag, else by a variable of the
// environment, else by its default.
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
		"loopback address to serve on (port 0 picks one), or unix:///path",
		func(c *config, v string) (err error) { c.listen, err = parseAddress(v); return err }},
	{"db", "OUTRIDER_DB", "./outrider.db", false, false,
		"file that keeps the jobs",
		func(c *config, v string) error { c.db = v; return nil }},
	{"outbox", "OUTRIDER_OUTBOX", "", true, true,
		"database whose outbox table is relayed: sqlite:FILE, postgres://user:password@host/name or mysql://user:password@host/name; may be repeated",
		func(c *config, v string) error {
			d, err := parseDSN(v)
			c.outboxes = append(c.outboxes, d)
			return err
		}},
	{"outbox-table", "OUTRIDER_OUTBOX_TABLE", sqlite.DefaultTable, false, false,
		"name of the outbox table",
		func(c *config, v string) error { c.table = v; return nil }},
	{"outbox-release", "OUTRIDER_OUTBOX_RELEASE", "on_relay", false, false,
		"when a row of the outbox goes: on_relay, when its job is on this server's disk, or on_complete, when the job has ended, for a disk that may be lost",
		setRelease},
	{"outbox-lease", "OUTRIDER_OUTBOX_LEASE", "60s", false, false,
		"how long a silent job server is taken to live, before others relay its rows",
		setDuration(time.Second, func(c *config) *time.Duration { return &c.relay.lease })},
	{"outbox-keep", "OUTRIDER_OUTBOX_KEEP", "0s", false, false,
		"how long rows stay after they were sent, with on_relay; 0s deletes them at once",
		setDuration(0, func(c *config) *time.Duration { return &c.relay.keep })},
	{"outbox-poll-busy", "OUTRIDER_OUTBOX_POLL_BUSY", "", false, false,
		"shortest time between two looks at the outbox; empty: 2ms for SQLite, else 20ms",
		setDuration(time.Millisecond, func(c *config) *time.Duration { return &c.relay.busy })},
	{"outbox-poll-idle", "OUTRIDER_OUTBOX_POLL_IDLE", "", false, false,
		"longest time between two looks at the outbox; empty: 40ms for SQLite, else 1s",
		setDuration(time.Millisecond, func(c *config) *time.Duration { return &c.relay.idle })},
	{"outbox-batch", "OUTRIDER_OUTBOX_BATCH", "", false, false,
		"rows that are relayed together at most; empty: 200 for SQLite, else 500",
		setBatch},
	{"outbox-wake", "OUTRIDER_OUTBOX_WAKE", "poll", false, false,
		"poll, or listen to be told of commits by PostgreSQL besides (outrider outbox init --wake listen)",
		setWake},
	{"outbox-poke-socket", "OUTRIDER_OUTBOX_POKE_SOCKET", "", false, false,
		"Unix stream socket on which a byte tells the relays that there are rows",
		setPokeSocket},
	{"host", "OUTRIDER_HOST", "", true, false,
		"host name that requests may carry besides the loopback ones; may be repeated",
		func(c *config, v string) error { c.hosts = append(c.hosts, v); return nil }},
	{"log-level", "OUTRIDER_LOG_LEVEL", "info", false, false,
		"least level to log: debug, info, warn or error",
		setLogLevel},
	{"log-format", "OUTRIDER_LOG_FORMAT", "text", false, false,
		"text or json",
		setLogFormat},
	{"shutdown-grace", "OUTRIDER_SHUTDOWN_GRACE", "30s", false, false,
		"how long a stop waits for jobs that are being worked on",
		setGrace},
	{"backtraces", "OUTRIDER_BACKTRACES", "keep", false, false,
		"what becomes of the backtraces that workers report: keep, or omit to neither store nor show them",
		setBacktraces},
	{"cron-file", "OUTRIDER_CRON_FILE", "", false, false,
		"file of schedules in YAML or JSON, applied at the start and on SIGHUP; see outrider cron apply --help",
		func(c *config, v string) error { c.cronFile = v; return nil }},
	{"cron-coordination", "OUTRIDER_CRON_COORDINATION", withNone, false, false,
		"none, or outbox where several servers share one --outbox and its schedules: each tick makes one job among them",
		setCoordination},
	{"url", "OUTRIDER_URL", "http://127.0.0.1:8080", false, false,
		"running server to ask: http://host:port or unix:///path",
		setURL},
	{"to", "OUTRIDER_RELAY_TO", "http://127.0.0.1:8080", false, true,
		"job server to relay to: http://host:port or unix:///path",
		func(c *config, v string) error {
			if _, err := client.New(v, client.Options{}); err != nil {
				return fmt.Errorf("must be http://host:port or unix:///path")
			}
			c.to = v
			return nil
		}},
}

func setLogLevel(c *config, v string) error {
	if err := c.logLevel.UnmarshalText([]byte(v)); err != nil {
		return fmt.Errorf("must be debug, info, warn or error")
	}
	return nil
}

func setLogFormat(c *config, v string) error {
	if v != "text" && v != "json" {
		return fmt.Errorf("must be text or json")
	}
	c.logFormat = v
	return nil
}

func setGrace(c *config, v string) (err error) {
	if c.grace, err = time.ParseDuration(v); err != nil || c.grace < 0 {
		return fmt.Errorf("must be a duration such as 30s or 2m")
	}
	return nil
}

func setBacktraces(c *config, v string) error {
	c.backtraces = sidecar.Backtraces(v)
	if c.backtraces != sidecar.KeepBacktraces && c.backtraces != sidecar.OmitBacktraces {
		return fmt.Errorf("must be keep or omit")
	}
	return nil
}

// How servers with the same schedules agree on who makes the job of a tick.
const (
	withNone   = "none"
	withOutbox = "outbox"
)

func setCoordination(c *config, v string) error {
	if c.cronWith = v; v != withNone && v != withOutbox {
		return fmt.Errorf("must be none or outbox")
	}
	return nil
}

func setURL(c *config, v string) error {
	if _, err := client.New(v, client.Options{}); err != nil {
		return fmt.Errorf("must be http://host:port or unix:///path")
	}
	c.url = v
	return nil
}

func setRelease(c *config, v string) error {
	c.relay.release = outbox.Release(v)
	if c.relay.release != outbox.OnRelay && c.relay.release != outbox.OnComplete {
		return fmt.Errorf("must be on_relay or on_complete")
	}
	return nil
}

// setDuration reads a duration of at least least; empty is none.
func setDuration(least time.Duration, into func(*config) *time.Duration) func(*config, string) error {
	return func(c *config, v string) (err error) {
		if v == "" {
			return nil
		}
		d, err := time.ParseDuration(v)
		if err != nil || d < least {
			return fmt.Errorf("must be a duration such as 30s or 200ms, %v or more", least)
		}
		*into(c) = d
		return nil
	}
}

func setBatch(c *config, v string) (err error) {
	if v == "" {
		return nil
	}
	if c.relay.batch, err = strconv.Atoi(v); err != nil || c.relay.batch < 1 || c.relay.batch > job.MaxBatch {
		return fmt.Errorf("must be a number from 1 to %d", job.MaxBatch)
	}
	return nil
}

func setWake(c *config, v string) error {
	if c.relay.listen = v == "listen"; !c.relay.listen && v != "poll" {
		return fmt.Errorf("must be poll or listen")
	}
	return nil
}

func setPokeSocket(c *config, v string) error {
	if v == "" {
		return nil
	}
	path, err := filepath.Abs(strings.TrimPrefix(v, "unix://"))
	if err != nil {
		return err
	}
	a, err := parseSocket(path)
	c.relay.pokeSocket = a.where
	return err
}

// bind gives cmd the flags of the named settings.
func bind(cmd *cobra.Command, names ...string) {
	for _, s := range settings {
		switch help := s.help + " [" + s.env + "]"; {
		case !slices.Contains(names, s.flag):
		case s.list:
			cmd.Flags().StringArray(s.flag, nil, help)
		default:
			cmd.Flags().String(s.flag, s.standard, help)
		}
	}
}

// configure reads the settings that cmd is bound to: flag, then environment, then default.
func (a *app) configure(cmd *cobra.Command) (config, error) {
	var c config
	for _, s := range settings {
		f := cmd.Flags().Lookup(s.flag)
		if f == nil {
			continue
		}
		for _, v := range s.values(f, a.env) {
			if err := s.set(&c, v); err != nil && s.secret {
				return c, usage("%s %w", s.origin(f), err)
			} else if err != nil {
				return c, usage("%s %q: %w", s.origin(f), v, err)
			}
		}
	}
	return c, nil
}

// values are what the setting is given, wherever it comes from. A variable that is set to nothing counts as not set.
func (s setting) values(f *pflag.Flag, env map[string]string) []string {
	v := env[s.env]
	switch list, isList := f.Value.(pflag.SliceValue); {
	case f.Changed && isList:
		return list.GetSlice()
	case f.Changed:
		return []string{f.Value.String()}
	case v != "" && s.list && s.secret:
		return splitDSNs(v)
	case v != "" && s.list:
		return strings.Split(v, ",")
	case v != "":
		return []string{v}
	case s.list:
		return nil
	}
	return []string{s.standard}
}

// splitDSNs parts a list of DSNs at the commas that stand in front of one.
func splitDSNs(v string) (all []string) {
	for part := range strings.SplitSeq(v, ",") {
		if len(all) > 0 && !beginsDSN.MatchString(part) {
			all[len(all)-1] += "," + part
			continue
		}
		all = append(all, part)
	}
	return all
}

// origin names the place a wrong value came from.
func (s setting) origin(f *pflag.Flag) string {
	if f.Changed {
		return "--" + s.flag
	}
	return s.env
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
	var known, given []string
	for _, s := range settings {
		known = append(known, s.env)
	}
	for name := range a.env {
		if strings.HasPrefix(name, "OUTRIDER_") && !slices.Contains(known, name) {
			given = append(given, name)
		}
	}
	sort.Strings(given)
	for _, name := range given {
		if near := nearest(name, known); near != "" {
			fmt.Fprintf(a.stderr, "warning: %s is no setting and is ignored; did you mean %s?\n", name, near)
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
