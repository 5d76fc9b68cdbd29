package sqlitestore

import "github.com/waybill-go/waybill/internal/sqlstore"

func sagaStatements(r func(sql string) string) sqlstore.SagaStatements {
	const returning = `RETURNING ` + sqlstore.WrittenSaga
	st := sqlstore.CommonSagaStatements(r)
	st.Add = r(sqlstore.AddSagaSQL + `ON CONFLICT (key, saga, tenant) DO NOTHING ` + returning)
	st.Update = r(sqlstore.UpdateSagaSQL + returning)
	st.Written = ""
	return st
}
