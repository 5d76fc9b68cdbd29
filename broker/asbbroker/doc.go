// Package asbbroker publishes to and consumes from Azure Service Bus.
//
//	what             in the namespace
//	Message.Topic    topic Config.TopicPrefix + topic
//	Message.To       queue Config.QueuePrefix + destination
//	consumer group   a subscription to each topic, named after the group
//	Subscription.To  the queue of that name
//	Retry(delay)     queue Config.QueuePrefix + "waybill-retry/" + group
//	replies          queue Config.QueuePrefix + address, which is deleted when it is idle
//
// Names of topics and queues are letters, digits, '.', '-', '_' and '/'; others are refused. Upper
// and lower case are the same. Groups may have any name: one that is not a legal name of a
// subscription gets one that ends with a hash.
//
// The envelope is a CloudEvents 1.0 event in a content mode of the AMQP binding; see
// docs/envelope.md. Accepted means: the service has confirmed it. A topic that does not exist is
// unroutable; one without subscriptions accepts messages and silently drops them.
//
// Service Bus cannot delay the redelivery of a message. A delayed retry is a copy that is
// scheduled in the group's own queue, where no other group can see it and duplicate detection
// cannot drop it; the original is completed once the copy is stored. A crash between the two
// duplicates the message and never loses it.
//
// Messages are received under a lock, which Extend renews. A message that was delivered 2000 times
// without a settlement goes to the service's dead-letter queue, where this package does not look.
package asbbroker
