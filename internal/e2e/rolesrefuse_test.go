package e2e

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waybill-go/waybill/store/pgstore/pgadmin"
)

// TestRolesRefuse holds that no role reads, rewrites or owns what its job does not need.
//
//test:sessions
func TestRolesRefuse(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	w.makeRoles(t)
	for _, tc := range []struct {
		role pgadmin.Role
		stmt string // {x} is a table
	}{
		{pgadmin.RoleWriter, "SELECT payload FROM {scheduled}"},
		{pgadmin.RoleWriter, "UPDATE {scheduled} SET topic = 'a'"},
		{pgadmin.RoleWriter, "SELECT plan FROM {schedules}"},
		{pgadmin.RoleWriter, "INSERT INTO {outbox} (topic, position) OVERRIDING SYSTEM VALUE VALUES ('a', 1)"},
		{pgadmin.RoleWriter, "INSERT INTO {scheduled} (position) VALUES (1)"},
		{pgadmin.RoleRelay, "UPDATE {audit_log} SET actor = 'a'"},
		{pgadmin.RoleRelay, "DELETE FROM {audit_log}"},
		{pgadmin.RoleRelay, "UPDATE {dead_letters} SET payload = 'a'"},
		{pgadmin.RoleRelay, "CREATE TABLE {other} (a int)"},
		{pgadmin.RoleRelay, "ALTER TABLE {outbox_archive} ENABLE ROW LEVEL SECURITY"},
		{pgadmin.RoleConsumer, "DELETE FROM {audit_log}"},
		{pgadmin.RoleConsumer, "UPDATE {dead_letters} SET payload = 'a'"},
		{pgadmin.RoleConsumer, "SELECT response FROM {idempotency_responses}"},
		{pgadmin.RoleConsumer, "INSERT INTO {idempotency_responses} (key) VALUES ('a')"},
		{pgadmin.RoleRelay, "UPDATE {idempotency_responses} SET response = 'a'"},
		{pgadmin.RoleReader, "SELECT response FROM {idempotency_responses}"},
		{pgadmin.RoleAPI, "DELETE FROM {idempotency_responses}"},
		{pgadmin.RoleAPI, "SELECT message_key FROM {inbox}"},
		{pgadmin.RoleAPI, "INSERT INTO {outbox} (topic) VALUES ('a')"},
		{pgadmin.RoleInbox, "SELECT message_key FROM {inbox}"},
		{pgadmin.RoleInbox, "INSERT INTO {inbox} (message_key) VALUES ('a')"},
		{pgadmin.RoleInbox, "UPDATE {inbox} SET dead = true"},
		{pgadmin.RoleInbox, "DELETE FROM {inbox}"},
		{pgadmin.RoleInbox, "SELECT key FROM {inbox_compact}"},
		{pgadmin.RoleInbox, "INSERT INTO {outbox} (topic) VALUES ('a')"},
		{pgadmin.RoleInbox, "CREATE TABLE {other} (a int)"},
		{pgadmin.RoleWriter, "SELECT {inbox_record}('c', 'i', 't')"},
		{pgadmin.RoleReader, "SELECT {inbox_record}('c', 'i', 't')"},
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
