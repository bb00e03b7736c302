package wire

import (
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// What a client asks over a WebSocket, and what it is answered (contract §3.18).
const (
	Subscribe    = "subscribe"
	Unsubscribe  = "unsubscribe"
	Resume       = "resume"
	Subscribed   = "subscribed"
	Unsubscribed = "unsubscribed"
)

// SocketMessage is what a client asks.
type SocketMessage struct {
	Action  string
	Channel string
	Filter  job.EventFilter
	After   int64  // Seq of the last event that the client has seen; FromNow without one
	Asked   string // its id
}

// NoEvent is the Seq of no event: where a reader who names an id that is none goes on.
const NoEvent = 1<<63 - 1

// DecodeSocket reads what a client asks. With an error Channel is there as far as it is known.
func DecodeSocket(raw []byte) (m SocketMessage, err error) {
	m.After = job.FromNow
	var filter json.RawMessage
	err = object(raw, "", func(name string, v json.RawMessage) (err error) {
		switch name {
		case "action":
			m.Action, err = text(v, name)
		case "channel":
			m.Channel, err = text(v, name)
		case "filter":
			filter = v
		case "last_event_id":
			m.Asked, err = text(v, name)
		}
		return err
	})
	if err != nil {
		return m, err
	}
	switch {
	case m.Action != Subscribe && m.Action != Unsubscribe && m.Action != Resume:
		return m, refuse("action", "must be subscribe, unsubscribe or resume")
	case m.Channel == "":
		return m, refuse("channel", "is required: all, job: and the id of a job, or queue: and the name of a queue")
	case m.Action == Resume && m.Asked == "":
		return m, refuse("last_event_id", "is required: the id of the last event that was seen")
	}
	if m.Filter, err = Channel(m.Channel); err != nil {
		return m, err
	}
	if m.Asked != "" {
		if m.After, err = ParseEventID(m.Asked); err != nil {
			m.After, err = NoEvent, nil
		}
	}
	if filter == nil {
		return m, nil
	}
	return m, socketFilter(filter, &m.Filter)
}

// socketFilter narrows what a channel lets through.
func socketFilter(raw json.RawMessage, f *job.EventFilter) error {
	var queues []string
	err := object(raw, "filter", func(name string, v json.RawMessage) (err error) {
		switch name {
		case "event_types":
			f.Types, err = names(v, "filter.event_types", maxListed)
			f.Types = dotted(f.Types)
		case "queues":
			queues, err = names(v, "filter.queues", maxListed)
		case "job_types":
			f.JobTypes, err = names(v, "filter.job_types", maxListed)
		default:
			err = refuse("filter."+short(name), "is not part of a filter; there are event_types, queues and job_types")
		}
		return err
	})
	if err != nil {
		return err
	}
	if len(queues) > 0 && len(f.Queues) > 0 {
		return refuse("filter.queues", "is said twice, also by the channel; leave one of them out")
	}
	f.Queues = append(f.Queues, queues...)
	return nil
}

// AppendSocketPrefix appends what a message about an event begins with.
func AppendSocketPrefix(dst []byte, channel string) []byte {
	b := onChannel(dst, "event", channel)
	return append(b, ',')
}

// onChannel begins a message about a channel.
func onChannel(dst []byte, kind, channel string) rawjson.Writer {
	b := rawjson.Object(dst)
	b.Str("type", kind).Optional("channel", channel)
	return b
}

// AppendSocketReply appends that something was done.
func AppendSocketReply(dst []byte, kind, channel string, now time.Time) []byte {
	b := onChannel(dst, kind, channel)
	return b.Time("timestamp", now).Close()
}

// AppendSocketError appends why something was not done.
func AppendSocketError(dst []byte, channel string, err error, now time.Time) []byte {
	b := onChannel(dst, "error", channel)
	return b.Str("code", AnswerTo(err).Code).Str("message", outside(err)).Time("timestamp", now).Close()
}

// AppendSocketGap appends that events behind an id are missing.
func AppendSocketGap(dst []byte, channel, asked string, now time.Time) []byte {
	b := onChannel(dst, "warning", channel)
	b.Str("code", GapEvent).Str("event", GapEvent).Str("message", gapText).Raw("data", gap(nil, asked, now))
	return b.Time("timestamp", now).Close()
}

// AppendSocketSlow appends that the connection ends because the client is too slow.
func AppendSocketSlow(dst []byte, channel string, now time.Time) []byte {
	b := onChannel(dst, "warning", channel)
	b.Str("code", "slow_reader").Str("message", "what there is to tell was not taken in time, so the connection ends; connect again and resume with last_event_id")
	return b.Time("timestamp", now).Close()
}
