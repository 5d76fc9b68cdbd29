package pgadmin

import (
	"context"
	"time"

	"github.com/waybill-go/waybill/internal/sqldb"
)

// SessionFacts are what the server says of itself and of a session on it.
type SessionFacts struct {
	ServerVersion string
	TimeZone      string
	Isolation     string    // that transactions begin with
	Clock         time.Time // the server's

	User      string // the role that the session acts as
	Superuser bool   // it has every right

	// Connections is the number of open ones, to all databases; MaxConnections the server's limit
	// for users that are not superusers.
	Connections, MaxConnections int
}

// SessionFacts returns what the server says of itself and of a session on it.
func (a *Admin) SessionFacts(ctx context.Context) (SessionFacts, error) {
	rows, err := a.db.DB.Query(ctx, a.sql.SessionFacts)
	facts, _, err := sqldb.One(rows, err, func(r sqldb.Rows) (f SessionFacts, err error) {
		err = r.Scan(&f.ServerVersion, &f.TimeZone, &f.Isolation, &f.Clock, &f.User, &f.Superuser, &f.Connections, &f.MaxConnections)
		return f, err
	})
	return facts, a.db.Kind(err)
}
