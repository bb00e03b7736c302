package servicetest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// wholeErrors: what a worker says of its error is given back as it came, in error
// and in errors, by every answer, whatever its members are called and however
// long it is (ojs-core.md §7.4, §8).
func wholeErrors(k *kit) {
	long := strings.Repeat("é ", 15_000)
	for _, f := range []job.Failure{
		{Type: long, Message: "m"}, {Type: "E", Message: long}, {Code: long, Message: ""},
		{Type: "E", Message: "m", Details: fmt.Appendf(nil, `{"x":%q}`, long)},
		{Type: "E", Message: "m", Extra: fmt.Appendf(nil, `{"cause" : {"n":1e2,"stack":[%q]}, "":null,"a\"b":[ ],"Type":"T","severity":9007199254740993}`, long)},
		{Type: "E", Message: "m", Extra: json.RawMessage(` { } `)},
		{Type: "E", Message: "m", Code: "c", Retryable: ptr(true), Details: json.RawMessage(`[1]`), Backtrace: []string{"b"}, Extra: json.RawMessage(`{"x":1}`)},
	} {
		k.push(func(e *job.Envelope) { e.Retry = json.RawMessage(`{"max_attempts":1,"on_exhaustion":"dead_letter"}`) })
		failed := k.fail(k.take(), f)
		page, err := k.s.Jobs(k.ctx(), job.Filter{Dead: true})
		if err != nil || len(page.Jobs) == 0 || page.Jobs[0].ID != failed.ID {
			k.t.Fatal(page, err)
		}
		for _, j := range []*job.Job{failed, k.read(failed.ID), page.Jobs[0]} {
			history := k.history(j)
			for _, e := range [][]byte{j.Error, history[len(history)-1]} {
				k.holds(e, f)
			}
		}
		for _, e := range k.events(failed.ID) {
			if e.Type == "job.failed" {
				k.expect([]byte(member(k.t, e.Data, "error")), "message", string(rawjson.AppendString(nil, f.Message)))
			}
		}
		k.clear(failed)
	}
}

// holds makes sure that a stored error has all that was said.
func (k *kit) holds(stored []byte, f job.Failure) {
	k.t.Helper()
	want := map[string]string{"type": string(rawjson.AppendString(nil, f.ErrorType())), "message": string(rawjson.AppendString(nil, f.Message)), "attempt": "1"}
	if f.Code != "" {
		want["code"] = string(rawjson.AppendString(nil, f.Code))
	}
	if f.Details != nil {
		want["details"] = string(f.Details)
		if f.Details[0] != '{' {
			want["details"] = `{"value":` + string(f.Details) + `}`
		}
	}
	if f.Extra != nil {
		if err := job.Members(f.Extra, func(name string, v json.RawMessage) error {
			want[name] = string(v)
			return nil
		}); err != nil {
			k.t.Fatal(err)
		}
	}
	for name, v := range want {
		k.expect(stored, name, v)
	}
}

// refusedErrors: an error that cannot be kept whole is refused, and the attempt
// goes on; the same one, shorter, is taken.
func refusedErrors(k *kit) {
	k.push(nil)
	j := k.take()
	long := strings.Repeat("x", job.MaxErrorBytes)
	for _, tt := range []struct {
		name string
		f    job.Failure
		kind job.Kind
	}{
		{"a message", job.Failure{Type: "E", Message: long}, job.TooLarge},
		{"a type", job.Failure{Type: long + "x"}, job.TooLarge},
		{"a code", job.Failure{Type: "E", Code: long}, job.TooLarge},
		{"details", job.Failure{Type: "E", Details: json.RawMessage(`{"x":"` + long + `"}`)}, job.TooLarge},
		{"further members", job.Failure{Type: "E", Extra: json.RawMessage(`{"x":"` + long + `"}`)}, job.TooLarge},
		{"all together", job.Failure{Type: "E", Message: long[:len(long)/2], Extra: json.RawMessage(`{"x":"` + long[:len(long)/2] + `"}`)}, job.TooLarge},
		{"further members that are no JSON", job.Failure{Type: "E", Extra: json.RawMessage(`{"x":`)}, job.Malformed},
		{"further members that are no object", job.Failure{Type: "E", Extra: json.RawMessage(`[1]`)}, job.Malformed},
		{"a further member that has a field", job.Failure{Type: "E", Extra: json.RawMessage(`{"attempt":7}`)}, job.Invalid},
		{"a further member that comes twice", job.Failure{Type: "E", Extra: json.RawMessage(`{"x":7,"x":8}`)}, job.Invalid},
	} {
		err := k.untouched(tt.name, j, func() error {
			_, err := k.s.Fail(k.ctx(), claimOf(j), tt.f)
			return err
		})
		k.is(tt.name, err, tt.kind)
	}
	if !k.t.Failed() {
		k.stands(k.fail(j, job.Failure{Type: "E", Message: long[:job.MaxErrorBytes-1]}), job.Retryable)
	}
}
