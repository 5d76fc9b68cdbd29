// Package relay moves committed messages from a store to a broker.
//
// It delivers each message at least once, in order per topic and key, from any number of
// replicas. Keys are hashed into lanes; a lane is leased by one relay at a time. The relay reads
// ahead, and at most one batch per key is in flight:
//
//	claim ──▶ publish ──▶ settle: published → archive, or gone
//	  ▲                           retry     → waiting rows ─┐
//	  │                           dead      → dead letters  │ due
//	  └─────────────────────────────────────────────────────┘
//
// Claiming changes nothing, so a crash at any point loses no message: what was
// published and not settled is published again, under the same id. A settlement matches the
// lane's epoch, so that a relay that was taken for dead and wakes up late changes nothing.
//
// A failure of a single message (see the kinds in package waybill) is retried with growing delays,
// and then the message becomes a dead letter; what follows it in its topic and key waits behind it. What
// fails because the broker does not answer pauses the destination, or the topic if others
// are answered, and counts no attempt.
package relay
