// Package waybilltest tests handlers for what production does to them: crashes, lost
// connections, deliveries that come twice, time that passes.
//
// [Check] and [CheckOnce] run a handler again and again, each time with a crash or a lost
// connection at another of its steps, deliver the message again as a broker would, and report
// the first schedule under which its effect has not happened once. They need no goroutines, no
// server, and no change of the handler: the steps are the statements that go through a
// database/sql driver ([Faults.OpenDB]) or a store in memory ([Faults.MemStore]), and the calls
// that a fake of another system tells of ([Faults.Step]).
//
// A [Kit] is a whole system in memory, with relay, broker and consumers, in a bubble of
// testing/synctest: its clock moves only while the test waits, and nothing needs a sleep.
//
// What passes here is right about its transactions. Isolation and locks of a real database are
// not tested by a store in memory.
package waybilltest
