package inbox

// Partition identifies an ordered partition of a broker's topic as read by one consumer group. It
// uses the broker's names.
type Partition struct {
	Group  string
	Topic  string
	Number int32
}

// Holder is the member of a consumer group that processes a partition. The group's generation rises
// each time that partitions are assigned.
type Holder struct {
	Generation int32
	Member     string
}

// Position is the position of a message received by the holder of a partition.
type Position struct {
	Partition
	Holder
	Offset int64

	// Once says that the message is stored at this offset only: the progress of the partition shows
	// whether it was processed, and no record is needed.
	Once bool
}
