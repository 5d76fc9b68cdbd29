package mysqlstore

import (
	"embed"
	"slices"
	"strings"
	"sync"
	"text/template"

	"github.com/waybill-go/waybill/internal/sqlfile"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

//go:embed sql/*.sql
var statementFiles embed.FS

// loadStatements reads the statements once; each store fills in its names. In addition to what
// [sqlstore.LoadStatements] supports they have {unless_there} and {or_none}, by which the driver interprets a
// result, {states "id = $1"}, messages wherever they are, and {same "a, b"}, the condition that rows d and k
// have the same values in these columns. {rows}, {values}, {lanes} and so on are filled in for each call.
var loadStatements = sync.OnceValues(func() (*sqlfile.Statements, error) {
	d := sqlfile.Dialect{
		Names: slices.Concat(tables[:], []string{"rows", "values", "lanes", "lane_number", "lane_epoch", "leaders", "leader_position", "of_topic", "of_key", "of_destination", "source", "status"}),
		Funcs: template.FuncMap{
			"unless_there": func() string { return unlessThere },
			"or_none":      func() string { return orNone },
			"states":       statesSQL,
			"same":         same,
		},
	}
	return sqlstore.LoadStatements(d, statementFiles)
})

// same returns the condition that rows d and k have the same values in some columns.
func same(columns string) string {
	var list []string
	for column := range strings.SplitSeq(columns, ", ") {
		list = append(list, "d."+column+" = k."+column)
	}
	return strings.Join(list, " AND ")
}

// statements are the SQL texts that only this store runs, with its names rendered in.
type statements struct {
	Known, Enqueue, AddUnique, Row                 string
	GateAll, GateOutcomes                          string
	ClaimDue, ClaimBehind, Leader                  string
	ClaimReady, Lane                               string
	AheadRange, ClaimAhead                         string
	Settle                                         sqlstore.SettleStatements
	AnyDue, DueScheduled, Postpone, ReleaseOne     string
	CountParked, LockArchive                       string
	PurgeArchive, PurgeIDs                         string
	Durability                                     string
	MigrateLock, MigrateUnlock, MigrateHolder      string
	Session, ReadVersion, VersionsExist, SetSource string
}

// newStatements returns the statements of the core and those of this store.
func newStatements(n names) (common sqlstore.Statements, own statements, err error) {
	texts, err := loadStatements()
	if err == nil {
		err = texts.Fill(n.render, &common, &own)
	}
	return common, own, err
}
