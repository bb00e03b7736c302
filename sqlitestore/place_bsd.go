//go:build unix && !linux

package sqlitestore

func lookAt(path string) (fileID, int64, error) { return lookByStat(path) }
