// Package saga runs processes of several messages: the state of a process is kept as a row, and
// each message changes it once.
//
// A [Saga] is plain Go: a caller-defined struct for the data, and a [Rule] for each type of
// message. An [Instance] is one process, such as the handling of one order. It is found by a
// function of the message, and changed in the transaction of the consumer's inbox: data, the
// entry in its log, messages that go out and timeouts commit together with the record that the
// message was processed.
//
//	message ─▶ inbox ─▶ rule ─▶ instance + log ─▶ outbox, timeouts ─▶ commit
//
// If two messages change an instance at the same time one commits, and the other is handled again
// with the result of the first. An instance that has ended is kept for the retention, so that a
// late message does not start it again.
//
// For processes that are a list of steps, each with its compensation, there are [Step]s.
// "waybill saga" and the dashboard show which instances need a person, who acts there or
// through an [Operator].
package saga
