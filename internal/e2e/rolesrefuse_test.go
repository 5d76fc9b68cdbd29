package e2e

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waybill-go/waybill/store/pgstore"
)

// TestRolesRefuse holds that no role reads, rewrites or owns what its job does not need.
//
//test:sessions
func TestRolesRefuse(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	w.makeRoles(t)
	for _, tc := range []struct {
		role pgstore.Role
		stmt string // {x} is a table
	}{
		{pgstore.RoleWriter, "SELECT payload FROM {scheduled}"},
		{pgstore.RoleWriter, "UPDATE {scheduled} SET topic = 'a'"},
		{pgstore.RoleWriter, "SELECT plan FROM {schedules}"},
		{pgstore.RoleWriter, "INSERT INTO {outbox} (topic, position) OVERRIDING SYSTEM VALUE VALUES ('a', 1)"},
		{pgstore.RoleWriter, "INSERT INTO {scheduled} (position) VALUES (1)"},
		{pgstore.RoleRelay, "UPDATE {audit_log} SET actor = 'a'"},
		{pgstore.RoleRelay, "DELETE FROM {audit_log}"},
		{pgstore.RoleRelay, "UPDATE {dead_letters} SET payload = 'a'"},
		{pgstore.RoleRelay, "CREATE TABLE {other} (a int)"},
		{pgstore.RoleRelay, "ALTER TABLE {outbox_archive} ENABLE ROW LEVEL SECURITY"},
		{pgstore.RoleConsumer, "DELETE FROM {audit_log}"},
		{pgstore.RoleConsumer, "UPDATE {dead_letters} SET payload = 'a'"},
		{pgstore.RoleConsumer, "SELECT response FROM {idempotency_responses}"},
		{pgstore.RoleConsumer, "INSERT INTO {idempotency_responses} (key) VALUES ('a')"},
		{pgstore.RoleRelay, "UPDATE {idempotency_responses} SET response = 'a'"},
		{pgstore.RoleReader, "SELECT response FROM {idempotency_responses}"},
		{pgstore.RoleAPI, "DELETE FROM {idempotency_responses}"},
		{pgstore.RoleAPI, "SELECT message_key FROM {inbox}"},
		{pgstore.RoleAPI, "INSERT INTO {outbox} (topic) VALUES ('a')"},
		{pgstore.RoleInbox, "SELECT message_key FROM {inbox}"},
		{pgstore.RoleInbox, "INSERT INTO {inbox} (message_key) VALUES ('a')"},
		{pgstore.RoleInbox, "UPDATE {inbox} SET dead = true"},
		{pgstore.RoleInbox, "DELETE FROM {inbox}"},
		{pgstore.RoleInbox, "SELECT key FROM {inbox_compact}"},
		{pgstore.RoleInbox, "INSERT INTO {outbox} (topic) VALUES ('a')"},
		{pgstore.RoleInbox, "CREATE TABLE {other} (a int)"},
		{pgstore.RoleWriter, "SELECT {inbox_record}('c', 'i', 't')"},
		{pgstore.RoleReader, "SELECT {inbox_record}('c', 'i', 't')"},
	} {
		before, rest, _ := strings.Cut(tc.stmt, "{")
		table, after, _ := strings.Cut(rest, "}")
		_, err := w.pool.Exec(t.Context(), "SET ROLE "+pgx.Identifier{w.schema + "_" + string(tc.role)}.Sanitize()+"; "+before+w.table(table)+after+"; RESET ROLE")
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "42501" {
			t.Errorf("%s: %s: %v, want that it is denied", tc.role, tc.stmt, err)
		}
	}
}
