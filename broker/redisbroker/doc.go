// Package redisbroker publishes to and receives from Redis Streams, on Redis 6.2 or newer, or a server
// that speaks its protocol and runs Lua scripts.
//
// A topic is one stream, Prefix+"{topic:"+topic+"}"; a destination (Message.To) is
// Prefix+"{to:"+destination+"}". A consumer group of a topic is a group of its stream, under its own name;
// a destination has one group, which all that claim it share. The first to subscribe creates stream and
// group; a new group begins with what the stream still holds. The braces are the hash tag of Redis
// Cluster: all keys of one address are in one slot, and addresses spread over all slots.
//
// Published means that Redis has answered with the entry's id. A topic whose stream does not exist has no
// group, and is refused as unroutable (XADD NOMKSTREAM), in the same round trip. Redis drops no
// duplicates. What a confirmed message survives depends on the server's settings, see [Broker.Explain],
// and on [Config.Replicas].
//
// A message travels as one entry: its payload in the field data, each attribute of CloudEvents in
// "ce_"+name, the content type in content-type, application headers in "header_"+name. Values are
// the bytes themselves.
//
// A delivery belongs to its group until it is acknowledged, whatever happens to connections. The
// deliveries of a process that dies are taken over by another subscriber of the group after ClaimAfter,
// flagged as redelivered. A retry stays pending in its group, under the name "(waiting)", with its due
// time in the sorted set stream+":waiting:"+group; both change in one script. It is redelivered up to half
// a second late.
//
// Subscribers remove from a stream what every group of it has received and acknowledged, and nothing else.
// A group that is no longer needed keeps its stream growing until it is removed:
//
//	XGROUP DESTROY waybill:{topic:orders} billing
//	DEL waybill:{topic:orders}:waiting:billing
//
// Acknowledgements are sent in batches, soon after Ack has returned, and repeated until Redis has
// answered; those that a dying process has not sent lead to redeliveries.
//
// A user of Redis needs the commands EVAL, EVALSHA, TIME, SET, TYPE, XADD, XREADGROUP, XACK, XCLAIM,
// XPENDING, XTRIM, XINFO, XGROUP, ZADD, ZREM, ZRANGE, ZRANGEBYSCORE and EXISTS on the keys that begin with
// the prefix, PEXPIRE and DEL there to receive replies (package request), WAIT for Replicas, and CONFIG
// GET for a complete [Broker.Explain].
package redisbroker
