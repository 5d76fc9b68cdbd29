// Package push sends messages to the browsers and programs that are connected to this process: by
// Server-Sent Events, which [Hub] serves, and by other protocols, which use [Hub.Serve];
// broker/signalrbroker, a separate module, does so for SignalR.
//
// Push is best effort. That a message was pushed means that it was put into the buffers of the
// clients that were connected to this process at that moment, of which there may be none. It is
// never durable, and never confirmed. A client whose buffer is full is disconnected. It gets what
// it missed when it reconnects with the id of the last event it saw, if the hub has an [Archive];
// if that cannot be done completely it gets a "reset" event instead, and must reload what it shows.
//
// The usual source is a consumer: each process that serves clients receives the topics under a
// separate consumer group and pushes what it receives, see [Handler]. A relay whose publisher is a
// Hub reaches only the clients of its process.
//
// [Config.Authorize], which is required, decides what a client sees: messages of its tenant on the
// topics that it was granted, if it is in their [Target]. Nothing is granted by default.
package push
