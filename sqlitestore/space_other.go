//go:build !linux && !darwin && !freebsd && !windows

package sqlitestore

import "errors"

// space cannot be asked for here.
func space(string) (free, total uint64, err error) { return 0, 0, errors.ErrUnsupported }
