package main

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/sidecar"
)

// config is what serve and the outbox commands are told.
type config struct {
	listen    address
	db        string
	outboxes  []dsn
	table     string
	hosts     []string
	logLevel  slog.Level
	logFormat string
	grace     time.Duration

	backtraces sidecar.Backtraces
}

// setting is one thing that can be told: by a flag, else by a variable of the
// environment, else by its default.
type setting struct {
	flag, env, standard string
	list                bool // may be given more than once; commas part the values of the variable
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
		"database whose outbox table is relayed, as sqlite:./shop.db; may be repeated",
		func(c *config, v string) error {
			d, err := parseDSN(v)
			c.outboxes = append(c.outboxes, d)
			return err
		}},
	{"outbox-table", "OUTRIDER_OUTBOX_TABLE", sqlite.DefaultTable, false, false,
		"name of the outbox table",
		func(c *config, v string) error { c.table = v; return nil }},
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
	case v != "" && s.list:
		return strings.Split(v, ",")
	case v != "":
		return []string{v}
	case s.list:
		return nil
	}
	return []string{s.standard}
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
