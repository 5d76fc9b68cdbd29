// Package discovery finds an inbox service over the broker that services already share.
//
//	client                     broker                        inbox service
//	Finder ── ping ──▶ ‹prefix›.ping.‹bus›.‹group› ──▶ Announcer
//	       ◀──────── its answer, to the client alone ────────┘
//	       ◀── ‹prefix›.announce.‹bus›.‹group› ◀── when the service starts
//
// Discovery is off unless [Config].Enabled is set; there is no other setting that switches it on,
// and no guess about the environment. An explicit endpoint always wins, and then nothing is
// published. Each [Decision] carries its reason.
//
// Every program that may publish to the broker can announce. So a Finder accepts only hosts and
// schemes that it is configured to accept, and, given trusted keys, only announcements signed with
// one of them. An announcement never carries a secret: it names the kind of authentication that the
// service requires, and the token comes from the client's settings. One that contains something
// that looks like a secret is refused on both sides.
//
// The package does not depend on a broker. RabbitMQ and NATS provide a [Transport] by the method
// Discovery of their Broker.
package discovery
