package inspect

import "time"

// Upkeep is how well a database keeps up with removing dead rows of the outbox, and what keeps it from doing so.
type Upkeep struct {
	// DeadRows is how many dead rows the outbox has: the database's estimate.
	DeadRows int64

	// OldestOpen is the age of the oldest open transaction that has not enqueued, OldestEnqueued that of the
	// oldest that has: its messages wait for its commit. 0 if there is none.
	OldestOpen, OldestEnqueued time.Duration

	// Held is how many transactions have begun since the oldest one from which on dead rows stay, by the kind of
	// what keeps them, such as "replication slot". 0 if nothing of that kind does.
	Held map[string]int64

	// ArchiveDays is how many days, from today on, have a place in the archive.
	ArchiveDays int
}
