package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/outrider-jobs/outrider/job"
)

// Schema is a compiled schema. It is safe for concurrent use.
type Schema struct {
	uri   string
	s     *jsonschema.Schema
	first bool // it describes the first of the args, not the array
}

// local is a loader that has nothing: a schema is whole, or refused.
type local struct{}

var errElsewhere = errors.New("it is another document, and none is ever read: put what it defines under $defs")

func (local) Load(string) (any, error) { return nil, errElsewhere }

// Compile makes a schema ready. A schema whose type is object describes the first of
// the args, as most producers send one object; any other describes the array of them.
// Invalid, with the place of the fault.
func Compile(s job.Schema) (*Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(s.Schema))
	if err != nil {
		return nil, refuse("is no JSON: " + err.Error())
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(local{})
	const at = "schema:registered"
	if err := c.AddResource(at, doc); err != nil {
		return nil, refuse("cannot be used: " + err.Error())
	}
	compiled, err := c.Compile(at)
	if err != nil {
		return nil, refuse(explain(err))
	}
	m, _ := doc.(map[string]any)
	return &Schema{uri: s.URI, s: compiled, first: m["type"] == "object"}, nil
}

func refuse(why string) error {
	return job.Errorf(job.Invalid, "schema %s", why).With(map[string]any{"field": "schema"})
}

// explain says what is wrong with a schema, without the name that it had here.
func explain(err error) string {
	var bad *jsonschema.SchemaValidationError
	var elsewhere *jsonschema.LoadURLError
	switch {
	case errors.As(err, &elsewhere):
		return fmt.Sprintf("refers to %.200q: %v", elsewhere.URL, errElsewhere)
	case errors.As(err, &bad):
		var v *jsonschema.ValidationError
		if errors.As(bad.Err, &v) {
			if fs := faults(v, "schema"); len(fs) > 0 {
				return "is no JSON Schema: " + fs[0].Path + ": " + fs[0].Message
			}
		}
	}
	text := strings.ReplaceAll(err.Error(), "schema:registered", "")
	return "is no JSON Schema: " + text
}

// maxFaults is how many places are told of.
const maxFaults = 20

// Check is nil for args that fit, and else what Unfit makes of the places where they do not.
func (s *Schema) Check(args json.RawMessage) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
	if err != nil {
		return job.Errorf(job.Malformed, "args: %w", err)
	}
	root := "args"
	if list, ok := v.([]any); ok && s.first {
		root = "args[0]"
		if len(list) == 0 {
			return job.Unfit(s.uri, []job.SchemaFault{{Path: root, Message: "is missing: the schema describes it, an object"}})
		}
		v = list[0]
	}
	err = s.s.Validate(v)
	var bad *jsonschema.ValidationError
	if !errors.As(err, &bad) {
		return err
	}
	return job.Unfit(s.uri, faults(bad, root))
}

var english = message.NewPrinter(language.English)

// faults are the places that a validation has found, the deepest of each, in its order.
func faults(e *jsonschema.ValidationError, root string) (fs []job.SchemaFault) {
	if len(e.Causes) == 0 {
		return []job.SchemaFault{{Path: path(root, e.InstanceLocation), Message: e.ErrorKind.LocalizedString(english)}}
	}
	for _, c := range e.Causes {
		if fs = append(fs, faults(c, root)...); len(fs) >= maxFaults {
			return fs[:maxFaults]
		}
	}
	return fs
}

// path writes a place as a person would: args[0].items[2].sku.
func path(root string, tokens []string) string {
	var b strings.Builder
	b.WriteString(root)
	for _, t := range tokens {
		_, err := strconv.ParseUint(t, 10, 32)
		switch {
		case err == nil:
			b.WriteString("[" + t + "]")
		case strings.ContainsAny(t, ".[]\" ") || t == "":
			b.WriteString("[" + strconv.Quote(t) + "]")
		default:
			b.WriteString("." + t)
		}
	}
	return b.String()
}
