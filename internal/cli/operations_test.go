package cli

import (
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/cli/opener"
)

// TestOperations runs the operators' commands on real databases; the stories have all that
// they can say.
func TestOperations(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]func(t *testing.T) opener.StoreConfig{
		"PostgreSQL": func(t *testing.T) opener.StoreConfig {
			return opener.StoreConfig{URL: newDatabase(t), Schema: "cli-ops"}
		},
		"SQLite": func(t *testing.T) opener.StoreConfig {
			return opener.StoreConfig{URL: "sqlite:" + t.TempDir() + "/shop.db", Schema: "none", Create: true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := cfg(t)
			fillStore(t, cfg)
			f := &fixture{strings.NewReplacer("{used}", "--store "+cfg.URL+" --schema "+cfg.Schema+" --by ann@desk")}
			for _, tr := range operations {
				t.Run(tr.name, func(t *testing.T) {
					// Not parallel: some change what others show.
					tr.check(t, f)
				})
			}
		})
	}
}

var operations = []transcript{
	{name: "relay status", args: "relay status {used}", stdout: `
RELAY  STATE     LANES  WHICH
-      no owner  …

TOPIC   STATUS   COUNT  OLDEST
mails   Pending  1      …
orders  Pending  2      …
`, stderr: "No relay is alive, so nothing is published: start one with waybill relay\n"},
	{name: "outbox stats", args: "outbox stats {used}", stdout: `
TOPIC   STATUS   CONSUMER  COUNT  OLDEST
mails   Pending            1      …
orders  Dead     billing   3      …
orders  Pending            2      …
`},
	{name: "outbox list", args: "outbox list --topic orders --key ann {used}", stdout: `
ID       STATUS   TOPIC   KEY  ENQUEUED              ATTEMPTS
order-1  Pending  orders  ann  …Z  0
`},
	{name: "outbox list of the published", args: "outbox list --status published {used}", stdout: "No message matches.\n"},
	{name: "outbox show", args: "outbox show order-1 {used}", stdout: `
id      order-1
status  Pending
topic   orders
type    order.placed
source  shop
tenant  default
key     ann

WHEN                  WHAT      DETAIL
…Z  enqueued  by shop
`},
	{name: "outbox show of nothing", args: "outbox show order-3 {used}", code: exitFailed, stderr: `
waybill: there is no message with the id "order-3": it never was, or its retention is over
`},
	{name: "inbox show", args: "inbox show lost-1 {used}", stdout: `
CONSUMER  STATE  AT                    TYPE    SOURCE  TENANT
billing   dead   …Z  orders  shop    default
`, stderr: "Why it is dead: waybill dead list --id lost-1\n"},
	{name: "dead groups", args: "dead groups {used}", stdout: `
GROUP             OPEN  TREND                     LAST FAILED           FROM              TYPE    ERROR
…  3     …█  …Z  consumer billing  orders  no such customer
`, stderr: "The newest of the largest: waybill dead show 3\nWhen the cause is fixed:  waybill dead replay --group …\n"},
	{name: "dead list", args: "dead list {used}", stdout: `
NUMBER  FROM              TOPIC   ID      REASON    ATTEMPTS  LAST FAILED           ERROR
1       consumer billing  orders  lost-1  rejected  1         …Z  no such customer
2       consumer billing  orders  lost-2  rejected  2         …Z  no such customer
3       consumer billing  orders  lost-3  rejected  3         …Z  no such customer
`, stderr: "One of them in full: waybill dead show 3\n"},
	{name: "dead list in pages", args: "dead list --newest --since 1h --text CUSTOMER --limit 1 {used}",
		stdout: "NUMBER …\n3 …\n", stderr: "There may be more: waybill dead list --since 1h --text CUSTOMER --newest --limit 1 --after 3\n"},
	{name: "dead list filtered", args: "dead list --origin relay {used}", stdout: "No dead letter matches.\n"},
	{name: "dead show with its payload", args: "dead show 1 --payload {used}", stdout: `
number           1
state            open
failed in        consumer billing
reason           rejected
error            no such customer
group            …
failed attempts  1
first failed     …Z
last failed      …Z
message id       lost-1
topic            orders
type             orders
source           shop
tenant           default
happened         …Z
payload          0 bytes of application/json

Failed attempts, the oldest first
AT                    ERROR
…Z  no such customer

Audit log, the latest first
AT                    BY        ACTION  ABOUT
…Z  ann@desk  reveal  letter 1, message lost-1

Payload
(empty)
`},
	{name: "a replay that relays are to drive", args: "dead replay --id lost-3 --rate 5 --yes --detach --json {used}", stdout: "{\n  \"number\": 1\n}\n"},
	{name: "the replay", args: "dead replays {used}", stdout: `
NUMBER  STATE    LETTERS  REQUEUED  PASSED OVER  DEAD AGAIN  RATE  STARTED               BY
1       running  1        0         0            0           5     …Z  ann@desk
`},
	{name: "its end", args: "dead replay-cancel 1 {used}", stdout: "Cancelled replay 1.\n"},
	{name: "its end again", args: "dead replay-cancel 1 {used}", stdout: "Replay 1 had ended already.\n"},
	{name: "requeue some", args: "dead requeue 1 77 {used}", code: exitFailed,
		stdout: "Requeued dead letter 1.\n",
		stderr: "waybill: dead letter 77 was not requeued: there is no such dead letter\n"},
	{name: "requeue again", args: "dead requeue 1 {used}", code: exitFailed,
		stderr: "waybill: dead letter 1 was not requeued: it is pending already\n"},
	{name: "resolve what was requeued", args: "dead resolve 1 {used}", code: exitFailed,
		stderr: "waybill: dead letter 1 was not resolved: it was requeued and is pending\n"},
	{name: "resolve", args: "dead resolve 3 77 --why refunded {used}", code: exitFailed,
		stdout: "Resolved dead letter 3.\n",
		stderr: "waybill: dead letter 77 was not resolved: there is no such dead letter\n"},
	{name: "resolve again", args: "dead resolve 3 {used}", stdout: "Dead letter 3: it is resolved already.\n"},
	{name: "discard what was resolved", args: "dead discard 3 {used}", code: exitFailed,
		stderr: "waybill: dead letter 3 was not discarded: it was resolved in another way\n"},
	{name: "too long a why", args: "dead resolve 3 --why " + strings.Repeat("x", 2049) + " {used}", code: exitUsage, stderr: `
waybill: --why has 2049 bytes, the limit is 2048
Run 'waybill dead resolve --help' to see how it is used.
`},
	{name: "edit", args: "dead edit 2 --type order.placed --header x-checked=yes --json {used}",
		stdout: "{\n  \"id\": \"…\",\n  \"number\": 2\n}\n"},
	{name: "replay of nothing", args: "dead replay --all {used}", stdout: "No dead letter matches; nothing is to be replayed.\n"},
	{name: "dead audit", args: "dead audit --actor ann@desk --letter 1 {used}", stdout: `
AT                    BY        ACTION   ABOUT
…Z  ann@desk  requeue  letter 1, message lost-1
…Z  ann@desk  reveal   letter 1, message lost-1
`},
}

// everyCommand has each command that reads or changes a store as operators do.
var everyCommand = []string{
	"relay status", "outbox stats", "outbox list", "outbox show x", "inbox show x",
	"dead groups", "dead list", "dead show 1", "dead requeue 1", "dead requeue --all", "dead resolve 1", "dead discard 1",
	"dead edit 1 --type x", "dead replay --all", "dead replays", "dead replay-cancel 1", "dead audit",
	"schedule list", "schedule messages", "schedule show x", "schedule show --message x", "schedule pause x", "schedule resume x",
	"schedule run-now x", "schedule remove x", "schedule cancel x",
	"outbox cancel x",
}

// TestStoreErrors has one line for what is wrong with the store, whichever the command.
func TestStoreErrors(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	fillStore(t, opener.StoreConfig{URL: database, Schema: "ops"})
	fillStore(t, opener.StoreConfig{URL: database, Schema: "future"})
	role := newRole(t, database)
	runSQL(t, database, `GRANT USAGE ON SCHEMA ops TO `+role)
	runSQL(t, database, `GRANT SELECT ON ops.schema_versions TO `+role)
	runSQL(t, database, `INSERT INTO future.schema_versions (version, name) VALUES (99, 'later')`)
	closed := closedPort(t)
	asRole := strings.Replace(database, "postgres://postgres@", "postgres://"+role+":S3CR3T@", 1)
	f := &fixture{strings.NewReplacer("{closed}", closed, "{role}", role)}
	for name, tr := range map[string]transcript{
		"does not answer": {args: "--store postgres://app:S3CR3T@" + closed + "/x",
			stderr: "waybill: cannot reach the store postgres://app:xxxxx@" + closed + "/x: dial tcp …: connect: connection refused\n"},
		"no tables": {args: "--store " + database + " --schema empty", stderr: "waybill: the store … has no tables yet; run: waybill migrate, or name the --schema that they are in\n"},
		"newer":     {args: "--store " + database + " --schema future", stderr: "waybill: the store …: schema version is 99, this release works with …\n"},
		"no right":  {args: "--store " + asRole + " --schema ops", stderr: "waybill: the store postgres://" + role + ":xxxxx@… refuses: ERROR: permission denied for …; \"waybill doctor\" shows what the role lacks\n"},
	} {
		for _, command := range everyCommand {
			t.Run(name+"/"+command, func(t *testing.T) {
				t.Parallel()
				tr := tr
				tr.args, tr.code = command+" "+tr.args, exitFailed
				tr.check(t, f)
			})
		}
	}
}

// newRole makes a role that may log in and nothing else.
func newRole(t *testing.T, database string) string {
	t.Helper()
	name := "cli_role_" + waybill.NewID()[24:]
	runSQL(t, database, `CREATE ROLE `+name+` LOGIN PASSWORD 'S3CR3T'`)
	t.Cleanup(func() {
		runSQL(t, database, `DROP OWNED BY `+name)
		runSQL(t, database, `DROP ROLE `+name)
	})
	return name
}
