package sqlitestore

import "golang.org/x/sys/windows"

// space is how many bytes this process may still write to the file system of a
// folder, and how many that has in all.
func space(dir string) (free, total uint64, err error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err == nil {
		err = windows.GetDiskFreeSpaceEx(name, &free, &total, nil)
	}
	return free, total, err
}
