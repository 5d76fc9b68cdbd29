// Package rows says what becomes of a row: of a message that is claimed, parked, tried again, made a dead letter, put
// back, edited, replayed, cancelled or removed, of a lane and of an inbox record. It is written once, in Go, over the
// tables of a store ([Tx]), which a store implements in a few methods ([Table], [Driver], [Store]); the stores in
// memory and in MongoDB run it.
//
// Every operation is one transaction. It first locks lanes, the lowest first, and then changes rows in the order
// outbox, waiting, scheduled, archive, letters, replays, inbox, attempts, audit. Operations whose transactions meet are
// run again by the store, so each reads all that it decides by.
//
// The number of round trips that a comment names counts calls of tables, as a store across a network makes them, without
// the begin and the end of the transaction.
package rows
