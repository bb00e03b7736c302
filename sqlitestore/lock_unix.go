//go:build unix

package sqlitestore

import "syscall"

// noSurprise opens no link in the place of a file, and waits for nobody at a pipe.
const noSurprise = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
