// Package rabbitbroker publishes to and consumes from RabbitMQ.
//
//	what             on the server
//	Message.Topic    routing key on the durable topic exchange Config.Exchange
//	Message.To       queue of that name, through the default exchange
//	consumer group   durable queue named after the group, bound with each topic it names
//	Subscription.To  durable queue of that name
//	Retry(delay)     durable queue <queue>.retry.<milliseconds>, which dead-letters back to <queue>
//
// The envelope is a CloudEvents 1.0 event in a content mode of the AMQP binding; see docs/envelope.md. The publishing
// side declares the exchange only: a topic that no group has bound, or a queue that nobody has declared, makes a
// message unroutable. The consuming side declares exchange, queue and bindings, each time it connects. A topic that is
// removed from a subscription stays bound until somebody unbinds it, because AMQP cannot list bindings. A topic in a
// subscription may be an AMQP pattern: '*' matches one word between dots, '#' any number of them. A group and a
// destination of the same name are one queue.
//
// Accepted means: confirmed by the server and not returned. Messages are persistent and mandatory. A confirm means that
// every queue that the message was routed to has it, so with classic queues it survives a restart of the server, with
// quorum queues the loss of a minority of its nodes. New queues are quorum queues; an existing classic queue is used as
// it is, unless Config.QueueType says otherwise. Streams are not supported: they cannot acknowledge single messages.
//
// A delayed retry is published with a confirm before the original is acknowledged; a crash of this process between the
// two duplicates the message and never loses it. The server moves it back from the retry queue: safely with quorum
// queues, whereas a classic queue hands the message over without a confirm, so that a crash of the server in that
// instant can lose it.
//
// A delivery that stays unsettled for longer than the server's consumer_timeout (30 minutes
// unless configured) makes the server close the channel and redeliver everything
// on it; nothing can extend that limit.
package rabbitbroker
