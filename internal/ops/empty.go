package ops

// Texts for empty lists.
const (
	NoMessages        = "No message matches."
	NothingPending    = "Nothing waits to be published."
	OutboxEmpty       = "The outbox is empty."
	NoLetters         = "There are no dead letters."
	NoLetterMatches   = "No dead letter matches."
	NothingToBe       = "No dead letter matches; nothing is to be %s." // requeued, for example
	NoReplays         = "There are no bulk replays."
	NoEntries         = "The audit log has no such entry."
	NoSchedules       = "There are no recurring schedules."
	NoScheduled       = "No message waits for its time."
	NoTraffic         = "Nothing was recorded in this time."
	NoInstances       = "There are no instances of sagas."
	NoInstanceMatches = "No instance matches."
)
