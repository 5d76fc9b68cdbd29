// Package kafkabroker publishes to and receives from Apache Kafka, with franz-go.
//
// A topic is the Kafka topic TopicPrefix+topic, a destination (Message.To) the Kafka topic
// TopicPrefix+"_to."+destination. What is not a legal name (other characters than ASCII letters,
// digits, '.', '_' and '-', or more than 249 bytes), or is the topic "_replies", or one that starts
// with "_to." or "_progress.", is refused as unroutable, message by message, before anything is
// written; so is a topic that does not exist, unless CreateTopics is set.
//
// All reply destinations (package request) share the topic TopicPrefix+"_replies", with the address as
// the record's key. Each client reads all of it, without a group, and keeps its own.
//
// A message travels in the binary mode of the CloudEvents binding for Kafka, unless
// [contract.Outgoing] asks for the structured one: its payload is the
// value, each attribute a header "ce_"+name, the content type the header content-type. Its key is
// the record's key, so that messages of one key share a partition and keep their order.
//
// Published means confirmed by all in-sync replicas (acks=all). The producer is idempotent: what it
// repeats after a lost connection is stored once. If the outcome of a message stays unknown until its
// deadline, or three connections in a row end during a publish, the producer is dropped with
// everything that it holds, so that nothing overtakes what failed before it; what the relay then
// publishes again may be stored twice.
//
// With [Config.TransactionalID] each lane of the outbox has a transactional producer. A batch's
// messages of a lane are committed in one transaction together with a record of them; a relay that
// takes the lane over fences the previous owner, reads the records, and does not publish again what
// they list. At least the last 10,000 messages of a lane are recorded. Readers must be read_committed,
// as the subscribers of this package are.
//
// A consumer group is the Kafka group of the same name. A destination has one group, named as its
// Kafka topic, which all groups that claim it share. Each partition belongs to only one replica of a
// group at once. Its offset is committed up to the first message that is not acknowledged, and no
// further: after a crash that one is redelivered, and with it those acknowledged behind it. Retry
// keeps the message in the process until its delay has passed; others of its partition continue
// meanwhile, until [Config.Window] of them lie behind it. A consumer that needs order under retries
// sets OrderByKey.
//
// Kafka does not remember what was delivered: Redelivered is true for everything that was in a
// partition when it was assigned.
package kafkabroker
