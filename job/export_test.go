package job

// Row is what the table says of a field, for the tests that carry each field through
// a whole server.
type Row struct {
	Shape                          byte
	Unshown, Unsent, Unkept, Fixed string
	Rewritten, Top                 bool
}

// RowOf finds the row of a field of Envelope or Status.
func RowOf(field string) (Row, bool) {
	for _, m := range rows {
		if m.field == field {
			return Row{m.shape, m.unshown, m.unsent, m.unkept, m.fixed, m.rewritten, m.top}, true
		}
	}
	return Row{}, false
}
