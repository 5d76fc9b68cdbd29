// Package waybill holds the vocabulary of transactional messaging: the [Message] that
// travels, and the kinds of failure.
//
// A service writes its business rows and its messages in one database transaction
// (package outbox). A relay moves committed messages to a broker (package relay). A
// consumer runs a handler once per message, in the transaction that records the message
// as processed (packages consumer and inbox). What fails for good is kept as a dead
// letter (package deadletter). Package service runs all of these together. Packages schedule, saga
// and request build on them: delayed and recurring messages, processes of several messages, and
// request and reply. Stores and brokers live under store/ and broker/; they import this package, never
// the other way round.
//
// Delivery is at least once. Effects are effectively once where the effect and the inbox
// record share one database transaction; docs/guarantees.md says where that is.
package waybill
