package sqlitestore

import "syscall"

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
