// Package relaycore decides what a relay does. It has no effects itself: [Core.Step] takes one event and
// returns the commands that follow from it. There is no goroutine, clock, lock or I/O here; time and
// randomness are arguments. The same events give the same commands, which the simulator (internal/sim)
// relies on. Package relay, the shell, carries the commands out and sends back their results as events.
//
// After each event a step does everything that can be done, in this order: watch batches in flight,
// renew the lease, send, claim, settle. What is not yet due needs a [Tick] then ([Core.Next]).
//
// A message in the relay:
//
//	claimed ─┬─ malformed, expired, early, unrouted, several destinations ─────────────▶ outcome
//	         ├─ an earlier message of its unit waits in the store ───▶ outcome: behind it
//	         └─▶ line of its unit ─┬─▶ batch ─┬─ accepted ───────────▶ outcome: published
//	                 ▲     │       │          ├─ refused ────────────▶ outcome: wait, or dead letter
//	                 │     └ defer ┘          └─ not answered ─┐
//	                 │       └▶ outcome: wait                  │
//	                 └─────────────────────────────────────────┘
//	outcome ─▶ settled together with others ─▶ forgotten
//
// A unit is a destination, a topic and a key. A unit with a key has at most one batch in flight, and
// none while an outcome that later messages must not overtake is being stored (line.closed), or while
// the first of them waits in the store (line.behind).
//
// A topic of a destination:
//
//	       slow, not answered, unroutable
//	main ──────────────────────────────────▶ isolated: a queue with a breaker of its own
//	  ▲                                         │
//	  └────── a batch is answered quickly ──────┘
//
// A destination that answers nothing at all is paused as a whole. The rules, by file:
//
//   - lease.go: lanes, epochs, leaving, and when a relay lets its lease expire on purpose
//   - claim.go: when, how much and from which lanes to read; where a claimed message goes
//   - ahead.go: how a relay that is behind finds the messages of tenants with a small backlog
//   - held.go: which messages are held, and where
//   - queue.go: what is next: tenants round robin, positions in order
//   - batch.go, answer.go: what is sent together, what the answers mean, what is paused
//   - dest.go: isolated topics; which message ends connections (suspects)
//   - defer.go: which messages are moved to the waiting rows when memory is short
//   - outcome.go, settle.go: the outcome of a message; storing it, even if the store refuses some
//   - attempts.go, pace.go: backoff after repeated failures; rate limits
//   - health.go: when the relay is unhealthy
package relaycore
