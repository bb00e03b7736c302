package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Machine is where a run was. What is not known is left out; most of it is known
// on Linux only.
type Machine struct {
	CPU        string `json:"cpu_model,omitempty"`
	Kernel     string `json:"kernel,omitempty"`
	Memory     int64  `json:"memory_bytes,omitempty"`
	FileSystem string `json:"file_system,omitempty"` // of the folder of the private servers
	GOMAXPROCS int    `json:"gomaxprocs"`            // of the load generator; a server has one more than there are CPUs
}

func thisMachine(dir string) Machine {
	m := Machine{GOMAXPROCS: runtime.GOMAXPROCS(0)}
	if runtime.GOOS != "linux" {
		return m
	}
	// What cannot be read is left out.
	cpus, _ := os.ReadFile("/proc/cpuinfo")
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	memory, _ := os.ReadFile("/proc/meminfo")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	m.CPU = cpuModel(cpus)
	m.Kernel = strings.TrimSpace(string(kernel))
	m.Memory = kibField(memory, "MemTotal:")
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		m.FileSystem = fileSystem(mounts, real)
	}
	return m
}

// cpuModel is the name of the first processor in /proc/cpuinfo.
func cpuModel(info []byte) string {
	for line := range bytes.Lines(info) {
		if name, value, ok := bytes.Cut(line, []byte(":")); ok && string(bytes.TrimSpace(name)) == "model name" {
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}

// fileSystem is the type of the file system that dir is on: of the mounts that
// hold it the deepest, of several at one place the last (proc_pid_mountinfo(5)).
func fileSystem(mounts []byte, dir string) (kind string) {
	deepest := -1
	for line := range bytes.Lines(mounts) {
		before, after, ok := strings.Cut(string(line), " - ")
		f, rest := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 5 || len(rest) == 0 {
			continue
		}
		at := strings.TrimSuffix(f[4], "/")
		if (dir == at || strings.HasPrefix(dir, at+"/")) && len(at) >= deepest {
			kind, deepest = rest[0], len(at)
		}
	}
	return kind
}
