// Package natsbroker publishes to and receives from NATS JetStream.
//
// All messages are in one stream, which [Open] creates if it is missing and never changes. A topic is
// the subject SubjectPrefix+topic, a destination (Message.To) the subject
// SubjectPrefix+"_to."+destination. What is not a valid subject (spaces, wildcards, empty tokens), or
// is a topic that starts with "_to.", is refused as unroutable, message by message, before anything is
// written.
//
// A message travels in the binary mode of the CloudEvents binding for NATS, unless [contract.Outgoing]
// asks for the structured one: its payload is the body, each attribute a header "ce-"+name. The
// content type is also in the header content-type, the trace context in traceparent and tracestate,
// for readers that do not know CloudEvents. Application headers are plain headers; those whose value a
// NATS header cannot carry unchanged are percent-encoded and named in the header waybill-encoded.
//
// Published means stored: the stream has confirmed the message. The deduplication id (Nats-Msg-Id)
// consists of DedupID, source and subject, so that equal ids of two sources are two messages; within
// DuplicateWindow JetStream drops duplicates.
//
// A consumer group has a durable pull consumer for each of its topics; a destination has one, which
// all groups that claim it share. A durable consumer outlives its group: remove it with the nats tool
// when the group is gone. A new group starts with what the stream still holds, unless DeliverNew is
// set. Messages that a group has not received by then are lost to it after MaxAge.
//
// Acknowledgements are not confirmed: a delivery whose acknowledgement is lost with its connection,
// and any delivery of a process that dies, is redelivered after AckWait, and flagged so. Retry is
// confirmed; messages that wait for their delay do not count as unsettled.
package natsbroker
