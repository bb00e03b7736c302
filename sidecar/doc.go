// Package sidecar is the job service in this process, and its background duties.
//
// A [Sidecar] answers job.Service over any job.Store: every verb is one
// transaction of the store around one pure rule of package job. [Sidecar.Run]
// does what a clock must do: make the jobs of schedules, let scheduled and
// retryable jobs into their queues, take jobs back from workers that fell silent,
// discard what expired and remove what is old.
//
// It may import job and sidecar/schedule. It must never decide what may become of
// a job, which package job does, nor store one or announce it but by way of a turn:
// what belongs to the transaction of a change is done as it is saved, and whoever
// must know of it is notified once it is committed.
package sidecar
