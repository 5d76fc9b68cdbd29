package pgadmin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/pgname"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// Role is a job for which a database role may be created, with no more rights than the job needs.
type Role string

// The roles that [Admin.RolesSQL] creates. A program that does several jobs is a member of several.
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

// grant is rights on some objects. Columns, comma-separated, restrict them to these: a program that
// enqueues reads the identity of messages, and nothing else.
type grant struct {
	rights  string // comma-separated
	columns string
	on      []string
}

// messageColumns are those of a message that a program that enqueues may set.
var messageColumns = strings.TrimSuffix(sqldb.MessageColumns, ", enqueued_at")

// identityColumns are the identity of messages in flight.
const identityColumns = "id, source, tenant"

// letterColumns are what changes in a dead letter: never the message.
const letterColumns = "requeued_at, error, reason, last_failed_at, attempts, fingerprint, history, life, replay, state, resolution, resolved_at, parks"

// responseColumns are those of a stored response that show whether it has expired: never its content.
const responseColumns = "key, expires_at"

// keeping is what a program needs to remove what is past its retention, as each service does, and to
// add up the groups of dead letters.
var keeping = []grant{
	{"SELECT, UPDATE, DELETE", "", []string{"inbox", "inbox_compact", "inbox_leases", "consumer_attempts", "sagas"}},
	{"SELECT, DELETE", "", []string{"dead_letters"}},
	{"UPDATE", letterColumns, []string{"dead_letters"}},
	{"SELECT, UPDATE", "", []string{"locks"}},
	{"EXECUTE", "", []string{"purge_audit"}},
	{"SELECT, DELETE", "", []string{"saga_log"}},
	{"SELECT", "", []string{"inbox_scopes"}},
	{"SELECT, INSERT", "", []string{"audit_log"}},
	{"SELECT, INSERT, UPDATE, DELETE", "", []string{"dead_letter_changes", "dead_letter_sums"}},
	{"SELECT", "", []string{"outbox_waiting"}},
	{"SELECT", responseColumns, []string{"idempotency_responses"}},
	{"UPDATE", "expires_at", []string{"idempotency_responses"}}, // to lock rows
	{"DELETE", "", []string{"idempotency_responses"}},
	{"SELECT, INSERT, DELETE", "", []string{"traffic"}}, // which each service records and rolls up
}

// grants is what each role needs in addition to what PUBLIC has: USAGE on the schema, and the right
// to run its functions. A row lock needs UPDATE, whatever is changed afterwards.
var grants = map[Role][]grant{
	RoleWriter: {
		{"INSERT", "lane, " + messageColumns, []string{"outbox"}}, // the database assigns the position
		{"INSERT", identityColumns, []string{"outbox_ids"}},
		{"SELECT", identityColumns, []string{"outbox", "outbox_ids", "outbox_waiting"}},
		{"INSERT", "lane, token, due_at, enqueued_at, " + messageColumns, []string{"scheduled"}},
		{"SELECT", "token", []string{"scheduled"}},
		{"UPDATE", "due_at, deliver_at", []string{"scheduled"}},
		{"DELETE", "", []string{"scheduled"}},
	},
	RoleScheduler: {
		{"SELECT, INSERT, UPDATE, DELETE", "", []string{"schedules"}},
	},
	RoleRelay: append([]grant{
		{"EXECUTE", "", []string{"add_archive_day", "drop_archive_day"}},
		{"SELECT, INSERT, DELETE", "", []string{"outbox_archive", "outbox_archive_rest"}},
		{"SELECT, INSERT, DELETE", "", []string{"outbox", "relays"}},
		{"SELECT, INSERT, UPDATE, DELETE", "", []string{"outbox_waiting", "scheduled"}},
		{"INSERT", "", []string{"dead_letters"}},
		{"SELECT, DELETE", "", []string{"outbox_ids"}},
		{"SELECT, UPDATE", "", []string{"relay_lanes", "wakeups"}},
		{"UPDATE", "", []string{"relays"}},
		{"SELECT", "", []string{"messages", "outbox_position_seq", "schema_versions"}},
		{"SELECT, UPDATE", "", []string{"replays", "schedules"}}, // which it drives
	}, keeping...),
	RoleConsumer: append([]grant{
		{"SELECT, INSERT, UPDATE", "", []string{"inbox", "inbox_compact", "inbox_leases"}},
		{"SELECT, INSERT", "", []string{"inbox_scopes"}},
		{"SELECT, INSERT, UPDATE", "", []string{"consumer_offsets", "sagas"}},
		{"INSERT", "", []string{"saga_log"}},
		{"SELECT, INSERT, UPDATE, DELETE", "", []string{"consumer_attempts"}},
		{"INSERT", "", []string{"dead_letters"}},
		{"SELECT", "", []string{"schema_versions"}},
	}, keeping...),
	RoleInbox: {{"EXECUTE", "", []string{"inbox_record"}}},
	RoleOperator: {
		{"SELECT, DELETE", "", []string{"dead_letters"}},
		{"UPDATE", letterColumns, []string{"dead_letters"}},
		{"SELECT, UPDATE", "", []string{"locks"}},
		{"SELECT, INSERT, UPDATE, DELETE", "", []string{"outbox_waiting"}},
		{"DELETE", "", []string{"outbox"}},           // messages that are cancelled
		{"UPDATE", "since", []string{"relay_lanes"}}, // to lock rows
		{"SELECT, INSERT", "", []string{"audit_log"}},
		{"SELECT, INSERT, UPDATE, DELETE", "", []string{"dead_letter_changes", "dead_letter_sums"}}, // which it folds into sums
		{"SELECT, INSERT, UPDATE", "", []string{"replays", "inbox"}},                                // an edited copy has a record
		{"SELECT, INSERT", "", []string{"dead_letters"}},
		{"UPDATE", "", []string{"inbox_compact"}}, // the record of a dead letter that is deleted
		{"UPDATE", "", []string{"sagas"}},
		{"INSERT", "", []string{"saga_log"}},
		{"UPDATE, DELETE", "", []string{"schedules"}},
		{"INSERT, DELETE", "", []string{"scheduled"}}, // what is run by hand is scheduled for now
		{"SELECT", "", readable},
		{"SELECT", responseColumns, []string{"idempotency_responses"}},
	},
	RoleReader: {{"SELECT", "", readable}, {"SELECT", responseColumns, []string{"idempotency_responses"}}},
	RoleAPI:    {{"SELECT, INSERT, UPDATE", "", []string{"idempotency_responses", "inbox_leases"}}, {"SELECT", "", []string{"schema_versions"}}},
}

// readable are the tables that a person may read.
var readable = []string{
	"audit_log", "consumer_attempts", "consumer_offsets", "dead_letter_changes", "dead_letter_sums", "dead_letters", "inbox", "inbox_compact", "inbox_leases", "inbox_scopes", "messages", "outbox", "outbox_archive", "outbox_ids",
	"outbox_waiting", "relay_lanes", "relays", "replays", "schema_versions", "scheduled", "schedules", "sagas", "saga_log", "traffic",
}

const (
	// makeRoleSQL does nothing if the role exists. Roles belong to the whole server.
	makeRoleSQL = `DO $body$ BEGIN CREATE ROLE %s NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $body$;`

	// ownArchiveSQL gives the archive, which belonged to the relay's role in earlier versions, to the
	// owner of the other tables, without any policy or trigger that the role has left on it.
	ownArchiveSQL = `DO $body$
DECLARE
    archive regclass := {outbox_archive_text}::regclass;
    owner oid := (SELECT relowner FROM pg_class WHERE oid = {outbox_text}::regclass);
    part regclass;
    name name;
BEGIN
    FOR part IN SELECT oid FROM pg_class
                 WHERE relowner <> owner AND (oid = archive OR oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = archive)) LOOP
        FOR name IN SELECT polname FROM pg_policy WHERE polrelid = part LOOP
            EXECUTE format('DROP POLICY %I ON %s', name, part);
        END LOOP;
        FOR name IN SELECT tgname FROM pg_trigger WHERE tgrelid = part AND NOT tgisinternal LOOP
            EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', name, part);
        END LOOP;
        EXECUTE format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY', part);
        EXECUTE format('ALTER TABLE %s OWNER TO %I', part, (SELECT rolname FROM pg_roles WHERE oid = owner));
    END LOOP;
END $body$;
`
)

// revocable are all objects on which a role may have rights from this version or an earlier one.
var revocable = append(slices.Clone(readable), "outbox_archive_rest", "idempotency_responses", "locks", "wakeups", "outbox_position_seq", "add_archive_day", "drop_archive_day", "purge_audit", "inbox_record")

// RolesSQL returns a script that creates the roles, each named prefix followed by its job, grants
// them what they need, and revokes what they do not, as one transaction. It may be run again, and
// must be after each migration, by the owner of the tables. The prefix follows the rules of
// pgstore.Config.TablePrefix.
func (a *Admin) RolesSQL(prefix string) (string, error) {
	if err := pgname.Check("prefix", prefix); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("BEGIN;\n" + a.db.Render(ownArchiveSQL))
	for _, role := range Roles() {
		name := pgname.Quote(prefix + string(role))
		fmt.Fprintf(&b, makeRoleSQL+"\n", name)
		fmt.Fprintf(&b, "REVOKE ALL ON SCHEMA %s FROM %s;\n", a.db.Render("{schema}"), name)
		for _, object := range revocable {
			fmt.Fprintf(&b, "REVOKE ALL ON %s FROM %s;\n", a.object(object), name)
		}
		fmt.Fprintf(&b, "GRANT USAGE ON SCHEMA %s TO %s;\n", a.db.Render("{schema}"), name)
		for _, g := range grants[role] {
			for _, object := range g.on {
				fmt.Fprintf(&b, "GRANT %s ON %s TO %s;\n", g.text(), a.object(object), name)
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("COMMIT;\n")
	return b.String(), nil
}

// text returns the rights as GRANT has them.
func (g grant) text() string {
	if g.columns == "" {
		return g.rights
	}
	return strings.ReplaceAll(g.rights, ", ", " ("+g.columns+"), ") + " (" + g.columns + ")"
}

// object returns what a grant is on.
func (a *Admin) object(object string) string {
	switch object {
	case "wakeups", "outbox_position_seq":
		return a.db.Render("SEQUENCE {" + object + "}")
	case "add_archive_day", "drop_archive_day", "purge_audit", "inbox_record":
		return a.db.Render("FUNCTION {" + object + "}")
	}
	return a.db.Render("{" + object + "}")
}

// right is one right on one object.
type right struct{ object, column, asked string }

func (r right) String() string {
	what := r.asked
	if r.column != "" {
		what += " (" + r.column + ")"
	}
	if r.object == "" {
		return what + " on the schema"
	}
	return what + " on " + r.object
}

// rightsOf returns every right that a role needs.
func rightsOf(role Role) []right {
	rights := []right{{"", "", "USAGE"}}
	for _, g := range grants[role] {
		for _, object := range g.on {
			for _, asked := range strings.Split(g.rights, ", ") {
				for _, column := range strings.Split(g.columns, ", ") {
					rights = append(rights, right{object, column, asked})
				}
			}
		}
	}
	return rights
}

// MissingRights returns the rights that a job needs and the session's role lacks, such as "DELETE on
// outbox"; an empty slice if it has all of them. The tables need not exist.
func (a *Admin) MissingRights(ctx context.Context, role Role) ([]string, error) {
	if !slices.Contains(Roles(), role) {
		return nil, &waybill.InvalidError{Field: "role", Reason: fmt.Sprintf("is %q, which is none", role)}
	}
	rights := rightsOf(role)
	var objects, columns, asked []string
	for _, r := range rights {
		objects, columns, asked = append(objects, r.object), append(columns, r.column), append(asked, r.asked)
	}
	rows, err := a.db.DB.Query(ctx, a.sql.MissingRights, objects, columns, asked, a.db.Schema, a.db.Prefix)
	missing, err := sqldb.Collect(rows, err, func(r sqldb.Rows) (string, error) {
		var number int
		if err := r.Scan(&number); err != nil {
			return "", err
		}
		return rights[number-1].String(), nil
	})
	return missing, a.db.Kind(err)
}

// Reads reports whether the rights of a role include reading a whole table.
func (r Role) Reads(table string) bool {
	return slices.Contains(rightsOf(r), right{table, "", "SELECT"})
}
