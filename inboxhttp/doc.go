// Package inboxhttp is the inbox service, version 1: the lease contract of package inbox over
// HTTP, so that a program in any language can process a message once.
//
// [Server] is an [net/http.Handler] over any [lease.Store]. It keeps no state: any number
// of them may serve one store. [Client] is a [lease.Store] that calls a server.
//
//	POST /v1/inbox/try-begin            {"key": …}              Acquired, Busy, Processed, Exhausted
//	POST /v1/inbox/renew                {"key": …, "leaseId": …} Acquired, LeaseLost, …
//	POST /v1/inbox/mark-processed       {"key": …, "leaseId": …} Processed; else 404 or 409
//	POST /v1/inbox/release              {"key": …, "leaseId": …} Released, LeaseLost, …
//	POST /v1/inbox/try-begin/batch      {"items": [ … ]}
//	POST /v1/inbox/mark-processed/batch {"items": [ … ]}
//	GET  /v1/inbox/{key}                what is known of a key
//	GET  /v1/openapi.json               all of this in detail
//	GET  /health/live, /health/ready
//
// The result for a key is the status in an answer with code 200. Another code means that the
// request was refused (4xx) or that the server failed (5xx). docs/inbox-service.md has
// the details.
package inboxhttp
