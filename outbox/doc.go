// Package outbox stores messages in the transaction of the business data that they are about,
// so that either both are committed or neither.
//
// [Writer.Enqueue] takes the caller's transaction; [Writer.InTx] runs a function in a
// transaction of its own and collects messages on the way. A relay (package relay) publishes
// what was committed.
package outbox
