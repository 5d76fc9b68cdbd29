// Package rows says what becomes of a row: of a message that is claimed, parked, tried again, made a dead letter, put
// back, edited, replayed, cancelled or removed, of a lane and of an inbox record. It is written once, in Go, over the
// tables of a store ([Tx]), which a store implements in a few methods ([Table], [Driver], [Store]); the stores in
// memory and in MongoDB run it.
//
// Every operation is one transaction. What looks into a unit, or changes what somebody may wait for in one, first locks
// the lane of the unit, the lowest lane first; nothing else is locked. Rows are written in no fixed order: the
// transactions of a store that runs this are one at a time, or fail where they meet another, and are run again. So each
// reads all that it decides by.
//
// The number of round trips that a comment names counts calls of tables, as a store across a network makes them, without
// the begin and the end of the transaction.
package rows
