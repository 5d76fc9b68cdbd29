// Package signalrbroker pushes messages to SignalR clients: browsers with @microsoft/signalr, and
// the clients of .NET and Java. It is a front end of a [push.Hub], which decides who may connect
// and who gets what, and like it is best effort: see package push.
//
// A message is an invocation of the client's method that has the name of the message's type, with
// two arguments: the payload and the [Meta].
//
//	connection.on("order.created", (order, meta) => …)
//
// The payload is a value if it is JSON, text if it is other UTF-8 text, and else text in base64,
// as the meta says. The hub itself calls two methods: "connected", with the id of the connection
// and the position from which a client without messages catches up, and "reset", with the reason,
// when the client must reload what it shows. Types of messages should have other names. A client
// that reconnects puts the id of its last message into the URL to catch up: "/push?lastEventId=…".
// Clients call nothing.
//
// Only WebSockets and only the JSON protocol are supported. Programs that cannot use WebSockets
// can use Server-Sent Events, which the hub itself serves.
//
// It is a separate module because the SignalR library brings many modules that users of the rest
// should not have to download. With several processes SignalR needs sticky sessions, or clients
// that set skipNegotiation.
package signalrbroker
