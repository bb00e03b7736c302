//go:build !unix

package main

import "os"

// notifyHangups does nothing: there is no SIGHUP here.
func notifyHangups(chan<- os.Signal) (stop func()) { return func() {} }
