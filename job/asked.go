package job

import (
	"bytes"
	"slices"
	"strings"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// Validator is the name of the check that a job asks for itself (contract §4.20).
const Validator = "ojs-validate"

// SelfCheck is nil for a job whose meta does not ask for a check with ojs_validate, and
// for one that passes it: it has args, and no segment of its type is "reject". Else it
// is a Rejected.
func (c *Checked) SelfCheck() error {
	e := &c.e
	if !bytes.Contains(e.Meta, []byte("ojs_validate")) || string(rawjson.Member(e.Meta, "ojs_validate")) != "true" {
		return nil
	}
	why := ""
	switch {
	case string(bytes.Join(bytes.Fields(e.Args), nil)) == "[]":
		why = "args are empty"
	case slices.Contains(strings.Split(e.Type, "."), "reject"):
		why = `a segment of its type is "reject"`
	default:
		return nil
	}
	refused := Errorf(Rejected, "meta.ojs_validate asks for a check of the job %s, and %s", e.Type, why)
	refused.Details = map[string]any{}
	refused.Details["middleware"] = Validator
	return refused
}
