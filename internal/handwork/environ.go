package handwork

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/outrider-jobs/outrider/job"
)

// Access is how a command may itself ask the job server.
type Access struct {
	URL   string
	Token string // empty: commands are given none
}

// environ is the environment of a command. It inherits base, but none of what belongs to
// the worker itself or to another job: the settings of this program hold its passwords,
// and OJS_AUTH_TOKEN its token.
func environ(ctx context.Context, base []string, at Access, j *job.Job) []string {
	env := make([]string, 0, len(base)+12)
	for _, kv := range base {
		if !strings.HasPrefix(kv, "OUTRIDER_") && !strings.HasPrefix(kv, "OJS_") {
			env = append(env, kv)
		}
	}
	set := func(name, value string) {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	set("OJS_JOB_ID", string(j.ID))
	set("OJS_JOB_TYPE", j.Type)
	set("OJS_QUEUE", j.Queue)
	set("OJS_ATTEMPT", strconv.Itoa(j.Attempt))
	set("OJS_MAX_ATTEMPTS", strconv.Itoa(max(j.MaxAttempts, 1)))
	set("OJS_META", string(oneLine(j.Meta, "{}")))
	if j.Flow != nil {
		set("OJS_WORKFLOW_ID", string(j.Flow.Workflow))
	}
	if deadline, ok := ctx.Deadline(); ok {
		set("OJS_DEADLINE", job.FormatTime(deadline))
	}
	set("OJS_URL", at.URL)
	set("OUTRIDER_URL", at.URL)
	set("OJS_AUTH_TOKEN", at.Token)
	return env
}

// oneLine is JSON without the space between its parts, so that a shell can read it as a
// line; without any it is standard.
func oneLine(raw json.RawMessage, standard string) []byte {
	var b bytes.Buffer
	if len(raw) == 0 || json.Compact(&b, raw) != nil {
		return []byte(standard)
	}
	return b.Bytes()
}
