package sqlitestore

import (
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// row reads the columns of one row in turn.
type row[V any] struct {
	v   []V
	i   int
	bad bool // a column was of another type than is ever written
}

func (r *row[V]) next() any {
	r.i++
	return any(r.v[r.i-1])
}

// column is the next column, which is a T or NULL.
func column[T, V any](r *row[V]) (c T, ok bool) {
	v := r.next()
	c, ok = v.(T)
	r.bad = r.bad || !ok && v != nil
	return c, ok
}

func (r *row[V]) str() string {
	s, _ := column[string](r)
	return s
}

func (r *row[V]) raw() json.RawMessage {
	if s := r.str(); s != "" {
		return json.RawMessage(s)
	}
	return nil
}

func (r *row[V]) int() int64 {
	n, _ := column[int64](r)
	return n
}

func (r *row[V]) time() time.Time {
	if n, ok := column[int64](r); ok {
		return time.UnixMilli(n).UTC()
	}
	return time.Time{}
}

func (r *row[V]) id() job.ID {
	b := r.blob()
	if len(b) != 16 {
		r.bad = true
		return ""
	}
	return job.IDOf([16]byte(b))
}

func (r *row[V]) blob() []byte {
	b, _ := column[[]byte](r)
	return b
}

// jobFrom reads the columns of jobColumns.
func jobFrom[V any](values []V) (kept, error) {
	j, ok := &job.Job{}, true
	n, numbered := any(values[0]).(int64)
	for i := range allColumns {
		if v := any(values[i+1]); v != nil {
			ok = allColumns[i].Set(j, v) && ok
		}
	}
	if !ok || !numbered || !whole(j) {
		if j.ID == "" {
			return kept{}, unreadable("the job with the number %d", n)
		}
		return kept{}, unreadable("job %s", j.ID)
	}
	return kept{j, n}, nil
}
