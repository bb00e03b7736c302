package wire

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// Dialect is how a stream tells of an event (contract §3.18).
type Dialect int

// The dialects.
const (
	OfEvents Dialect = iota // server-sent; "type" is the type of the event
	OfJobs                  // server-sent; "type" is the type of the job, and each change of state is told, too
	OfSocket                // one text message behind another, from the member "event" on; "type" in its data is the type of the job
	Dialects
)

// EventStream is the Content-Type of streams.
const EventStream = "text/event-stream"

// Comments and frames of server-sent streams that are no events.
const (
	Heartbeat = ":heartbeat\n\n"
	Ended     = ":the server is stopping; connect again with Last-Event-ID\n\n"
	TooSlow   = ":dropped, because what there is to tell was not taken in time; connect again with Last-Event-ID\n\n"
)

// GapEvent is the type of what is told where events are missing.
const GapEvent = "system.gap"

// changedEvent is the type of what a stream of OfJobs tells beside a change of state.
const changedEvent = "job.state_changed"

// AppendOpening appends what a server-sent stream begins with. Whoever is cut off before
// the first event goes on behind the event with the Seq seen, unless that is negative.
func AppendOpening(dst []byte, seen int64) []byte {
	dst = append(dst, "retry: 3000\n"...)
	if seen >= 0 {
		dst = append(strconv.AppendInt(append(dst, "id: "...), seen, 10), '\n')
	}
	return append(dst, '\n')
}

// AppendFrame appends an event in a dialect.
func AppendFrame(dst []byte, e job.Event, d Dialect) []byte {
	if d == OfSocket {
		dst = changed(dst, e, d)
		return message(dst, e.Type, EventID(e), e, func(dst []byte) []byte { return AppendStreamData(dst, e, d) })
	}
	if d == OfJobs {
		dst = changed(dst, e, d)
	}
	return AppendEventFrame(dst, e, d)
}

// AppendEventFrame is AppendFrame for a server-sent event alone, without the change of
// state that it brings.
func AppendEventFrame(dst []byte, e job.Event, d Dialect) []byte {
	dst = append(AppendEventID(append(dst, "id: "...), e), '\n')
	return sent(dst, e.Type, func(dst []byte) []byte { return AppendStreamData(dst, e, d) })
}

// sent appends a server-sent event, behind its id where it has one. An empty kind is none.
func sent(dst []byte, kind string, data func([]byte) []byte) []byte {
	if kind != "" {
		dst = append(append(append(dst, "event: "...), kind...), '\n')
	}
	dst = append(dst, "data: "...)
	from := len(dst)
	dst = data(dst)
	oneLine(dst[from:])
	return append(dst, "\n\n"...)
}

// oneLine takes the line breaks out of JSON that somebody else has laid out.
func oneLine(b []byte) {
	if bytes.IndexByte(b, '\n') < 0 && bytes.IndexByte(b, '\r') < 0 {
		return
	}
	for i, c := range b {
		if c == '\n' || c == '\r' { // no string of JSON holds one
			b[i] = ' '
		}
	}
}

// message appends the end of a message over a WebSocket, and a line feed behind it.
func message(dst []byte, kind, id string, e job.Event, data func([]byte) []byte) []byte {
	from := len(dst)
	dst = append(dst, `"event":`...)
	dst = rawjson.AppendString(dst, kind)
	if id != "" {
		dst = append(append(append(dst, `,"id":"`...), id...), '"')
	}
	dst = append(dst, `,"timestamp":"`...)
	dst = append(rawjson.AppendTime(dst, e.Time), `","data":`...)
	dst = data(dst)
	oneLine(dst[from:])
	return append(dst, "}\n"...)
}

// changed appends the job.state_changed that an event brings, if it is a change of state.
// It has no id: whoever is cut off behind it is sent the event again.
func changed(dst []byte, e job.Event, d Dialect) []byte {
	from, to, ok := e.Transition()
	if !ok {
		return dst
	}
	data := func(dst []byte) []byte {
		b := rawjson.Object(dst)
		b.Str("job_id", string(e.JobID)).Str("queue", e.Queue).Str("type", e.JobType)
		return b.Optional("from", string(from)).Str("to", string(to)).Time("timestamp", e.Time).Close()
	}
	if d == OfSocket {
		return message(dst, changedEvent, "", e, data)
	}
	return sent(dst, changedEvent, data)
}

// AppendStreamData appends what a stream says of an event, one line.
func AppendStreamData(dst []byte, e job.Event, d Dialect) []byte {
	b := rawjson.Object(dst)
	b.Key("id")
	b = append(AppendEventID(append(b, '"'), e), '"')
	b.Str("event", e.Type)
	if d == OfEvents {
		b.Str("type", e.Type)
	} else {
		b.Optional("type", e.JobType)
	}
	b.Optional("job_id", string(e.JobID)).Optional("job_type", e.JobType).Optional("queue", e.Queue)
	b.Optional("state", string(stateAfter(e)))
	if from, to, ok := e.Transition(); ok {
		b.Optional("from", string(from)).Str("to", string(to))
	}
	facts(&b, e.Data)
	b.Time("timestamp", e.Time)
	b.Object("data").Optional("job_id", string(e.JobID)).Optional("job_type", e.JobType).Optional("queue", e.Queue)
	b.Splice(e.Data)
	return b.End().Close()
}

// facts appends what the data of an event holds that a stream also says outside of it.
func facts(b *rawjson.Writer, data json.RawMessage) {
	if len(data) <= 2 {
		return
	}
	_ = rawjson.Walk(data, func(name, v json.RawMessage) error { // what is no object has no members
		switch string(name) {
		case `"attempt"`:
			b.Raw("attempt", v)
		case `"duration_ms"`:
			b.Raw("duration", v)
		case `"error"`, `"last_error"`:
			if text := rawjson.Member(v, "message"); text != nil {
				b.Raw("error", text)
			}
		}
		return nil
	})
}

// AppendGap appends the system.gap of a server-sent stream: behind the id that was asked
// for events are missing, and what follows begins with the oldest that is kept.
func AppendGap(dst []byte, asked string, now time.Time) []byte {
	return sent(dst, GapEvent, func(dst []byte) []byte { return gap(dst, asked, now) })
}

const gapText = "events behind this id are not kept any more, or it is none of this server's; what follows begins with the oldest that is kept"

func gap(dst []byte, asked string, now time.Time) []byte {
	b := rawjson.Object(dst)
	b.Str("event", GapEvent).Str("type", GapEvent).Str("last_event_id", asked)
	b.Str("message", gapText)
	return b.Time("timestamp", now).Close()
}

// ProgressOf is what a job.progress says.
func ProgressOf(e job.Event) *job.Progress {
	p := &job.Progress{At: e.Time}
	if v := rawjson.Member(e.Data, "progress"); v != nil {
		f, err := strconv.ParseFloat(string(v), 64)
		p.Fraction, p.Measured = f, err == nil
	}
	if v := rawjson.Member(e.Data, "message"); v != nil {
		p.Message = rawjson.Unquote(v)
	}
	return p
}

// tokenParam is who asks, for readers who can set no header; the guard has looked at it.
const tokenParam = "token"

// DecodeStream reads the query of a stream of events: what it lets through.
func DecodeStream(q url.Values) (f job.EventFilter, err error) {
	if err := known(q, "stream", []string{"channel", "types", "type", "event_types", "queues", "queue", "job_types", "job_type", "job_id", tokenParam}); err != nil {
		return f, err
	}
	return streamFilter(q)
}

// DecodeJobStream reads the query of the streams of one queue or one job.
func DecodeJobStream(q url.Values) (f job.EventFilter, err error) {
	if err := known(q, "stream", []string{"types", "type", "event_types", "job_types", "job_type", tokenParam}); err != nil {
		return f, err
	}
	return streamFilter(q)
}

// DecodeNothing refuses every parameter.
func DecodeNothing(q url.Values) (struct{}, error) {
	return struct{}{}, known(q, "stream", []string{tokenParam})
}

func streamFilter(q url.Values) (f job.EventFilter, err error) {
	if f, err = Channel(q.Get("channel")); err != nil {
		return f, err
	}
	if f.Types, err = list(q, "types", "type", "event_types"); err != nil {
		return f, err
	}
	f.Types = dotted(f.Types)
	queues, err := list(q, "queues", "queue")
	if err != nil {
		return f, err
	}
	if len(queues) > 0 && len(f.Queues) > 0 {
		return f, refuse("queue", "is said twice, also by the channel; leave one of them out")
	}
	f.Queues = append(f.Queues, queues...)
	if id := q.Get("job_id"); id != "" {
		if f.JobID != "" {
			return f, refuse("job_id", "is said twice, also by the channel; leave one of them out")
		}
		if !job.ValidID(id) {
			return f, refuse("job_id", "must be the id of a job, a UUIDv7 in lower case")
		}
		f.JobID = job.ID(id)
	}
	f.JobTypes, err = list(q, "job_types", "job_type")
	return f, err
}

// dotted spells types as the log does: asyncmq-deduplication.md has colons.
func dotted(types []string) []string {
	for i, t := range types {
		types[i] = strings.ReplaceAll(t, ":", ".")
	}
	return types
}

// Channel is what a channel lets through: "all", "events", "job:" and an id, or "queue:"
// and a name. None is all.
func Channel(s string) (f job.EventFilter, err error) {
	kind, name, _ := strings.Cut(s, ":")
	switch {
	case s == "" || s == "all" || s == "events":
	case kind == "job" && job.ValidID(name):
		f.JobID = job.ID(name)
	case kind == "queue" && name != "":
		f.Queues = []string{name}
	default:
		return f, refuse("channel", "must be all, job: and the id of a job, or queue: and the name of a queue")
	}
	return f, nil
}

// StreamQuery is the query of a stream of what f lets through.
func StreamQuery(f job.EventFilter) url.Values {
	return query(map[string]string{
		"types":     strings.Join(f.Types, ","),
		"queues":    strings.Join(f.Queues, ","),
		"job_types": strings.Join(f.JobTypes, ","),
		"job_id":    string(f.JobID),
	})
}

// SeqText is how a Seq is written where the id of an event is wanted.
func SeqText(seq int64) string { return strconv.FormatInt(seq, 10) }

// Frame is one frame of a server-sent stream.
type Frame struct {
	ID, Event string
	Data      []byte
}

// Line adds a line, and reports whether the frame ends there. The line may be used again.
func (f *Frame) Line(line []byte) (ends bool) {
	if len(line) == 0 {
		return true
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "id":
		f.ID = string(value)
	case "event":
		f.Event = string(value)
	case "data":
		if f.Data != nil {
			f.Data = append(f.Data, '\n')
		}
		f.Data = append(f.Data, value...)
	}
	return false
}

// ReadStreamData reads what a stream in the dialect OfEvents says of an event.
func ReadStreamData(data []byte) (e job.Event, err error) {
	var v struct {
		ID    string          `json:"id"`
		Event string          `json:"event"`
		Time  time.Time       `json:"timestamp"`
		Data  json.RawMessage `json:"data"`
	}
	if err := read(data, &v); err != nil {
		return e, err
	}
	e = job.Event{Type: v.Event, Time: v.Time}
	if e.Seq, err = ParseEventID(v.ID); err == nil {
		err = readEventData(&e, v.Data)
	}
	if err != nil {
		return e, unread(err)
	}
	return e, nil
}
