// Package request sends a message and waits for the reply to it, over the broker.
//
//	Client ── request, its header says where to ──▶ topic or destination ──▶ consumer ─▶ handler
//	   ▲                                                                                  │ Reply, in
//	   │                                                                                  ▼ its transaction
//	   └──── reply destination, one per client ◀──────── relay ◀──────────────────────  outbox
//
// A request is published at once and not through the outbox: it is useless once its caller no
// longer waits for the reply. While the broker is unreachable or refuses it, it is retried for as
// long as the caller waits, and no longer. The handler runs once, through the inbox, however often
// the request arrives.
//
// A reply goes through the outbox of the replying service, by [Reply]: it is sent if, and only if,
// the handler's transaction has committed. [ReplyNow] is for handlers without one.
//
// All replies to a client arrive at one destination, which the broker removes by itself, or empties,
// when the client is gone, see [ReplyOpener]. A reply is matched with its request by the request's ID,
// which is the reply's CausationID. A reply that no call waits for, because it came late or twice, is
// acknowledged, dropped and counted ([observe.OpLateReply]).
package request
