package job

import "testing"

// TestColumnsRefuseWhatTheyNeverHeld: a column whose bytes cannot be what was
// written is told by its Set, whichever it is.
func TestColumnsRefuseWhatTheyNeverHeld(t *testing.T) {
	t.Parallel()
	for i := range rows {
		m := &rows[i]
		if m.column == "" {
			continue
		}
		damaged := map[string]any{"a fraction": 1.5, "a text that is no UTF-8": "\xff"}
		if m.size != nil {
			damaged["a text that is no JSON"] = "{"
		}
		for what, v := range damaged {
			if m.set(&Job{}, v) {
				t.Errorf("%s takes %s", m.column, what)
			}
		}
	}
}
