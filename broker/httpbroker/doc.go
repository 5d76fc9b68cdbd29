// Package httpbroker delivers messages as webhooks, and receives them.
//
// # Sending
//
// A [Broker] has one [Endpoint] for each subscriber. [Broker.Destinations] gives each of them to
// a relay as a destination of its own, so that the relay keeps a row and counts attempts for each
// (message, endpoint): one that is down is retried, the others are not sent anything twice.
//
// A message is an HTTP POST in the binary mode of the CloudEvents binding for HTTP, unless
// [Endpoint] or [contract.Outgoing] asks for the structured one: its payload
// is the body, each attribute a header "ce-"+name, percent-encoded where the binding says so. It
// is signed by the Standard Webhooks convention: webhook-id, webhook-timestamp and
// webhook-signature. webhook-id is made of a digest of the headers that carry the message, so
// that the signature, which covers id, time and body, covers those headers too.
//
// Delivered means answered with 2xx. Messages of one (topic, key) are posted one after the
// other, others side by side. Redirects are not followed, a response is read to 64 KiB and never
// shown, and addresses that are not public are refused when the connection is made, whatever the
// name was resolved to before.
//
// # Receiving
//
// A [Receiver] is an http.Handler that verifies and decodes what is posted to it, from this
// package or from others, and hands it to the running subscribers of [Receiver.Subscriber]. It
// answers 2xx once all groups that the message is for have acknowledged it. What a group wants
// again later, or does not settle, is answered 503 with Retry-After, and the sender comes again.
// There is no memory between the two: a request that is repeated is recognised by the inbox.
//
// [Sign] and [Verify] are the convention alone, for senders and receivers of your own.
package httpbroker
