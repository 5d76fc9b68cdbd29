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
// that take many at once. If one fails, all of its transaction is rolled back, and it is handled
// by itself.
//
// The effects that the handler writes in the transaction happen once, however often the
// message is delivered. Effects elsewhere happen at least once.
//
// Consumers of one process share one thing, whatever their stores: of the messages that are suspected
// of having ended the process, one is handled at a time. Another one waits for HandlerTimeout at
// most, and is put back then.
package consumer
