package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/outrider-jobs/outrider/internal/appdb"
	"github.com/outrider-jobs/outrider/internal/readfile"
)

// given is what a setting is given: by a flag, by its variable, by the file that
// the variable with _FILE behind its name names, by the file of settings, or by its
// default.
type given struct {
	values   []string
	origin   string // of a value that is wrong
	place    string // the file and line that it stands in, if it is from a file of settings
	quiet    bool   // no message repeats it
	standard bool   // nobody has given it
}

// clientsURL is the variable that the public clients read --url from.
const clientsURL = "OJS_URL"

// maxSettingFile bounds a file that holds the value of a setting.
const maxSettingFile = 64 << 10

// settingPatience is how long the value of a setting is waited for that comes
// from a pipe, as <(…) of a shell is one.
const settingPatience = 5 * time.Second

// given looks for the setting. A variable that is set to nothing counts as not set.
func (s setting) given(f *pflag.Flag, env map[string]string, config *configFile) (given, error) {
	g := given{origin: "--" + s.flag, quiet: s.secret}
	list, isList := f.Value.(pflag.SliceValue)
	switch {
	case f.Changed && isList:
		g.values = list.GetSlice()
		return g, nil
	case f.Changed:
		g.values = []string{f.Value.String()}
		return g, nil
	}
	v, file := env[s.env], env[s.env+"_FILE"]
	g.origin = s.env
	if v == "" && file == "" && s.flag == "url" && env[clientsURL] != "" {
		v, g.origin = env[clientsURL], clientsURL
	}
	switch {
	case v != "" && file != "":
		return g, usage("%s and %[1]s_FILE are both set; unset one of them", s.env)
	case file != "":
		g.origin, g.quiet = s.env+"_FILE", true
		var err error
		if v, err = readSetting(file); err != nil {
			return g, usage("%s: %w", g.origin, err)
		}
	}
	if v != "" {
		var err error
		g.values, err = s.split(v, g.origin)
		return g, err
	}
	if g, ok, err := config.given(s); ok || err != nil {
		return g, err
	}
	if !s.list {
		g.values, g.standard = []string{s.standard}, true
	}
	return g, nil
}

// split is the values in the text of a setting, which is a list or is not.
func (s setting) split(v, origin string) ([]string, error) {
	switch {
	case s.list && s.secret:
		all, err := appdb.SplitDSNs(v)
		if err != nil {
			return nil, usage("%s %w, or give each database a flag --%s of its own", origin, err, s.flag)
		}
		return all, nil
	case s.list:
		return strings.Split(v, ","), nil
	}
	return []string{v}, nil
}

// readSetting is what a file holds, without the line feed at its end. No error
// says what that is.
func readSetting(name string) (string, error) {
	if appdb.SureFile(name) != nil {
		return "", errors.New("must name a file that contains the value; it looks like the value itself")
	}
	raw, err := readfile.File(name, readfile.How{Limit: maxSettingFile + 1, Patience: settingPatience})
	v, cut := strings.CutSuffix(string(raw), "\n")
	if cut {
		v = strings.TrimSuffix(v, "\r")
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("there is no file %s", name)
	case err != nil:
		return "", err // it names the file
	case v == "":
		return "", fmt.Errorf("the file %s is empty", name)
	case len(raw) > maxSettingFile:
		return "", fmt.Errorf("the file %s is longer than %d bytes", name, maxSettingFile)
	case strings.ContainsFunc(v, unicode.IsControl):
		return "", fmt.Errorf("the file %s does not hold one line of text", name)
	}
	return v, nil
}
