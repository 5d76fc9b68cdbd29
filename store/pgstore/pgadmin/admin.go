// Package pgadmin is what operators ask of a database that has the tables of package pgstore: which roles programs may
// have, and what keeps the database from working well. The commands "waybill doctor" and "waybill roles" run on it.
// Method Admin of a pgstore.Store returns it for the tables of a store.
package pgadmin

import (
	"context"
	"embed"
	"sync"
	"text/template"

	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlfile"
)

// Admin asks the database of a store. It is safe for concurrent use. The errors of its methods have the kinds that those of
// the store have.
type Admin struct {
	db  Database
	sql statements
}

// Database is how a store passes its database on. Only package pgstore makes one.
type Database struct {
	DB             sqldb.Conn
	Schema, Prefix string
	Render         func(sql string) string // fills in the names of tables
	Kind           func(err error) error   // gives an error its kind

	// Days returns for how many days, today among them, the archive should have a partition, and how many of
	// them have one.
	Days func(ctx context.Context) (ahead, ready int, err error)
}

// New returns the Admin of a store's database. The error is one of the statements that are built in.
func New(db Database) (*Admin, error) {
	texts, err := loadStatements()
	if err != nil {
		return nil, err
	}
	a := &Admin{db: db}
	return a, texts.Fill(db.Render, &a.sql)
}

//go:embed sql/*.sql
var statementFiles embed.FS

// statements are the SQL texts, with the names of a store rendered in.
type statements struct {
	Condition, Holders, SessionFacts string
	Parts, MissingRights             string
}

var loadStatements = sync.OnceValues(func() (*sqlfile.Statements, error) {
	return sqlfile.Load(sqlfile.Dialect{
		Names: []string{"clock", "lane", "outbox", "relay_lanes", "relays", "schema_versions"},
		Funcs: template.FuncMap{"unfinished": func() string { return unfinished }},
	}, statementFiles, embed.FS{})
})
