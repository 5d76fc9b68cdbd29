package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/store/pgstore/pgadmin"
)

// postgres is a store that knows more of its database than others.
type postgres interface {
	conditioned
	Route(ctx context.Context) (opener.Route, error)
	MissingRights(ctx context.Context, role pgadmin.Role) ([]string, error)
	MissingParts(ctx context.Context, version int) (pgadmin.Parts, error)
}

// checkRoute looks for a pooler between here and the server.
func checkRoute(ctx context.Context, pg postgres) []finding {
	r, err := pg.Route(ctx)
	if err != nil {
		return []finding{unreadable("route", err.Error(), "see the pooler's log, if there is one")}
	}
	findings := []finding{passing("route", "connections are sessions of the server")}
	switch {
	case r.LosesPrepared:
		findings[0] = failing("route", "a pooler hands out sessions per transaction, and prepared statements are lost between them",
			"add default_query_exec_mode=cache_describe to the store's URL, or let the pooler keep prepared statements")
	case r.Pooled:
		findings[0] = noting("route", "a pooler hands out sessions per transaction", "that will do: nothing here depends on a session")
	}
	if r.Deaf {
		return append(findings, warning("notifications", "none arrives, so relays hear of the commits of others at their next poll only",
			"set postgres.listen_url to the server itself"))
	}
	return append(findings, passing("notifications", "arrive where relays listen"))
}

// checkRights checks the rights of the role: everything for one job, if it is known which, or
// else which jobs it has the rights for. It returns these jobs too.
func checkRights(ctx context.Context, pg postgres, facts opener.Facts, as pgadmin.Role) ([]finding, []pgadmin.Role) {
	const advice = "grant it the role that the script makes: waybill roles"
	if facts.Superuser {
		return []finding{noting("permissions", facts.User+" is a superuser", "programs need far less: waybill roles")}, nil
	}
	var fit []pgadmin.Role
	var findings []finding
	for _, role := range pgadmin.Roles() {
		missing, err := pg.MissingRights(ctx, role)
		switch {
		case err != nil:
			return []finding{unreadable("permissions", err.Error(), advice)}, nil
		case len(missing) == 0:
			fit = append(fit, role)
		case role == as:
			findings = append(findings, failing("permissions", fmt.Sprintf("for a %s, %s lacks %s", role, facts.User, strings.Join(missing, ", ")), advice).on(string(role)))
		}
	}
	switch {
	case len(fit) == 0:
		return append(findings, failing("permissions", facts.User+" has the rights of no role", advice)), nil
	case len(findings) == 0:
		findings = append(findings, passing("permissions", fmt.Sprintf("%s is fit to be %s", facts.User, roleList(fit))))
	}
	return findings, fit
}

func roleList(roles []pgadmin.Role) string {
	names := make([]string, len(roles))
	for i, role := range roles {
		names[i] = string(role)
	}
	return strings.Join(names, ", ")
}

// checkParts compares the schema with what the migrations have created.
func checkParts(ctx context.Context, pg postgres, version int) []finding {
	parts, err := pg.MissingParts(ctx, version)
	if err != nil {
		return []finding{unreadable("parts", err.Error(), "see the database's log")}
	}
	var findings []finding
	for _, part := range parts.Missing {
		findings = append(findings, failing("parts", "missing, or switched off: "+part, adviceOnPart(part)).on(part))
	}
	for _, index := range parts.Unfinished {
		findings = append(findings, warning("parts", "an index was not made to its end: "+index, "drop it, or: REINDEX INDEX CONCURRENTLY").on(index))
	}
	if findings == nil {
		return []finding{passing("parts", fmt.Sprintf("tables, indexes, triggers and functions are those of version %d", version))}
	}
	return findings
}

func adviceOnPart(part string) string {
	const again = "make it as waybill migrate --print has it"
	switch kind, _, _ := strings.Cut(part, " "); kind {
	case "trigger":
		return again + ", or: ALTER TABLE … ENABLE TRIGGER; without it no program can enqueue by SQL"
	case "index", "unique":
		return again + ", with CREATE INDEX CONCURRENTLY; without it claims or clean-ups read whole tables"
	}
	return again + ", or restore it"
}
