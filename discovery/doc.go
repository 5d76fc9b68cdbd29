// Package discovery finds an inbox service over the broker that services share anyway.
//
//	client                     broker                        inbox service
//	Finder ── ping ──▶ ‹prefix›.ping.‹bus›.‹group› ──▶ Announcer
//	       ◀──────── its answer, to the client alone ────────┘
//	       ◀── ‹prefix›.announce.‹bus›.‹group› ◀── when the service starts
//
// A [Finder] is off unless [Config].Enabled says otherwise; there is no other setting that
// switches it on, and no guess about where the program runs. An explicit endpoint always
// wins, and then the broker hears nothing at all. Each [Decision] carries its reason.
//
// Who may publish to the broker may announce. So a Finder accepts only hosts and schemes that
// it was told to accept, and, given trusted keys, only announcements signed with one of them.
// An announcement never carries a secret: it says which kind of authentication the service
// wants, and the token comes from the client's own settings. One that holds something that
// looks like a secret is refused on both sides.
//
// The package knows no broker. A [Transport] is what RabbitMQ and NATS provide, by the method
// Discovery of their Broker.
package discovery
