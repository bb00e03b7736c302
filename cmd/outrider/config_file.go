package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/spf13/pflag"

	"github.com/outrider-jobs/outrider/internal/readfile"
	"github.com/outrider-jobs/outrider/internal/wording"
)

// configVariable names the file of settings, where --config does not.
const configVariable = "OUTRIDER_CONFIG"

// maxConfigFile bounds a file of settings.
const maxConfigFile = 1 << 20

// A configFile holds settings by the names of their flags: what --config names, or
// nothing.
type configFile struct {
	name   string
	values map[string]written
}

// written is a setting as it stands in a file.
type written struct {
	values   []string
	line     int
	indirect bool // the value is the name of the file that holds it
}

// bindConfig gives a command that takes settings the flag --config.
func bindConfig(f *pflag.FlagSet) {
	if f.Lookup("config") == nil {
		f.String("config", "", "file of settings; see outrider config --help ["+configVariable+"]")
	}
}

// configFile reads the file of settings that f and the environment name.
func (a *app) configFile(f *pflag.FlagSet) (*configFile, error) {
	flag := f.Lookup("config")
	name, origin := a.env[configVariable], configVariable
	if flag != nil && flag.Changed {
		name, origin = flag.Value.String(), "--config"
	}
	if name == "" {
		return &configFile{}, nil
	}
	raw, err := readfile.File(name, readfile.How{Limit: maxConfigFile + 1, Patience: settingPatience})
	switch {
	case err != nil:
		return nil, usage("%s: %w", origin, err)
	case len(raw) > maxConfigFile:
		return nil, usage("%s: %s is longer than %d bytes", origin, name, maxConfigFile)
	}
	return parseConfig(name, raw)
}

// parseConfig reads settings. An unknown name, one that is there twice, and a value
// that no setting can have are mistakes, told with their lines: half a configuration
// would be another one.
func parseConfig(name string, raw []byte) (*configFile, error) {
	c := &configFile{name: name, values: map[string]written{}}
	file, err := parser.ParseBytes(raw, 0)
	if err != nil {
		return nil, usage("%s is not YAML: %s", name, strings.TrimSpace(firstLine(err.Error())))
	}
	if len(file.Docs) > 1 && file.Docs[1].Body != nil {
		return nil, usage("%s holds more than one document; leave one", name)
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return c, nil
	}
	if _, empty := file.Docs[0].Body.(*ast.CommentGroupNode); empty {
		return c, nil
	}
	m, ok := file.Docs[0].Body.(ast.MapNode)
	if !ok {
		return nil, usage("%s: must be names and values, such as listen: 127.0.0.1:8080", name)
	}
	for all := m.MapRange(); all.Next(); {
		key, w := all.Key().String(), written{line: all.Key().GetToken().Position.Line}
		s, err := settingOf(key)
		if err != nil {
			return nil, usage("%s:%d: %w", name, w.line, err)
		}
		w.indirect = flagOf(key) != s.flag
		if before, twice := c.values[s.flag]; twice {
			return nil, usage("%s:%d: %s stands in line %d already", name, w.line, key, before.line)
		}
		if w.values, err = scalars(all.Value(), s.list && !w.indirect); err != nil {
			return nil, usage("%s:%d: %s %w", name, w.line, key, err)
		}
		if len(w.values) > 0 {
			c.values[s.flag] = w
		}
	}
	return c, nil
}

// flagOf is the name of a flag as a name in a file spells it.
func flagOf(key string) string { return strings.ReplaceAll(key, "_", "-") }

// settingOf finds the setting of a name in a file.
func settingOf(key string) (setting, error) {
	flag := flagOf(key)
	for _, suffix := range []string{"", "-file"} {
		if i := slices.IndexFunc(settings, func(s setting) bool { return s.flag+suffix == flag }); i >= 0 {
			return settings[i], nil
		}
	}
	var names []string
	for _, s := range settings {
		names = append(names, s.name())
	}
	if near := wording.Nearest(strings.ReplaceAll(flag, "-", "_"), names); near != "" {
		return setting{}, fmt.Errorf("%s is not a setting; did you mean %s?", key, near)
	}
	return setting{}, fmt.Errorf("%s is not a setting; outrider config print lists them", key)
}

// scalars are the texts of a value; of nothing there are none.
func scalars(n ast.Node, list bool) ([]string, error) {
	if seq, ok := n.(*ast.SequenceNode); ok {
		if !list {
			return nil, errors.New("must be one value, not a list")
		}
		var all []string
		for _, one := range seq.Values {
			v, err := scalars(one, false)
			if err != nil {
				return nil, err
			}
			all = append(all, v...)
		}
		return all, nil
	}
	switch v := n.(type) {
	case *ast.NullNode:
		return nil, nil
	case *ast.StringNode:
		return []string{v.Value}, nil
	case *ast.LiteralNode:
		return []string{strings.TrimSuffix(v.Value.Value, "\n")}, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return []string{n.GetToken().Value}, nil
	case ast.MapNode:
		return nil, errors.New("must be one value, not names and values; a name of two words is written as one, such as outbox_release")
	}
	return nil, errors.New("must be a text, a number, true or false")
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// given is what the file says of a setting; ok is false if it does not.
func (c *configFile) given(s setting) (g given, ok bool, err error) {
	w, ok := c.values[s.flag]
	if !ok {
		return given{}, false, nil
	}
	place := fmt.Sprintf("%s:%d", c.name, w.line)
	g = given{values: w.values, origin: place + ": " + s.name(), place: place, quiet: s.secret}
	if !w.indirect {
		return g, true, nil
	}
	g.origin, g.quiet = g.origin+"_file", true
	v, err := readSetting(w.values[0])
	if err != nil {
		return g, true, usage("%s: %w", g.origin, err)
	}
	g.values, err = s.split(v, g.origin)
	return g, true, err
}
