package deadletter

// The headers of a dead letter that is published as a message, see service.LettersTo.
const (
	HeaderConsumer = "waybill-dead-consumer" // the consumer that dead-lettered it
	HeaderReason   = "waybill-dead-reason"   // a waybill.Reason
	HeaderError    = "waybill-dead-error"    // of the last attempt
	HeaderAttempts = "waybill-dead-attempts" // a number
	HeaderTopic    = "waybill-dead-topic"    // where the message came from
)
