package sqlitestore

import (
	"database/sql/driver"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/outrider-jobs/outrider/job"
)

// narrow is an insert of rows that are as fresh but for some columns, which are bound
// behind the number. The others of fresh that are not NULL stand in the statement.
type narrow struct {
	head  string         // of the statement, before the values
	row   string         // the values of one
	bound []int          // by their place among the columns of the table
	width int            // how many values one row has
	fresh []driver.Value // all columns of a fresh job; what is bound does not count
	free  []bool         // which are bound
}

func narrowTo(table string, cs []job.Column, bound ...string) (n narrow) {
	n.fresh = valuesOf(nil, cs, &job.Job{Status: job.Status{State: job.Available}})
	n.free = make([]bool, len(cs))
	names, values := []string{"n"}, []string{"?"}
	for i, c := range cs {
		if slices.Contains(bound, c.Name) {
			n.bound, n.free[i] = append(n.bound, i), true
			names, values = append(names, c.Name), append(values, "?")
		} else if v, ok := n.fresh[i].(int64); ok {
			names, values = append(names, c.Name), append(values, strconv.FormatInt(v, 10))
		} else if n.fresh[i] != nil {
			panic("sqlitestore: " + c.Name + " of a fresh job is neither NULL nor a number")
		}
	}
	n.head = "INSERT OR IGNORE INTO " + table + " (" + strings.Join(names, ", ") + ")\nVALUES "
	n.row = "(" + strings.Join(values, ", ") + ")"
	n.width = len(n.bound) + 1
	return n
}

// sql is the insert of some rows. What cannot be stored is left out, and seen by the
// count: so SQLite need not keep a journal of the statement.
func (n *narrow) sql(rows int) string {
	return n.head + n.row + strings.Repeat(",\n"+n.row, rows-1)
}

// holds reports whether the values of all columns are as fresh but for those that are bound.
func (n *narrow) holds(values []driver.Value) bool {
	for i, v := range values {
		if !n.free[i] && v != n.fresh[i] {
			return false
		}
	}
	return true
}

// keep appends those of the values of all columns that are bound.
func (n *narrow) keep(args, values []driver.Value) []driver.Value {
	for _, i := range n.bound {
		args = append(args, values[i])
	}
	return args
}

// sized are the statements of a narrow insert: of 1, 2, 4 … rows.
type sized struct {
	narrow *narrow
	of     [6]*stmt
}

func (s *sized) prepare(conn driver.Conn) (err error) {
	for i := range s.of {
		if s.of[i], err = prepare(conn, s.narrow.sql(1<<i)); err != nil {
			return err
		}
	}
	return nil
}

// insertRows stores rows, as many in one statement as may be, and says whether all went in.
func (t *tx) insertRows(s *sized, args []driver.Value) (all bool, err error) {
	width := s.narrow.width
	for len(args) > 0 {
		size := min(bits.Len(uint(len(args)/width))-1, len(s.of)-1)
		n, err := t.do(s.of[size], args[:width<<size]...)
		if err != nil || n < 1<<size {
			return false, err
		}
		args = args[width<<size:]
	}
	return true, nil
}
