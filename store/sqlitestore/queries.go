package sqlitestore

import (
	"embed"
	"sync"

	"github.com/waybill-go/waybill/internal/sqlfile"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

//go:embed sql/*.sql
var statementFiles embed.FS

// loadStatements reads the statements once; each store fills in its names.
var loadStatements = sync.OnceValues(func() (*sqlfile.Statements, error) {
	return sqlstore.LoadStatements(sqlfile.Dialect{Names: tables[:]}, statementFiles)
})

// statements are the SQL texts that only this store runs, with its names rendered in.
type statements struct {
	Lock                                                  string
	Enqueue, AddUnique                                    string
	ClaimWaiting, ClaimReady                              string
	AheadRange, ClaimAhead                                string
	Settle                                                sqlstore.SettleStatements
	AnyDue, DueScheduled, ReleaseOne                      string
	CountParked                                           string
	PurgeArchive, PurgeIDs                                string
	Durability                                            string
	CreateVersions, ReadVersion, SetSource, VersionsExist string
}

// newStatements returns the statements of the core and those of this store.
func newStatements(n names) (common sqlstore.Statements, own statements, err error) {
	texts, err := loadStatements()
	if err == nil {
		err = texts.Fill(n.render, &common, &own)
	}
	return common, own, err
}
