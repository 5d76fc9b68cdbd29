// Package schedule enqueues messages later: once at a time, or again and again.
//
// A [Scheduler] keeps a message for later in the caller's transaction, under an id that the
// caller may choose. Until it is due the message can be cancelled or put off; then the relay
// moves it into the outbox under the same id, and it goes the way of any other message.
//
//	      At, After                      due: the relay, one transaction
//	tx ──────────────▶ scheduled rows ──────────────────────────────────▶ outbox ──▶ broker
//	                                                                        ▲
//	      Put                            due: a Runner, one transaction     │
//	tx ──────────────▶ schedules ───────────────────────────────────────────┘
//
// A [Recurring] schedule enqueues its message by a cron expression or at an interval, in a time
// zone. A [Runner] does that when it is due. Each occurrence has an id made of the name of the
// schedule and the planned time, and the transaction that enqueues it moves the schedule on if
// nobody else has: any number of runners enqueue it once, and a crash neither loses nor doubles
// it.
//
// The clock of the database decides what is due. github.com/robfig/cron/v3 reads cron
// expressions and computes their times.
package schedule
