// Package schedule makes the jobs of schedules when they are due (contract §4.16):
// it keeps the schedules of a service, plans them by the clock, and in one
// transaction claims a tick and stores its job. It may import job and cronsched.
// It must never store a job past the transactions of its host, decide when an
// expression is due, which is cronsched's, or hold a transaction open to wait.
package schedule
