// Package lease is the inbox for handlers that write where no record can be written with them: a
// key is leased, the handler runs, the key is marked as processed.
//
// A handler whose process dies between its effect and the mark runs again once the lease has ended.
// A [Store] promises less than an inbox does, which is why the two are different types.
package lease
