package job

// A Room is the memory that the answer to one request may take. What reads jobs
// or events for it asks before it keeps another one, and ends the page when it is
// told no. A Room belongs to one request, and need not be safe for concurrent use.
type Room interface {
	// Take reports whether n more bytes fit, and counts them if they do. It never waits.
	Take(n int) bool
	// Reset gives back what was taken: the reading begins again.
	Reset()
}

// NoRoom says that there is no memory even for the first of what was asked for.
func NoRoom() error {
	return Errorf(Unavailable, "the server has no memory left for an answer as large as this one: others are being read at the moment; ask again, with a smaller limit if there is one, or raise the server's memory limit")
}

// Size is about how many bytes of memory the job takes.
func (j *Job) Size() int {
	n := 1024
	for _, size := range sizes {
		n += size(j)
	}
	return n
}

// Size is about how many bytes of memory the event takes.
func (e *Event) Size() int { return 256 + len(e.Data) }
