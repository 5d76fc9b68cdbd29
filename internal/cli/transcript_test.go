package cli

import "testing"

func TestTranscripts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, tr := range transcripts {
		t.Run(tr.name, func(t *testing.T) {
			// Not parallel: some change what others show.
			tr.check(t, f)
		})
	}
}

const noStore = `
waybill: no store is set; give --store, WAYBILL_STORE, or store: in waybill.yaml, such as postgres://user:password@host/database, or sqlite:path
Run 'waybill …' to see how it is used.
`

// doctorUsed is what doctor says of a store that is in use, up to the retention.
const doctorUsed = `
         SUBJECT        FOUND
ok       store          PostgreSQL … at {url}
ok       clock          the store's differs by …
…time zone …
ok       isolation      read committed is the default
…connections    … of … are open; a relay opens up to …, … of them in its pool…
ok       route          connections are sessions of the server
ok       notifications  arrive where relays listen
note     permissions    … is a superuser → programs need far less: waybill roles
ok       schema         version …, the newest
ok       parts          tables, indexes, triggers and functions are those of version …
ok       pending        3 messages, the oldest is … old
warning  dead letters   3 open letters: 3 of consumer billing → see: waybill dead groups
warning  relays         0 relays alive, 0 of 64 lanes have an owner → nothing is published; run: waybill relay
ok       archive        9 of 9 days, from today on, have a partition
ok       vacuum         about … dead rows in the outbox, never vacuumed
ok       transactions   none is open for long
ok       broker         mem: answers and confirms
`

var transcripts = []transcript{
	// How it is asked.
	{name: "unknown command", args: "relais", code: exitUsage, stderr: `
waybill: unknown command "relais" for "waybill"
Run 'waybill --help' to see how it is used.
`},
	{name: "unknown command below another", args: "outbox lists", code: exitUsage, stderr: `
waybill: unknown command "lists" for "waybill outbox"
Run 'waybill outbox --help' to see how it is used.
`},
	{name: "half a command", args: "dead", code: exitUsage, stderr: `
waybill: "waybill dead" requires a command
Run 'waybill dead --help' to see how it is used.
`},
	{name: "unknown flag", args: "relay --fast", code: exitUsage, stderr: `
waybill: unknown flag: --fast
Run 'waybill relay --help' to see how it is used.
`},
	{name: "argument missing", args: "outbox show {used}", code: exitUsage, stderr: `
waybill: "waybill outbox show" requires argument ID
Run 'waybill outbox show --help' to see how it is used.
`},
	{name: "an argument too many", args: "dead show 1 2 {used}", code: exitUsage, stderr: `
waybill: "waybill dead show" takes NUMBER, and nothing more
Run 'waybill dead show --help' to see how it is used.
`},
	{name: "value out of range", args: "relay {used} --relay-batch-size 10001", code: exitUsage, stderr: `
waybill: relay.batch_size (--relay-batch-size): 10001 is out of range, the maximum is 10000
Run 'waybill relay --help' to see how it is used.
`},
	{name: "value out of range in the environment", args: "doctor {used}", env: []string{"WAYBILL_RELAY_POLL_INTERVAL=9ms"}, code: exitUsage, stderr: `
waybill: relay.poll_interval (WAYBILL_RELAY_POLL_INTERVAL): 9ms is out of range, the minimum is 10ms
Run 'waybill doctor --help' to see how it is used.
`},
	{name: "unknown environment variable", args: "config", env: []string{"WAYBILL_STOER=x"}, code: exitUsage, stderr: `
waybill: no option has the environment variable WAYBILL_STOER
Run 'waybill config --help' to see how it is used.
`},
	{name: "missing configuration file", args: "config --config nowhere.yaml", code: exitUsage, stderr: `
waybill: configuration file: open nowhere.yaml: no such file or directory
Run 'waybill config --help' to see how it is used.
`},
	{name: "no store", args: "outbox stats", code: exitUsage, stderr: noStore},
	{name: "no store to migrate", args: "migrate", code: exitUsage, stderr: noStore},
	{name: "unknown store", args: "outbox stats --store oracle://app:S3CR3T@db/x", code: exitUsage, stderr: `
waybill: unusable URL: store oracle://app:xxxxx@db/x: postgres://…, mysql://…, mongodb://… and sqlite:path are known
Run 'waybill outbox stats --help' to see how it is used.
`},

	// Servers that do not answer.
	{name: "store does not answer", args: "outbox stats --store postgres://app:S3CR3T@{closed}/x", code: exitFailed, stderr: `
waybill: cannot reach the store postgres://app:xxxxx@{closed}/x: dial tcp {closed}: connect: connection refused
`},
	{name: "nothing answers the doctor", args: "doctor --store postgres://app:S3CR3T@{closed}/x --broker amqp://app:S3CR3T@{closed}/", code: exitFailed, stdout: `
         SUBJECT    FOUND
problem  store      cannot reach the store postgres://app:xxxxx@{closed}/x: dial tcp {closed}: connect: connection refused → start it, or correct --store
problem  broker     cannot reach the broker amqp://app:xxxxx@{closed}/: …connection refused → start it, or correct --broker
note     retention  inbox retention is 7d; … → give --broker that answers, to learn how long it keeps messages
ok       practices  the options are within the ranges of docs/good-practices.md
`},
	{name: "a broker that is only in memory", args: "relay {used} --broker mem:", code: exitUsage, stderr: `
waybill: the broker mem: lives in one process, where nobody could receive what this relay publishes
Run 'waybill relay --help' to see how it is used.
`},

	// The schema.
	{name: "tables missing", args: "outbox stats {empty}", code: exitFailed, stderr: `
waybill: the store … has no tables yet; run: waybill migrate, or name the --schema that they are in
`},
	{name: "doctor finds tables missing", args: "doctor {empty}", code: exitFailed, stdout: `
         SUBJECT        FOUND
ok       store          PostgreSQL … at …
ok       clock          the store's differs by …
…time zone …
ok       isolation      read committed is the default
…connections    … of … are open; a relay opens up to …, … of them in its pool…
ok       route          connections are sessions of the server
ok       notifications  arrive where relays listen
note     permissions    … is a superuser → programs need far less: waybill roles
problem  schema         there are no tables → run: waybill migrate
note     broker         not checked, none is set → give --broker
note     retention      inbox retention is 7d; … → give --broker that answers, to learn how long it keeps messages
ok       practices      the options are within the ranges of docs/good-practices.md
`},
	{name: "migrate to a version that is none", args: "migrate {empty} --to 99", code: exitUsage, stderr: `
waybill: --to is 99, the newest version is …
Run 'waybill migrate --help' to see how it is used.
`},
	{name: "migrate to version 0", args: "migrate {empty} --to 0", code: exitUsage, stderr: `
waybill: --to is 0, the lowest version is 1
Run 'waybill migrate --help' to see how it is used.
`},
	{name: "migrate", args: "migrate {empty} --source shop", stdout: "Created the tables; the schema has version ….\n"},
	{name: "migrate again", args: "migrate {empty} --json", stdout: "{\n  \"previous_version\": …,\n  \"schema_version\": …\n}\n"},
	{name: "nothing in the outbox", args: "outbox stats {empty}", stdout: "The outbox is empty.\n"},
	{name: "nothing for programs", args: "outbox stats --json {empty}", stdout: "[]\n"},
	{name: "no dead letters", args: "dead list {empty}", stdout: "There are no dead letters.\n"},
	{name: "no dead letters for programs", args: "dead list --json {empty}", stdout: "[]\n"},

	// SQLite.
	{name: "no file", args: "outbox stats --store sqlite:{dir}/none.db", code: exitFailed, stderr: `
waybill: cannot reach the store sqlite:{dir}/none.db: stat {dir}/none.db: no such file or directory; to make a new file run: waybill migrate
`},
	{name: "no path", args: "migrate --store sqlite:", code: exitUsage, stderr: `
waybill: unusable URL: store sqlite:: the path of a file is missing
Run 'waybill migrate --help' to see how it is used.
`},
	{name: "no directory", args: "migrate --store sqlite:{dir}/none/shop.db", code: exitFailed, stderr: `
waybill: cannot reach the store sqlite:{dir}/none/shop.db: …
`},
	{name: "new file", args: "migrate --store sqlite:{dir}/a#b?c%20.db", stdout: "Created the tables; the schema has version ….\n"},
	{name: "file with a difficult name", args: "doctor --store sqlite:{dir}/a#b?c%20.db --broker mem:", stdout: `
    SUBJECT       FOUND
ok  store         SQLite … at sqlite:{dir}/a#b?c%20.db
ok  schema        version …, the newest
ok  pending       no message waits for the relay
ok  dead letters  none is open
ok  broker        mem: answers and confirms
ok  retention     inbox retention is 7d; a message may be delivered again up to 1m14.4s after it was handled (the relay retries for 37.2s, the consumer for 37.2s, the broker keeps nothing when the program ends)
ok  practices     the options are within the ranges of docs/good-practices.md
`},

	// What is there.
	{name: "stats", args: "outbox stats {used}", stdout: `
TOPIC   STATUS   CONSUMER  COUNT  OLDEST
mails   Pending            1      …
orders  Dead     billing   3      …
orders  Pending            2      …
`},
	{name: "doctor", args: "doctor {used} --broker mem:", stdout: doctorUsed + `ok       retention      inbox retention is 7d; …
ok       practices      the options are within the ranges of docs/good-practices.md
`},
	{name: "doctor with an inbox that forgets too soon", args: "doctor {used} --broker mem: --inbox-retention 10s", code: exitFailed, stdout: doctorUsed + `problem  retention      inbox retention is 10s, but a message may be delivered again 1m14.4s after it was handled … → raise inbox.retention
ok       practices      the options are within the ranges of docs/good-practices.md
`},

	// The janitor.
	{name: "janitor, dry run", args: "janitor --dry-run {used}", stdout: `
ROWS                   OLDER THAN  WOULD BE REMOVED
inbox                  7d          0
consumer_attempts      7d          0
inbox_leases           7d          0
dead_letters           30d         0
sagas                  7d          0
audit_log              365d        0
idempotency_responses  1m0s        0
`},
	{name: "janitor, once", args: "janitor --once --cleanup-enabled=false {used} --dead-letter-retention 60d --saga-retention 8d --outbox-retention 36h", stdout: `
ROWS                   OLDER THAN  FOUND  BATCHES  REMOVED
inbox                  7d          0      0        0
consumer_attempts      7d          0      0        0
inbox_leases           7d          0      0        0
dead_letters           60d         0      0        0
sagas                  8d          0      0        0
audit_log              365d        0      0        0
idempotency_responses  1m0s        0      0        0
outbox_archive         1d12h       0      0        0
`},
	{name: "janitor for programs", args: "janitor --once --json {empty} --outbox-retention 0", stdout: `
[
  {
    "rows": "inbox",
    "older_than": "7d",
    "candidates": 0,
    "deleted": 0,
    "batches": 0
  },
  {
    "rows": "consumer_attempts",
    "older_than": "7d",
    "candidates": 0,
    "deleted": 0,
    "batches": 0
  },
  {
    "rows": "inbox_leases",
    "older_than": "7d",
    "candidates": 0,
    "deleted": 0,
    "batches": 0
  },
  {
    "rows": "dead_letters",
    "older_than": "30d",
    "candidates": 0,
    "deleted": 0,
    "batches": 0
  },
  {
    "rows": "sagas",
    "older_than": "7d",
    "candidates": 0,
    "deleted": 0,
    "batches": 0
  },
  {
    "rows": "audit_log",
    "older_than": "365d",
    "candidates": 0,
    "deleted": 0,
    "batches": 0
  },
  {
    "rows": "idempotency_responses",
    "older_than": "1m0s",
    "candidates": 0,
    "deleted": 0,
    "batches": 0
  }
]
`},
	{name: "janitor, store does not answer", args: "janitor --store postgres://app:S3CR3T@{closed}/x", code: exitFailed, stderr: `
waybill: cannot reach the store postgres://app:xxxxx@{closed}/x: dial tcp {closed}: connect: connection refused
`},
	{name: "janitor without tables", args: "janitor --once --store sqlite:{dir}/a#b?c%20.db --table-prefix other_", code: exitFailed, stderr: `
waybill: the store … has no tables yet; run: waybill migrate, or name the --schema that they are in
`},
	{name: "janitor, letters before the inbox", args: "janitor --once {used} --inbox-retention 40d", code: exitUsage, stderr: `
waybill: inbox.retention (--inbox-retention): 40d must not be more than dead_letter.retention (default), which is 30d
Run 'waybill janitor --help' to see how it is used.
`},
	{name: "janitor, an inbox that forgets too soon", args: "janitor --once {used} --inbox-retention 10s", code: exitUsage, stderr: `
waybill: inbox.retention is 10s, but a message may be delivered again 1m14.4s after it was handled (…), and would be handled again; --inbox-allow-short-retention accepts it anyway
Run 'waybill janitor --help' to see how it is used.
`},
	{name: "janitor, forced", args: "janitor --once {empty} --inbox-retention 10s --inbox-allow-short-retention", stdout: `
ROWS …
inbox                  10s …
consumer_attempts      10s …
inbox_leases           10s …
dead_letters …
sagas                  10s …
audit_log …
idempotency_responses …
outbox_archive …
`},

	// The topology.
	{name: "topology of nothing", args: "topology plan --broker mem:", code: exitUsage, stderr: `
waybill: nothing is wanted; give --topic, --destination or --group
Run 'waybill topology plan --help' to see how it is used.
`},
	{name: "topology of a group without topics", args: "topology apply --broker mem: --group billing", code: exitUsage, stderr: `
waybill: --group is "billing"; it is a name and topics, as in billing=orders,payments
Run 'waybill topology apply --help' to see how it is used.
`},
	{name: "topology of a broker without", args: "topology plan --broker mem: --topic orders", code: exitUsage, stderr: `
waybill: the broker mem: needs nothing declared
Run 'waybill topology plan --help' to see how it is used.
`},
	{name: "topology of a broker that does not answer", args: "topology plan --broker amqp://app:S3CR3T@{closed}/ --topic orders", code: exitFailed, stderr: `
waybill: cannot reach the broker amqp://app:xxxxx@{closed}/: …connection refused
`},

	{name: "demo without orders", args: "demo --orders 0", code: exitUsage, stderr: `
waybill: --orders is 0, the range is 1 to 1000000
Run 'waybill demo --help' to see how it is used.
`},
	{name: "demo breaks what it has not", args: "demo --break relay", code: exitUsage, stderr: `
waybill: --break is "relay"; it is inbox or outbox
Run 'waybill demo --help' to see how it is used.
`},
	{name: "demo in memory", args: "demo --broker mem:", code: exitUsage, stderr: `
waybill: unusable URL: the broker mem: …
Run 'waybill demo --help' to see how it is used.
`},
	{name: "demo on a store that does not answer", args: "demo --store postgres://app:S3CR3T@{closed}/x", code: exitFailed, stderr: `
waybill: cannot reach the store postgres://app:xxxxx@{closed}/x: dial tcp {closed}: connect: connection refused
`},
}
