// Package consumer runs a handler once per message.
//
// A [Consumer] takes deliveries from a broker, opens a transaction, records the message in
// the inbox, and runs the handler in that transaction. Only after the commit is the message
// acknowledged:
//
//	deliver ─▶ begin ─▶ inbox insert ─▶ handler ─▶ commit ─▶ ack
//	              │ there already: skip, ack
//	              └ handler fails: roll back, retry later, in the end dead letter, ack
//
// With [Config].BatchSize a transaction takes several messages, and [NewBatch] is for handlers
// that take many at once. If one fails, its whole transaction is rolled back, and it is handled by
// itself.
//
// The effects that the handler writes in the transaction happen once, however often the
// message is delivered. Effects elsewhere happen at least once.
//
// Consumers of one process, whatever their stores, handle messages that are suspected of having
// killed the process one by one. Another one waits for at most HandlerTimeout, and is then requeued.
package consumer
