package wire

import (
	"strconv"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// AppendPulse appends the metrics of a server-sent stream.
func AppendPulse(dst []byte, m Pulse) []byte {
	return sent(dst, "metrics", func(dst []byte) []byte { return m.append(dst) })
}

// Pulse is how the server does (contract §3.18). Rates are per second.
type Pulse struct {
	Queues                      []job.Queue
	Workers                     []job.WorkerInfo
	Enqueued, Processed, Failed float64
	At                          time.Time
}

func (m Pulse) append(dst []byte) []byte {
	b := rawjson.Object(dst)
	objects(&b, "queues", m.Queues, func(b *rawjson.Writer, q job.Queue) {
		b.Str("queue", q.Name)
		for _, s := range []job.State{job.Available, job.Active, job.Scheduled, job.Retryable} {
			b.Int(string(s), q.Counts[s])
		}
	})
	b.Object("throughput")
	b.Raw("processed_per_second", decimal(m.Processed)).Raw("failed_per_second", decimal(m.Failed)).Raw("enqueued_per_second", decimal(m.Enqueued))
	b.End()
	b.Object("workers").Int("total", int64(len(m.Workers)))
	objects(&b, "active", m.Workers, func(b *rawjson.Writer, w job.WorkerInfo) {
		b.Str("id", w.ID).Str("state", stateOf(w)).Int("activeJobs", int64(w.Active)).Time("lastHeartbeatAt", w.BeatAt)
	})
	b.End()
	share := 0.0
	if all := m.Processed + m.Failed; all > 0 {
		share = m.Failed / all
	}
	return b.Raw("error_rate", decimal(share)).Time("timestamp", m.At).Close()
}

// decimal is a number with at most three places.
func decimal(f float64) []byte {
	return strconv.AppendFloat(nil, float64(int64(f*1000+0.5))/1000, 'f', -1, 64)
}

// AppendProgressFrames appends a report of progress twice: under its name, and without one
// for readers who listen to nothing else.
func AppendProgressFrames(dst []byte, e job.Event, p Progressing) []byte {
	dst = append(AppendEventID(append(dst, "id: "...), e), '\n')
	return AppendProgressNow(dst, p)
}

// AppendProgressNow appends how far a job is when a stream of its progress begins, twice, too.
func AppendProgressNow(dst []byte, p Progressing) []byte {
	return sent(sent(dst, "progress", p.append), "", p.append)
}

// AppendProgressEnd appends how a job has ended to the stream of its progress.
func AppendProgressEnd(dst []byte, e job.Event, p Progressing) []byte {
	dst = append(AppendEventID(append(dst, "id: "...), e), '\n')
	word := string(p.State)
	if p.State == job.Discarded {
		word = "failed"
	}
	return sent(dst, word, p.append)
}

// Progressing is how far a job is.
type Progressing struct {
	ID       job.ID
	State    job.State
	Progress *job.Progress // nil: nothing was ever told
}

func (p Progressing) append(dst []byte) []byte {
	b := progress(dst, p.ID, p.State, p.Progress)
	return b.Close()
}
