// Package relaycore decides what a relay does. It does nothing itself: [Core.Step] takes in one event
// and returns the commands that follow from it. There is no goroutine, clock, lock or I/O here; time and
// chance are arguments. The same events give the same commands, which is what the simulator
// (internal/sim) relies on. Package relay carries the commands out and sends back what came of them.
//
// After each event a step does whatever can be done, in this order: look after batches in flight, renew
// the lease, send, claim, settle. What is put off because its time has not come wants a [Tick] then
// ([Core.Next]).
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
// A unit is a destination, a topic and a key. Of a unit with a key one batch is in flight at a time, and
// none while an outcome that later messages must not pass is being stored (line.closed), or while the
// first of them waits in the store (line.behind).
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
//   - lease.go: lanes, epochs, leaving, and when a relay lets its lease run out on purpose
//   - claim.go: when, how much and from which lanes to read; where a claimed message goes
//   - ahead.go: how a relay that is behind finds the messages of tenants with little
//   - held.go: what is held, and where
//   - queue.go: what is next: tenants by turns, positions in order
//   - batch.go, answer.go: what is sent together, what the answers mean, what is paused
//   - dest.go: isolated topics; which message ends connections (suspects)
//   - defer.go: what has no room in memory is put into the waiting rows
//   - outcome.go, settle.go: what becomes of a message; storing it, also where the store refuses
//   - attempts.go, pace.go: what fails again and again, and is put off; rates
//   - health.go: when the relay is not well
package relaycore
