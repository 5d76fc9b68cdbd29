// Package httpbroker delivers messages as webhooks, and receives them.
//
// # Sending
//
// A [Broker] has one [Endpoint] for each subscriber. [Broker.Destinations] makes each of them a
// separate destination of a relay, so that the relay keeps a row and counts attempts for each
// (message, endpoint): one that is down is retried, the others are sent nothing twice.
//
// A message is an HTTP POST in the binary mode of the CloudEvents binding for HTTP, unless
// [Endpoint] or [contract.Outgoing] asks for the structured one: its payload is the body, each
// attribute a header "ce-"+name, percent-encoded where the binding says so. It is signed by the
// Standard Webhooks convention: webhook-id, webhook-timestamp and webhook-signature. webhook-id
// contains a digest of the headers that carry the message, so that the signature, which covers
// id, time and body, covers those headers too.
//
// Delivered means answered with 2xx. Messages of one (topic, key) are posted one after the other,
// others concurrently. Redirects are not followed, a response is read to 64 KiB and never shown,
// and addresses that are not public are refused when the connection is made, whatever the name
// was resolved to before.
//
// # Receiving
//
// A [Receiver] is an http.Handler that verifies and decodes what is posted to it, from this
// package or from others, and hands it to the running subscribers of [Receiver.Subscriber]. It
// answers 2xx once all groups that the message is for have acknowledged it. A message that a
// group retries, or does not settle, is answered 503 with Retry-After, and the sender retries.
// The receiver remembers nothing in between: the inbox recognises a repeated request.
//
// [Sign] and [Verify] implement just the convention, for your own senders and receivers.
package httpbroker
