package sqlitestore

import "testing"

func TestLinesOfLocks(t *testing.T) {
	for line, want := range map[string]heldLock{
		"1: POSIX  ADVISORY  WRITE 123 08:01:456 120 120":        {123, true, 456, 120, 120},
		"22: POSIX  ADVISORY  READ 7 fd:01:18446744 123 127":     {7, false, 18446744, 123, 127},
		"3: POSIX  ADVISORY  WRITE 9 00:2f:12 1073741824 EOF":    {9, true, 12, 1 << 30, 1 << 62},
		"3: -> POSIX  ADVISORY  WRITE 9 00:2f:12 1073741824 EOF": {},
		"4: OFDLCK ADVISORY  READ -1 08:01:456 0 EOF":            {},
		"4: FLOCK  ADVISORY  WRITE 5 08:01:456 0 EOF":            {},
		"5: POSIX  ADVISORY  WRITE 0 08:01:456 120 120":          {},
		"6: POSIX  ADVISORY  WRITE x 08:01:y 120 120":            {},
		"": {},
	} {
		if got, ok := parseLock(line); ok != (want != heldLock{}) || ok && got != want {
			t.Errorf("%q is %+v, %v", line, got, ok)
		}
	}
}
