// Package schedule enqueues messages later: once at a given time, or repeatedly.
//
// A [Scheduler] keeps a message for later in the caller's transaction, under an id that the
// caller may choose. Until it is due the message can be cancelled or rescheduled; then the relay
// moves it into the outbox under the same id, and it is published like any other message.
//
//	      At, After                      due: the relay, one transaction
//	tx ──────────────▶ scheduled rows ──────────────────────────────────▶ outbox ──▶ broker
//	                                                                        ▲
//	      Put                            due: a Runner, one transaction     │
//	tx ──────────────▶ schedules ───────────────────────────────────────────┘
//
// A [Recurring] schedule enqueues its message by a cron expression or at an interval, in a time
// zone. A [Runner] does that when it is due. Each occurrence has an id made of the name of the
// schedule and the planned time, and the transaction that enqueues it advances the schedule if no
// other runner has: any number of runners enqueue it once, and a crash neither loses nor duplicates
// it.
//
// The clock of the database decides what is due. github.com/robfig/cron/v3 reads cron
// expressions and computes their times.
package schedule
