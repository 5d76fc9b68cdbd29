package pgstore

import "github.com/waybill-go/waybill/internal/sqlstore"

// cancelStatements lock the lane of a message exclusively, which settlements other than those of what is
// published lock to share. What is published meanwhile is gone when it is to become a letter.
func cancelStatements(r func(sql string) string) sqlstore.CancelStatements {
	st := sqlstore.CancelStatementsOf(r, [2]string{"o.lane", "w.lane"}, "FOR UPDATE")
	st.LockScheduled, st.Refuse = "", r(refuseScheduledSQL)
	return st
}
