package outbox

import "time"

// How often an option that nobody knows is told, and how many are remembered.
const (
	warnAgain = time.Hour
	warnMost  = 1000
)

// warn says which options of a row nobody reads: once an hour for each name, as
// an app writes the same in every row.
func (r *Relay) warn(l message) {
	now := r.o.Now()
	for _, w := range l.job.Warnings() {
		if at, told := r.warnedOf[w.Field]; told && now.Sub(at) < warnAgain {
			continue
		}
		if r.warnedOf == nil || len(r.warnedOf) >= warnMost {
			r.warnedOf = map[string]time.Time{}
		}
		r.warnedOf[w.Field] = now
		r.o.Log.Warn("outbox: a row has an unknown option; such rows are logged once an hour",
			"outbox", r.o.Name, "table", r.d.sql.Table, "row", l.row.id, "job", string(l.job.ID()), "warning", w.Message)
	}
}
