package wire

import (
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// DecodeMaintenance reads what becomes of a maintenance (contract §3.23). duration, or
// estimated_duration, is a number of seconds, ISO 8601, or such as 90s, 24h or 7d.
func DecodeMaintenance(raw []byte) (ask job.MaintenanceAsk, err error) {
	said, length := false, ""
	err = object(raw, "", func(member string, v json.RawMessage) (err error) {
		switch member {
		case "enabled":
			said = true
			ask.On, err = boolean(v, member)
		case "reason":
			ask.Reason, err = text(v, member)
		case "duration", "estimated_duration":
			if length != "" {
				return refuse(member, "is given beside "+length+": one of them is enough")
			}
			length = member
			ask.Duration, err = lasting(v, member)
		default:
			err = refuse(short(member), "is not known; a maintenance has enabled, reason and duration")
		}
		return err
	})
	if err == nil && !said {
		err = refuse("enabled", "is required: true begins a maintenance, false ends it")
	}
	return ask, err
}

// lasting is a length of time of more than 0.
func lasting(v json.RawMessage, field string) (d time.Duration, err error) {
	if v[0] == '"' {
		s, ok := rawjson.Unquote(v), false
		if d, ok = job.ParseSpan(s); !ok {
			return 0, refuse(field, "must be a number of seconds, ISO 8601, or such as 90s, 24h or 7d"+got(v))
		}
	} else if d, err = pause(v, field); err != nil {
		return 0, err
	}
	if d <= 0 {
		return 0, refuse(field, "must be more than 0; without it the maintenance lasts until it is ended"+got(v))
	}
	return d, nil
}

// AppendMaintenance appends whether the server is in maintenance, each time under the two
// names that public clients read.
func AppendMaintenance(dst []byte, m job.Maintenance) []byte {
	b := rawjson.Object(dst)
	maintenance(&b, m)
	return b.Close()
}

func maintenance(b *rawjson.Writer, m job.Maintenance) {
	b.Bool("enabled", m.On).Bool("maintenance", m.On).Optional("reason", m.Reason)
	b.Time("started_at", m.Started).Time("enabled_at", m.Started)
	b.Time("ends_at", m.Ends).Time("estimated_end", m.Ends)
}

// inMaintenance appends a maintenance that goes on, so that nobody forgets it.
func inMaintenance(b *rawjson.Writer, m job.Maintenance) {
	if !m.On {
		return
	}
	b.Object("maintenance").Bool("enabled", true).Optional("reason", m.Reason).Time("started_at", m.Started).Time("ends_at", m.Ends).End()
}

// maintenanceObject is a maintenance as answers hold it.
type maintenanceObject struct {
	On      bool      `json:"enabled"`
	Reason  string    `json:"reason"`
	Started time.Time `json:"started_at"`
	Ends    time.Time `json:"ends_at"`
}

// ReadMaintenance reads whether the server is in maintenance.
func ReadMaintenance(body []byte) (job.Maintenance, error) {
	var r *maintenanceObject
	if err := read(body, &r); err != nil {
		return job.Maintenance{}, err
	}
	return job.Maintenance(*r), nil
}

// MaintenanceBody is the body that begins or ends a maintenance.
func MaintenanceBody(ask job.MaintenanceAsk) []byte {
	b := begin()
	b.Bool("enabled", ask.On).Optional("reason", ask.Reason)
	if ask.Duration > 0 {
		b.Str("duration", job.Period(ask.Duration))
	}
	return b.Close()
}
