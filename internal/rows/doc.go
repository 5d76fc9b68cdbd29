// Package rows implements the operations on rows: on a message that is claimed, parked, retried, dead-lettered,
// requeued, edited, replayed, cancelled or removed, on a lane and on an inbox record. It is written once, in
// Go, over the tables of a store ([Tx]), which a store implements in a few methods ([Table], [Driver],
// [Store]); the stores in memory and in MongoDB run it.
//
// Every operation is one transaction. An operation that reads a unit, or changes what others may wait for in
// one, first locks the lane of the unit, the lowest lane first; nothing else is locked. Rows are written in no
// fixed order: the transactions of a store that runs this run one after the other, or fail where they conflict
// with another, and are run again. So each reads everything that it decides by.
//
// The number of round trips that a comment names counts calls of tables, as a store across a network makes them, without
// the begin and the end of the transaction.
package rows
