package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/term"
	"github.com/outrider-jobs/outrider/internal/tokens"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
)

func (a *app) configCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "config",
		Short: "Show every setting and where its value comes from, or check them",
		Long: "A setting has a flag, a variable and a name in a file of settings: --shutdown-grace, OUTRIDER_SHUTDOWN_GRACE, " +
			"and shutdown_grace. The flag counts first, then the variable or the file that its _FILE variable names, then the " +
			"file of settings (--config FILE or OUTRIDER_CONFIG), then the default.\n\n" +
			"A file of settings is YAML:\n\n" +
			"  listen: 127.0.0.1:8080\n" +
			"  db: /var/lib/outrider/outrider.db\n" +
			"  outbox_file: /run/secrets/outbox-dsn\n" +
			"  outbox_release: on_complete\n" +
			"  on_exhaustion: [discard, mail=dead_letter]\n" +
			"  log_level: info",
	})
	cmd.AddCommand(a.configPrintCommand(), a.configCheckCommand())
	return cmd
}

// bindAll gives cmd the flags of all settings.
func bindAll(cmd *cobra.Command) {
	names := make([]string, len(settings))
	for i, s := range settings {
		names[i] = s.flag
	}
	bind(cmd, names...)
}

func (a *app) configPrintCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print every setting, its value, and where that comes from; passwords are left out",
		Args:  noArgs,
	}
	bindAll(cmd)
	changed := cmd.Flags().Bool("changed", false, "only what is not the default")
	output := bindOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		format, err := output()
		if err != nil {
			return err
		}
		cfg, wrong := a.readSettings(cmd)
		if len(wrong) > 0 {
			return errors.Join(wrong[0], errorOthers(wrong[1:]))
		}
		var shown []httpapi.Setting
		for _, s := range cfg.told {
			if !*changed || s.Origin != "default" {
				shown = append(shown, s)
			}
		}
		return a.printSettings(format, shown)
	}
	return cmd
}

var settingColumns = []term.Column{{Head: "SETTING"}, {Head: "VALUE", Min: 16}, {Head: "FROM", Min: 12, Style: func(from string) term.Style {
	if from == "default" {
		return term.Faint
	}
	return term.Plain
}}}

func (a *app) printSettings(format format, all []httpapi.Setting) error {
	if format.data() {
		type one struct {
			Name   string   `json:"name"`
			Value  []string `json:"value"`
			Origin string   `json:"origin"`
		}
		answer := struct {
			Settings []one `json:"settings"`
		}{[]one{}}
		for _, s := range all {
			answer.Settings = append(answer.Settings, one{s.Name, append([]string{}, s.Value...), s.Origin})
		}
		return format.printValue(a.stdout, answer, "settings")
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(a.stdout, "every setting has its default")
		return err
	}
	var rows [][]string
	for _, s := range all {
		rows = append(rows, []string{s.Name, strings.Join(s.Value, ", "), s.Origin})
	}
	return a.screen.Table(a.stdout, settingColumns, rows)
}

func (a *app) configCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check the settings and the files that they name, and start nothing",
		Long: "Reads the settings as serve would: the file of settings, the environment and flags. Then it reads the files " +
			"that they name: tokens, certificate and key, schedules. It lists every mistake, not only the first, and ends with 2 " +
			"if there is one. Databases and servers are not asked: outrider doctor does that.",
	}
	bindAll(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usage("%s takes one file, got %d", cmd.CommandPath(), len(args))
		}
		if len(args) == 1 {
			if err := cmd.Flags().Set("config", args[0]); err != nil {
				return err
			}
		}
		cfg, wrong := a.readSettings(cmd)
		if len(wrong) == 0 {
			wrong = cfg.faults()
		}
		if len(wrong) > 0 {
			return errors.Join(wrong[0], errorOthers(wrong[1:]))
		}
		return printChecked(a.stdout, cfg)
	}
	return cmd
}

// faults are the mistakes in settings that belong together, and in the files that they name.
func (c config) faults() (wrong []error) {
	if err := c.coherent(); err != nil {
		wrong = append(wrong, err)
	}
	if c.tokenFile != "" {
		if _, err := tokens.Load(c.tokenFile); err != nil {
			wrong = append(wrong, usage("--token-file: %w", err))
		}
	}
	if c.tlsCert != "" && c.tlsKey != "" {
		if _, err := loadPair(c.tlsCert, c.tlsKey); err != nil {
			wrong = append(wrong, usage("--tls-cert and --tls-key: %w", err))
		}
	}
	if c.cronFile != "" {
		if _, err := loadCronFile(c.cronFile, nil); err != nil {
			wrong = append(wrong, usage("--cron-file: %w", err))
		}
	}
	return wrong
}

// errorOthers are further mistakes, a line each, under the first.
func errorOthers(others []error) error {
	if len(others) == 0 {
		return nil
	}
	lines := make([]string, len(others))
	for i, err := range others {
		lines[i] = "error: " + err.Error()
	}
	return errors.New(strings.Join(lines, "\n"))
}

func printChecked(w io.Writer, cfg config) error {
	given := 0
	for _, s := range cfg.told {
		if s.Origin != "default" {
			given++
		}
	}
	_, err := fmt.Fprintf(w, "ok: given are %d of %d settings, and every file that they name can be read\n", given, len(cfg.told))
	return err
}
