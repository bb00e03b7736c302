package wire

import "encoding/json"

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
	b := flag(append(dst, '{'), "ok", true)
	b = str(b, "directive", wish)
	return append(num(b, "workers", int64(n)), '}')
}

// DirectiveBody is the body of a directive to all workers.
func DirectiveBody(wish string) []byte { return append(str(begin(), "directive", wish), '}') }

// ReadDirected reads the answer to a directive to all workers: how many they are.
func ReadDirected(body []byte) (int, error) {
	var r struct {
		Workers int `json:"workers"`
	}
	err := read(body, &r)
	return r.Workers, err
}
