//go:build !unix

package readfile

// openAtOnce is for Unix, where pipes have names like those of files.
const openAtOnce = 0
