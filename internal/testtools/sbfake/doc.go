// Package sbfake is a server for tests that behaves like Azure Service Bus towards its official
// clients: AMQP 1.0 with claims-based security, and the HTTP interface by which entities are
// declared.
//
//	file           holds
//	server.go      Server: its settings, its listeners, the faults that a test can ask for
//	conn.go        one connection: handshake and the dispatch of frames
//	link.go        links: attach, credit, transfers in both directions
//	settle.go      what dispositions of receivers do
//	management.go  requests by link: tokens, locks, scheduling, peeking
//	entity.go      queues, topics and subscriptions
//	session.go     sessions, and links that wait for one
//	atom.go        the HTTP interface
//	codec.go       AMQP types on the wire; frame.go its frames
//
// What it has: queues, topics with subscriptions (every message, no rules), batches, peek-lock,
// renewal, complete, abandon, defer, dead-lettering, delivery counts, scheduled messages,
// duplicate detection, sessions and counts. What it lacks: access rights (every token is valid),
// quotas, expiry of messages, rules, forwarding, transactions, partitions; it only reports their
// settings as they were set. It keeps everything in memory.
package sbfake
