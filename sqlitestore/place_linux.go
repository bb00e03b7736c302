package sqlitestore

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// lookAt is lookByStat that does not ask when the file was written. After
// somebody has asked, Linux from 6.13 on gives the next write an exact timestamp in
// place of the one of the clock tick: then each flush of the log, and there are many
// in a tick, must write the inode, too.
func lookAt(path string) (fileID, int64, error) {
	var st unix.Statx_t
	for {
		switch err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_SIZE, &st); err {
		case nil:
			return fileID{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino}, int64(st.Size), nil
		case unix.EINTR:
		case unix.ENOSYS, unix.EPERM: // before Linux 4.11, and in containers that forbid what is newer than they
			return lookByStat(path)
		default:
			return fileID{}, 0, err
		}
	}
}

// mounted reports whether a file is mounted by itself.
func mounted(path string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_TYPE, &st)
	if err == nil && st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	return err == nil && mountPoint(string(table), path)
}

// mountPoint finds a file in a table of mounts (proc_pid_mountinfo(5)), for
// kernels before 5.8, whose statx(2) does not show it.
func mountPoint(table, path string) bool {
	path, err := filepath.Abs(path)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return false
	}
	path = strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`).Replace(path)
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == path {
			return true
		}
	}
	return false
}

// networkFS names the network file system that holds dir, or is empty.
func networkFS(dir string) string {
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) != nil {
		return "" // what cannot be asked is found out by the pragmas
	}
	return networkName(uint32(st.Type))
}

// networkName names a magic number of statfs(2) that stands for a network file system.
func networkName(magic uint32) string {
	switch magic {
	case 0x6969:
		return "NFS"
	case 0xff534d42, 0xfe534d42, 0x517b:
		return "SMB"
	case 0x01021997:
		return "9P"
	case 0x00c36400:
		return "Ceph"
	case 0x5346414f, 0x6b414653:
		return "AFS"
	case 0x73757245:
		return "Coda"
	}
	return ""
}
