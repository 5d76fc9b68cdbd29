package mysqlstore

import "github.com/waybill-go/waybill/internal/sqlstore"

// sagaStatements has none that returns what it has written: there is no RETURNING that both
// servers know.
func sagaStatements(r func(sql string) string) sqlstore.SagaStatements {
	st := sqlstore.CommonSagaStatements(r)
	st.Add, st.Update = r(sqlstore.AddSagaSQL+unlessThere), r(sqlstore.UpdateSagaSQL)
	st.Lock = st.Read + " FOR UPDATE"
	return st
}
