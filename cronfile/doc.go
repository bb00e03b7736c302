// Package cronfile reads a file of schedules in YAML or JSON, compares it with
// the schedules of a server, and makes the server's what the file says. What a
// file in JSON says of a job stays as it is, byte for byte.
//
// It may import job, cronsched and internal/rawjson. It must never decide when a
// schedule fires (cronsched does), what a schedule may be (job does) or where a
// file lies, how it is read and how a change is printed (the program does).
package cronfile
