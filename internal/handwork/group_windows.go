package handwork

import (
	"os/exec"
	"strconv"
	"syscall"
)

// shell is a command that runs a line of cmd.exe, as it stands.
func shell(line string) *exec.Cmd {
	cmd := exec.Command("cmd.exe")
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `cmd.exe /d /s /c "` + line + `"`}
	return cmd
}

// ownGroup keeps a Ctrl-C at the terminal from the command.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr.CreationFlags = syscall.CREATE_NEW_PROCESS_GROUP }

// askToEnd ends the command at once, and all that it has started: there is no SIGTERM.
func askToEnd(pid int) { endGroup(pid) }

func endGroup(pid int) {
	_ = exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(pid)).Run() // who has ended meanwhile needs none
}

func awaitExit(int) bool { return false }

// ended is the exit code of a command.
func ended(state any) (code int, signal string) {
	s, ok := state.(syscall.WaitStatus)
	if !ok {
		return -1, ""
	}
	return s.ExitStatus(), ""
}

// apart keeps the signals of the terminal from a process.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
