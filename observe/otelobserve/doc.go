// Package otelobserve records OpenTelemetry traces and metrics of writers, relays and consumers, by
// the semantic conventions for messaging (as of version 1.41, where these names are "in
// development").
//
//	observer, err := otelobserve.New(otelobserve.Config{System: "rabbitmq"})
//	svc, err := service.New(store, broker, service.Config{
//		Observer: observe.Observers(observe.LogTo(slog.Default()), observer),
//	})
//
// The trace of a message goes from the enqueue through every attempt to publish it to every
// handler, however long it waits in between, because its context is stored on its row:
//
//	the caller's span
//	└─ enqueue orders      producer; its context is stored, and sent as traceparent
//	   ├─ send orders      client; one for each attempt, in the relay
//	   └─ process orders   consumer; one for each attempt of each consumer
//	      └─ enqueue …     what the handler enqueues
//
// Each of these spans is about one message and also linked to the context that it is a child
// of. A message that was enqueued with a context of its own keeps it, and gets no enqueue
// span. One that has none when it is published, because another program wrote the row, gets
// that of its first send span. If a span is active where a handler runs, the process span is
// linked to it.
//
// A failed operation sets the status of its span to Error, with the kind of the error (and
// the reason, if it is permanent) as description and as error.type. The text of the error is left
// out unless [Config.ErrorTexts] is set: it comes from handlers and may contain anything.
package otelobserve
