package wire

import (
	"encoding/json"

	"github.com/outrider-jobs/outrider/internal/rawjson"
)

// DecodeDirective reads the body of a directive to all workers (contract §3.23).
// What it may be is for the service to say.
func DecodeDirective(raw []byte) (wish string, err error) {
	err = object(raw, "", func(member string, v json.RawMessage) (err error) {
		if member == "directive" {
			wish, err = name(v, member)
		}
		return err
	})
	return wish, err
}

// AppendDirected appends the answer to a directive to all workers.
func AppendDirected(dst []byte, wish string, n int) []byte {
	b := rawjson.Object(dst)
	return b.Bool("ok", true).Str("directive", wish).Int("workers", int64(n)).Close()
}

// DirectiveBody is the body of a directive to all workers.
func DirectiveBody(wish string) []byte {
	b := begin()
	return b.Str("directive", wish).Close()
}

// ReadDirected reads the answer to a directive to all workers: how many they are.
func ReadDirected(body []byte) (int, error) {
	var r struct {
		Workers int `json:"workers"`
	}
	err := read(body, &r)
	return r.Workers, err
}
