package job

// Epoch is one opening of a store, from then until it is opened again.
type Epoch struct {
	ID    string // random: no two openings of any file have the same
	After int64  // Seq of the last event before it
}

// MaxEpochs is how many epochs a store remembers, the newest ones.
const MaxEpochs = 1000

// Lineage is how a store has come to be what it is: its openings, oldest first,
// the last one now. It is kept in the store, so a copy has that of its original
// up to the moment at which it was made, and then goes on by itself.
type Lineage []Epoch

// Holds reports whether a store of this lineage holds what was stored in an
// epoch up to an event. A store that does not is an older copy of the one that
// said so, or one that went another way.
func (l Lineage) Holds(epoch string, seq int64) bool {
	for i, e := range l {
		if e.ID == epoch {
			return i == len(l)-1 || seq <= l[i+1].After
		}
	}
	return false
}

// Now is the epoch that has not ended. Of an empty lineage it is the zero Epoch.
func (l Lineage) Now() Epoch {
	if len(l) == 0 {
		return Epoch{}
	}
	return l[len(l)-1]
}

// Aging reports whether an epoch is one that the store will forget some day, so
// that whoever keeps it should take a newer one.
func (l Lineage) Aging(epoch string) bool {
	for _, e := range l[max(0, len(l)-MaxEpochs/2):] {
		if e.ID == epoch {
			return false
		}
	}
	return true
}
