// Package netguard keeps the socket of the server: where it listens, how many
// connections there are and whose, how long a request may take, and that it is
// clear where each request ends.
//
// It may import job, for the errors of a request, and internal/rawjson, for the
// one answer that it gives itself. It must never decide what a request asks for or
// how that is answered: sidecar/httpapi does.
package netguard
