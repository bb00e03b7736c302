// Package handwork is a worker for programs without an SDK: a job becomes a command of
// the shell, or a POST to a web server, and what comes of that becomes an ACK or a FAIL.
// docs/work.md has the tables that this package keeps.
//
// It must never lose a job, whatever a command does: an attempt whose command was not
// seen to end well is failed or given back, never acknowledged. And it must leave no
// process behind: every command has a process group of its own, which is ended with it.
package handwork
