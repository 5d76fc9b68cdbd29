// Package slip runs routing slips: a list of activities that travels with the message, from service
// to service, and is compensated in reverse when one of them fails.
//
//	Start ─▶ execute 0 ─▶ execute 1 ─▶ execute 2, fails for good
//	                                       │
//	         compensate 0 ◀─ compensate 1 ◀┘
//
// A [Slip] names the activities, each with the topic of the service that hosts it. [Start]
// enqueues its first message in the caller's transaction. A [Host] is the handler of a
// consumer: it runs one [Activity] in the inbox's transaction, and enqueues the message for the
// next one in the same transaction. So each activity is done once, and no service stores anything
// of the slip but what its activities write.
//
// The whole state of a slip is in its messages: itinerary, variables, and completed activities.
// docs/routing-slips.md says what follows from that, and when a saga of package saga, whose state
// can be inspected, is the better choice.
package slip
