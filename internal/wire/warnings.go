package wire

import (
	"encoding/json"

	"github.com/outrider-jobs/outrider/job"
)

// What an answer says of a request that was carried out and may not have been
// meant so: the member warnings, which is there only when there are some.

// appendWarnings appends the warnings about one job or one schedule.
func appendWarnings(b []byte, ws []job.Warning) []byte {
	if len(ws) == 0 {
		return b
	}
	return array(b, "warnings", len(ws), func(b []byte, i int) []byte { return append(warning(append(b, '{'), ws[i]), '}') })
}

func warning(b []byte, w job.Warning) []byte {
	return str(str(b, "field", w.Field), "message", w.Message)
}

// batchWarnings appends the warnings about a batch, each with the index of its job.
func batchWarnings(b []byte, rs []job.Receipt) []byte {
	type one struct {
		index int
		job.Warning
	}
	var all []one
	for i, r := range rs {
		for _, w := range r.Warnings {
			all = append(all, one{i, w})
		}
	}
	if all == nil {
		return b
	}
	return array(b, "warnings", len(all), func(b []byte, i int) []byte {
		return append(warning(num(append(b, '{'), "index", int64(all[i].index)), all[i].Warning), '}')
	})
}

// warned is a warning as an answer has it.
type warned struct {
	Index int
	job.Warning
}

// UnmarshalJSON reads an object, or a text alone. Other servers may have other
// shapes: none of them is an error, as the request was carried out.
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
