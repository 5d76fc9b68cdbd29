package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/migrate"
	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/store/pgstore/pgadmin"
)

// tables is what the doctor checks in a store.
type tables struct {
	store opener.Store
	url   string

	// jobs are those of the current role; nil if they are not known, or if it may read
	// everything.
	jobs []pgadmin.Role

	version int // of the schema, 0 if it is not known
}

// tableCheck is one check of the tables, and which of them it reads.
type tableCheck struct {
	subject string
	reads   []string
	run     func(ctx context.Context) []finding
}

// check runs every check for which the role has the right to read, by its grants. Missing
// rights for a job are found before.
func (t tables) check(ctx context.Context) (findings []finding) {
	var skipped []string
	for _, c := range t.checks() {
		if !t.mayRead(c.reads) {
			skipped = append(skipped, c.subject)
			continue
		}
		found := c.run(ctx)
		findings = append(findings, found...)
		if c.subject == schemaSubject && found[0].Severity == ops.Problem {
			findings[len(findings)-1].unread = true
			return findings
		}
	}
	if skipped != nil {
		findings = append(findings, noting("tables", fmt.Sprintf("not looked at, because a %s does not read them: %s",
			strings.ReplaceAll(roleList(t.jobs), ", ", " and "), strings.Join(skipped, ", ")), "run doctor as a reader for these"))
	}
	return findings
}

func (t tables) mayRead(names []string) bool {
	allowed := func(name string) bool {
		return slices.ContainsFunc(t.jobs, func(job pgadmin.Role) bool { return opener.RoleReads(t.url, string(job), name) })
	}
	return t.jobs == nil || !slices.ContainsFunc(names, func(name string) bool { return !allowed(name) })
}

const schemaSubject = "schema"

// checks returns all checks in order. That of the schema sets the version.
func (t *tables) checks() []tableCheck {
	checks := []tableCheck{{schemaSubject, []string{"schema_versions"}, func(ctx context.Context) []finding { return []finding{t.checkSchema(ctx)} }}}
	pg, isPostgres := t.store.(postgres)
	if isPostgres {
		checks = append(checks, tableCheck{"parts", []string{"schema_versions"}, func(ctx context.Context) []finding { return checkParts(ctx, pg, t.version) }})
	}
	checks = append(checks,
		tableCheck{"pending", []string{"outbox", "outbox_waiting", "scheduled", "dead_letters"}, t.checkOutbox},
		tableCheck{"archive clock", []string{"outbox_archive"}, t.checkArchiveClock},
		tableCheck{"unroutable", []string{"dead_letters"}, t.checkUnroutable},
		tableCheck{"schedules", []string{"schedules", "scheduled"}, t.checkSchedules},
		tableCheck{"sagas", []string{"sagas"}, t.checkSagas})
	if isPostgres {
		checks = append(checks, tableCheck{"relays", []string{"relays", "relay_lanes", "schema_versions", "outbox"}, func(ctx context.Context) []finding {
			return checkCondition(ctx, pg, usualPatience)
		}})
	}
	return checks
}

func (t *tables) checkSchema(ctx context.Context) finding {
	version, err := t.store.SchemaVersion(ctx)
	var unfit *migrate.VersionError
	switch {
	case errors.As(err, &unfit):
		return failing(schemaSubject, fmt.Sprintf("version %d, this release works with %d to %d", unfit.Version, unfit.Oldest, unfit.Newest), unfit.Advice())
	case err != nil:
		return failing(schemaSubject, err.Error(), "give the role its rights: waybill roles")
	case version == 0:
		return failing(schemaSubject, "there are no tables", "run: waybill migrate")
	}
	t.version = version
	return checkVersion(version, t.newest())
}

func (t *tables) newest() int { return len(t.store.Migrations()) }

func checkVersion(version, newest int) finding {
	if version < newest {
		return warning(schemaSubject, fmt.Sprintf("version %d, the newest is %d", version, newest), "run: waybill migrate; relays may go on meanwhile")
	}
	return passing(schemaSubject, fmt.Sprintf("version %d, the newest", version))
}

// unread returns the findings for something that could not be read: an older schema may lack
// what this release reads.
func (t *tables) unread(subject string, err error) []finding {
	if t.version != 0 && t.version < t.newest() {
		return []finding{unreadable(subject, err.Error(), "run: waybill migrate")}
	}
	return []finding{unreadable(subject, err.Error(), "give the role the rights of a reader: waybill roles")}
}

func (t *tables) checkOutbox(ctx context.Context) []finding {
	stats, err := t.store.OutboxStats(ctx)
	if err != nil {
		return t.unread("outbox", err)
	}
	relays, err := t.store.RelayStates(ctx)
	alive := err == nil && ops.AnyAlive(relays)
	return append(checkPendingClock(stats), finding{Finding: ops.CheckPending(stats, alive)}, finding{Finding: ops.CheckDead(stats)})
}

func (t *tables) checkSagas(ctx context.Context) []finding {
	if sagas, keeps := t.store.(saga.Inspector); keeps && (t.version == 0 || t.version == t.newest()) {
		return checkSagas(ctx, sagas)
	}
	return nil
}
