package mysqlstore

import "github.com/waybill-go/waybill/internal/sqlstore"

// cancelStatements lock the lane of a message exclusively, whose settlements lock it to share.
func cancelStatements(r func(sql string) string) sqlstore.CancelStatements {
	st := sqlstore.CancelStatementsOf(r, [2]string{"o.lane", "w.lane"}, "FOR UPDATE")
	st.Refuse, st.Remove = r(refuseDueSQL), r(sqlstore.RemoveScheduledSQL)
	return st
}
