// Package webhooks sends the events of a job server to those who subscribed to them
// (contract §3.24), and keeps the subscriptions.
//
// [Webhooks] is the [job.WebhookService] of a process, and [Webhooks.Run] its deliverer. It
// follows the log of events: what a webhook wants is sent at once, and what fails is put
// aside and sent again 30 s, 2 m, 10 m, 1 h, 4 h, 12 h and 24 h later. A delivery comes at
// least once, with the same id each time, and never twice at the same moment. The order of
// events is that of the log at the first attempt, and no order is promised between those
// that are tried again and others.
//
// Nothing is sent to an address that the operator has not allowed: see [Allowed].
package webhooks
