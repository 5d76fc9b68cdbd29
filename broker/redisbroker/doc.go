// Package redisbroker publishes to and receives from Redis Streams, on Redis 6.2 and up or what
// speaks its protocol and runs Lua scripts.
//
// A topic is one stream, Prefix+"{topic:"+topic+"}"; a destination (Message.To) is
// Prefix+"{to:"+destination+"}". A consumer group of a topic is a group of its stream, under its own
// name; a destination has one group, which all that claim it share. The first to subscribe makes
// stream and group; a new group begins with what the stream still holds. The braces are the hash
// tag of Redis Cluster: all keys of one address lie in one slot, and addresses spread over all.
//
// Published means that Redis has answered with the entry's id. A topic whose stream is not there has
// no group, and is refused as unroutable (XADD NOMKSTREAM), in the same round trip. Redis drops no
// duplicates. What a confirmation survives is decided by the server's settings, see
// [Broker.Explain], and by [Config.Replicas].
//
// A message travels as one entry: its payload in the field data, each attribute of CloudEvents in
// "ce_"+name, the content type in content-type, application headers in "header_"+name. Values are
// the bytes themselves.
//
// A delivery belongs to its group until it is acknowledged, whatever happens to connections. One
// whose process dies is taken over by another subscriber of the group after ClaimAfter, flagged as
// redelivered. A retry stays pending in its group, under the name "(waiting)", beside its due time
// in the sorted set stream+":waiting:"+group; both change in one script. It comes back up to half a
// second late.
//
// Subscribers remove from a stream what every group of it has received and acknowledged, and nothing
// else. A group that nobody needs any more keeps its stream growing until it is removed:
//
//	XGROUP DESTROY waybill:{topic:orders} billing
//	DEL waybill:{topic:orders}:waiting:billing
//
// Acknowledgements are sent in batches, soon after Ack has returned, and again until Redis has
// answered; those that a dying process has not sent are redeliveries.
//
// A user of Redis needs the commands EVAL, EVALSHA, TIME, SET, TYPE, XADD, XREADGROUP, XACK, XCLAIM,
// XPENDING, XTRIM, XINFO, XGROUP, ZADD, ZREM, ZRANGE, ZRANGEBYSCORE and EXISTS on the keys that begin with
// the prefix, PEXPIRE and DEL there to receive replies (package request), WAIT for Replicas, and
// CONFIG GET if [Broker.Explain] is to tell everything.
package redisbroker
