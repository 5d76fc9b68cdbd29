// Package waybilltest tests handlers under production conditions: crashes, lost connections,
// duplicate deliveries, passing time.
//
// [Check] and [CheckOnce] run a handler repeatedly, each time with a crash or a lost connection at
// another of its steps, redeliver the message as a broker would, and report the first schedule
// under which its effect has not happened once. They need no goroutines, no
// server, and no change of the handler: the steps are the statements that go through a
// database/sql driver ([Faults.OpenDB]) or a store in memory ([Faults.MemStore]), and the calls
// that a fake of another system reports ([Faults.Step]).
//
// A [Kit] is a whole system in memory, with relay, broker and consumers, in a bubble of
// testing/synctest: its clock moves only while the test waits, and nothing needs a sleep.
//
// A handler that passes uses its transactions correctly. A store in memory does not test the
// isolation and locks of a real database.
package waybilltest
