// Package push hands messages to the browsers and programs that are connected to this process
// right now: by Server-Sent Events, which [Hub] serves, and by other protocols, which use
// [Hub.Serve]; broker/signalrbroker, a module of its own, does so for SignalR.
//
// Push is best effort. That a message was pushed means that it was put into the buffers of the
// clients that were connected to this process at that moment, of which there may be none. It is
// never durable, and nobody confirms it. A client whose buffer is full is disconnected. What it
// missed it gets when it connects again and says which event it saw last, if the hub has an
// [Archive]; if that cannot be done completely it gets an event of its own, "reset", and must
// load afresh what it shows.
//
// The usual way in is a consumer: each process that serves clients receives the topics under a
// consumer group of its own and pushes what it receives, see [Handler]. A relay whose publisher
// is a Hub reaches the clients of its own process only.
//
// Who sees what is decided by [Config.Authorize], which is required. A client sees the topics
// that it was granted, of its tenant, and of those the messages whose [Target] it is. Nothing is
// granted by default.
package push
