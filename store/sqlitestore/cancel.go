package sqlitestore

import "github.com/waybill-go/waybill/internal/sqlstore"

// cancelStatements are those of the one lane that there is. Writers are one at a time, and need no locks.
func cancelStatements(r func(sql string) string) sqlstore.CancelStatements {
	st := sqlstore.CancelStatementsOf(r, [2]string{"0", "0"}, "")
	st.Refuse, st.Remove = r(sqlstore.RefuseDueSQL), r(sqlstore.RemoveScheduledSQL)
	return st
}
