package pgstore

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/template"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlfile"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

//go:embed sql/*.sql
var statementFiles embed.FS

// filled are the names that are filled in for each call.
var filled = []string{"columns", "values", "arrays", "id", "source", "tenant", "identity_columns", "identity_arrays", "day", "definition"}

// loadStatements reads the statements once; each store fills in its names. In addition to what
// [sqlstore.LoadStatements] supports they have {movable "m"}, the columns of a message in a form that the
// indexes of every table can hold, {no_message}, a NULL for each, and {wakeups_text} and so on, literals with a
// name.
var loadStatements = sync.OnceValues(func() (*sqlfile.Statements, error) {
	names := slices.Concat(tables[:], filled, []string{"channel"})
	for _, t := range textTables {
		names = append(names, t+"_text")
	}
	funcs := template.FuncMap{
		"movable":           movableColumnsOf,
		"no_message":        func() string { return "NULL" + strings.Repeat(", NULL", strings.Count(sqldb.MessageColumns, ",")) },
		"message_params":    messageParams,
		"withdrawn_payload": func() string { return withdrawnPayload },
	}
	return sqlstore.LoadStatements(sqlfile.Dialect{Names: names, Funcs: funcs}, statementFiles)
})

// statements are the SQL texts that only this store runs, with its names rendered in.
type statements struct {
	EnqueueOne, EnqueueMany, EnqueueUnique      string
	EnqueueFreshOne, EnqueueFresh               string
	GateAll, GateOutcomes                       string
	Compact                                     gateStatements `sql:"compact_"`
	AddScope                                    string
	ClaimDue, ClaimPage, ClaimBlocked           string
	AheadRange, ClaimAhead, StaysAhead          string
	SettleDelete, SettleArchive                 string
	Fence, Park, Follow                         string
	ArchiveWaiting, DeleteWaiting               string
	Retry, Bury, Schedule, Promote, HoldLetters string
	AnyDue, ReleaseScheduled, Postpone          string
	DueScheduled, ReleaseOne                    string
	CountParked, ExtendLease                    string
	Announce, OpenEnqueuers                     string
	Withdraw, WithdrawLast                      string
	TryJanitor, PurgeRest, PurgeIDs             string
	Partitions, ShortLock, AddDay, DropDay      string
	PublishedAt, PublishedSince                 string
	Durability                                  string
	DefaultIsolation, StandBriefly              string
	LockMigration, MigrationHolder, TableExists string
	ReadVersion, SetSource, SetDefaultSource    string
}

// gateStatements are those of the inbox insert, as they are in [sqlstore.Statements], and for many records.
type gateStatements struct {
	Gate, GateDead, GateOutcome, FindRecord string
	GateAll, GateOutcomes                   string
}

// newStatements returns the statements of the core and those of this store.
func newStatements(n names) (common sqlstore.Statements, own statements, err error) {
	texts, err := loadStatements()
	if err == nil {
		err = texts.Fill(n.render, &common, &own)
	}
	common.Leases.Returns = true
	return common, own, err
}

// gateOf returns the inbox insert that the store uses, and makes it that of the core.
func gateOf(compact bool, common *sqlstore.Statements, own *statements) gateStatements {
	if !compact {
		return gateStatements{common.Gate, common.GateDead, common.GateOutcome, common.FindRecord, own.GateAll, own.GateOutcomes}
	}
	g := own.Compact
	common.Gate, common.GateDead, common.GateOutcome, common.FindRecord = g.Gate, g.GateDead, g.GateOutcome, g.FindRecord
	return g
}

// messageParams are parameters for [sqlstore.MessageFields], from the one with the given
// number on.
func messageParams(first int) string {
	var params []string
	for i, name := range strings.Split(sqlstore.MessageFields, ", ") {
		kind := "text"
		switch name {
		case "direct":
			kind = "boolean"
		case "payload_bytes":
			kind = "bytea"
		case "headers":
			kind = "text::jsonb"
		case "time", "expires_at":
			kind = "timestamptz"
		}
		params = append(params, fmt.Sprintf("$%d::%s", first+i, kind))
	}
	return strings.Join(params, ", ")
}

// movableColumnsOf are the columns of a message in a row that any program may have written, as the dead letters
// can keep them. Indexed values that are longer than a message may have are cut one character behind the limit,
// so that the message stays malformed; infinite times, which no program can read, are left out.
func movableColumnsOf(alias string) string {
	columns := strings.Split(sqldb.MessageColumnsOf(alias), ", ")
	for i, column := range columns {
		switch name := strings.TrimPrefix(column, alias+"."); name {
		case "id", "key", "type", "topic", "tenant":
			columns[i] = fmt.Sprintf("left(%s, %d)", column, waybill.MaxIDLen+1)
		case "time", "deliver_at", "expires_at":
			columns[i] = fmt.Sprintf("CASE WHEN isfinite(%s) THEN %[1]s END", column)
		case "enqueued_at":
			columns[i] = fmt.Sprintf("CASE WHEN isfinite(%s) THEN %[1]s ELSE {clock}() END", column)
		}
	}
	return strings.Join(columns, ", ")
}
