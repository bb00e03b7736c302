package wire

import (
	"encoding/json"
	"slices"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// The member warnings of an answer: what in a request was carried out but may not have
// been meant that way. It is left out if there are none.

// appendWarnings appends the warnings about one job or one schedule.
func appendWarnings(b *rawjson.Writer, ws []job.Warning) {
	if len(ws) == 0 {
		return
	}
	b.Array("warnings") // objects would cost the answer to every PUSH an allocation
	for _, w := range ws {
		b.Begin()
		b.Str("field", w.Field).Str("message", w.Message).End()
	}
	b.EndArray()
}

// batchWarnings appends the warnings about a batch, each with the index of its job.
func batchWarnings(b *rawjson.Writer, rs []job.Receipt) {
	if !slices.ContainsFunc(rs, func(r job.Receipt) bool { return len(r.Warnings) > 0 }) {
		return
	}
	b.Array("warnings")
	for i, r := range rs {
		for _, w := range r.Warnings {
			b.Begin()
			b.Int("index", int64(i)).Str("field", w.Field).Str("message", w.Message).End()
		}
	}
	b.EndArray()
}

// warned is a warning as an answer has it.
type warned struct {
	Index int
	job.Warning
}

// UnmarshalJSON reads an object, or a text alone. Other servers may send other shapes:
// none of them is an error, as the request was carried out.
func (w *warned) UnmarshalJSON(raw []byte) error {
	var o struct {
		Index   int    `json:"index"`
		Field   string `json:"field"`
		Message string `json:"message"`
	}
	if json.Unmarshal(raw, &o.Message) != nil {
		_ = json.Unmarshal(raw, &o)
	}
	*w = warned{o.Index, job.Warning{Field: o.Field, Message: o.Message}}
	return nil
}

// warnings are those that an answer holds; what is no list is none.
type warnings []warned

// UnmarshalJSON reads the list.
func (ws *warnings) UnmarshalJSON(raw []byte) error {
	var all []warned
	_ = json.Unmarshal(raw, &all)
	*ws = all
	return nil
}

// of are the warnings about the job of that index.
func (ws warnings) of(index int) (all []job.Warning) {
	for _, w := range ws {
		if w.Index == index && w.Message != "" {
			all = append(all, w.Warning)
		}
	}
	return all
}
