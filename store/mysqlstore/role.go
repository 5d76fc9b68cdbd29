package mysqlstore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// Role is a job for which a server role may be created, with no more rights than the job needs.
type Role string

// The roles that [Store.RolesSQL] creates. A program that does several jobs has a role to which those
// of its jobs are granted.
const (
	RoleWriter    Role = "writer"    // enqueues, also for later
	RoleScheduler Role = "scheduler" // puts recurring schedules
	RoleRelay     Role = "relay"     // publishes, and keeps the archive
	RoleConsumer  Role = "consumer"  // handles messages once
	RoleInbox     Role = "inbox"     // handles messages once, in another language
	RoleOperator  Role = "operator"  // reads, deals with dead letters and schedules, and cancels messages
	RoleReader    Role = "reader"    // reads
	RoleAPI       Role = "api"       // answers repeated HTTP requests, by package idempotency
)

// Roles returns every role, in the order in which they are created.
func Roles() []Role {
	return []Role{RoleWriter, RoleScheduler, RoleRelay, RoleConsumer, RoleInbox, RoleOperator, RoleReader, RoleAPI}
}

// grant is rights on some tables, or on a procedure, as GRANT has them.
type grant struct {
	rights string
	on     []string
}

// everyone is what each job needs: the clock is in settings.
var everyone = grant{"SELECT", []string{"settings", "schema_versions"}}

// messageColumns are those of a message that a program that enqueues may set.
var messageColumns = strings.Replace(sqldb.MessageColumns, " key,", " `key`,", 1)

// changeLetters is the right to change the columns of a dead letter that may change: never the
// message.
const changeLetters = "UPDATE (requeued_at, error, reason, last_failed_at, attempts, fingerprint, history, life, replay, state, resolution, resolved_at, parks)"

// seeResponses is the right to see whether stored responses have expired: never their content.
const seeResponses = "SELECT (`key`, expires_at)"

// keeping is what a program needs to remove what is past its retention, as each service does.
var keeping = []grant{
	{"SELECT, DELETE", []string{"inbox", "inbox_leases", "consumer_attempts"}},
	{"SELECT, DELETE, " + changeLetters, []string{"dead_letters"}},
	{"SELECT, UPDATE, DELETE", []string{"sagas"}},
	{"SELECT, DELETE", []string{"saga_log"}},
	{"SELECT, INSERT, DELETE", []string{"audit_log"}},
	{"SELECT", []string{"outbox_waiting"}},
	{"SELECT, UPDATE", []string{"locks"}},
	{"DELETE, " + seeResponses, []string{"idempotency_responses"}},
	{"SELECT, INSERT, DELETE", []string{"traffic"}}, // which each service records and rolls up
}

// grants is what each role needs in addition to that. A row lock needs UPDATE or DELETE on the table,
// and the removal of old entries of the audit log DELETE, since the server has no rights by row.
var grants = map[Role][]grant{
	RoleWriter: {
		{"INSERT (" + messageColumns + ")", []string{"outbox"}}, // the database assigns the position
		{"INSERT (id, source, tenant, enqueued_at)", []string{"outbox_ids"}},
		{"SELECT (id, source, tenant)", []string{"outbox", "outbox_ids", "outbox_waiting"}},
		{"INSERT (token, due_at, " + messageColumns + "), SELECT (token, repeats), UPDATE (due_at, deliver_at, repeats), DELETE", []string{"scheduled"}},
	},
	RoleScheduler: {{"SELECT, INSERT, UPDATE, DELETE", []string{"schedules"}}},
	RoleRelay: append([]grant{
		{"SELECT, INSERT, DELETE", []string{"outbox", "outbox_archive"}},
		{"SELECT, INSERT, UPDATE, DELETE", []string{"outbox_waiting", "scheduled", "relays"}},
		{"INSERT", []string{"dead_letters"}},
		{"SELECT, DELETE", []string{"outbox_ids"}},
		{"SELECT, UPDATE", []string{"relay_lanes", "replays", "schedules"}}, // it drives replays and schedules
	}, keeping...),
	RoleConsumer: append([]grant{
		{"INSERT, UPDATE", []string{"inbox", "inbox_leases", "consumer_attempts"}},
		{"INSERT", []string{"dead_letters"}},
		{"SELECT, INSERT, UPDATE", []string{"consumer_offsets", "sagas"}},
		{"INSERT", []string{"saga_log"}},
	}, keeping...),
	RoleInbox: {{"EXECUTE", []string{"inbox_record"}}},
	RoleOperator: {
		{"INSERT, DELETE, " + changeLetters, []string{"dead_letters"}},
		{"INSERT, UPDATE", []string{"outbox_waiting", "replays", "inbox"}}, // an edited copy has a record
		{"DELETE", []string{"outbox", "outbox_waiting"}},                   // messages that are cancelled
		{"UPDATE (since)", []string{"relay_lanes"}},                        // to lock rows
		{"INSERT", []string{"audit_log"}},
		{"SELECT, UPDATE", []string{"locks"}},
		{"UPDATE", []string{"sagas"}},
		{"INSERT", []string{"saga_log"}},
		{"UPDATE, DELETE", []string{"schedules"}},
		{"INSERT, UPDATE, DELETE", []string{"scheduled"}}, // what is run by hand is scheduled for now
		{"SELECT", readable},
		{seeResponses, []string{"idempotency_responses"}},
	},
	RoleReader: {{"SELECT", readable}, {seeResponses, []string{"idempotency_responses"}}},
	RoleAPI:    {{"SELECT, INSERT, UPDATE", []string{"idempotency_responses", "inbox_leases"}}},
}

// revoked is what earlier versions granted and a role no longer has for the whole table.
var revoked = map[Role][]grant{
	RoleWriter: {
		{"INSERT, UPDATE", []string{"outbox", "outbox_ids"}},
		{"SELECT, INSERT, UPDATE", []string{"scheduled"}},
		{"SELECT, INSERT, UPDATE, DELETE", []string{"schedules"}},
	},
	RoleRelay:    {{"UPDATE", []string{"dead_letters"}}},
	RoleConsumer: {{"UPDATE", []string{"dead_letters"}}},
	RoleOperator: {{"UPDATE", []string{"dead_letters"}}},
}

// readable are the tables that a person may read.
var readable = []string{
	"audit_log", "consumer_attempts", "consumer_offsets", "dead_letters", "inbox", "inbox_leases", "messages", "outbox", "outbox_archive", "outbox_ids",
	"outbox_waiting", "relay_lanes", "relays", "replays", "scheduled", "schedules", "sagas", "saga_log", "traffic",
}

// RolesSQL returns a script that creates the roles, each named prefix followed by its job, and grants
// them what they need in the database in which it is run. It may be run again, and must be after each
// migration, by a user with the right to create roles and to grant. The prefix follows the rules of
// [Config.TablePrefix].
func (s *Store) RolesSQL(prefix string) (string, error) {
	if validPrefix(prefix) != nil {
		return "", &waybill.InvalidError{Field: "prefix", Reason: "is blank, longer than 40 bytes, or has characters that no table prefix may have"}
	}
	var b strings.Builder
	for _, role := range Roles() {
		name := quoteName(prefix + string(role))
		fmt.Fprintf(&b, "CREATE ROLE IF NOT EXISTS %s;\n", name)
		for _, g := range revoked[role] {
			for _, table := range g.on { // REVOKE would fail for a right that does not exist
				table = s.names.render("{" + table + "}")
				fmt.Fprintf(&b, "GRANT %[1]s ON %[2]s TO %[3]s;\nREVOKE %[1]s ON %[2]s FROM %[3]s;\n", g.rights, table, name)
			}
		}
		for _, g := range append([]grant{everyone}, grants[role]...) {
			for _, table := range g.on {
				fmt.Fprintf(&b, "GRANT %s ON %s TO %s;\n", g.rights, s.names.object(table), name)
			}
		}
		b.WriteString("\n")
	}
	return b.String(), nil
}

// object returns what a grant is on.
func (n names) object(object string) string {
	if object == "inbox_record" {
		return n.render("PROCEDURE {inbox_record}")
	}
	return n.render("{" + object + "}")
}

// Reads reports whether the rights of a role include reading a whole table.
func (r Role) Reads(table string) bool {
	return slices.ContainsFunc(append([]grant{everyone}, grants[r]...), func(g grant) bool {
		return slices.Contains(strings.Split(g.rights, ", "), "SELECT") && slices.Contains(g.on, table)
	})
}
