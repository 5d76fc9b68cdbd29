package pgstore

import (
	"context"
	"slices"

	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// gates are the statements for many inbox records.
func gates(sql gateStatements) sqlstore.Gates {
	return sqlstore.Gates{
		Insert: func(ctx context.Context, conn sqldb.Conn, recs []inbox.Record) (allNew bool, err error) {
			n, err := conn.Exec(ctx, sql.GateAll, recordColumns(recs)...)
			return n == int64(len(recs)), err
		},
		Read: func(ctx context.Context, conn sqldb.Conn, recs []inbox.Record) ([]sqlstore.Seen, error) {
			rows, err := conn.Query(ctx, sql.GateOutcomes, keyColumns(recs)...)
			return sqldb.Collect(rows, err, func(r sqldb.Rows) (v sqlstore.Seen, err error) {
				err = r.Scan(&v.IsNew, &v.Dead, &v.Hash)
				return v, err
			})
		},
	}
}

func keyColumns(recs []inbox.Record) []any {
	return []any{
		column(recs, func(r inbox.Record) string { return r.Tenant }), column(recs, func(r inbox.Record) string { return r.Consumer }),
		column(recs, func(r inbox.Record) string { return r.Source }), column(recs, func(r inbox.Record) string { return r.Alias }),
		column(recs, func(r inbox.Record) string { return r.Message }),
	}
}

// recordColumns are the arguments for record_arrays. Records of one scope follow each other, as
// they are in the order of their keys.
func recordColumns(recs []inbox.Record) []any {
	var list []scope
	at := make([]int, len(recs))
	for i := range recs {
		if s := scopeOf(&recs[i]); len(list) == 0 || s != list[len(list)-1] {
			list = append(list, s)
		}
		at[i] = len(list)
	}
	return []any{
		column(list, func(s scope) string { return s.tenant }), column(list, func(s scope) string { return s.consumer }),
		column(list, func(s scope) string { return s.source }), column(list, func(s scope) string { return s.alias }),
		column(list, func(s scope) string { return s.typ }), at,
		column(recs, func(r inbox.Record) string { return r.Message }), idColumn(recs),
		column(recs, func(r inbox.Record) string { return r.PayloadHash }), extraColumn(recs),
	}
}

// idColumn returns nil if each message's id is its key.
func idColumn(recs []inbox.Record) []string {
	if !slices.ContainsFunc(recs, func(r inbox.Record) bool { return r.MessageID != r.Message }) {
		return nil
	}
	return column(recs, func(r inbox.Record) string { return r.MessageID })
}

// extraColumn returns nil if no record has extra data.
func extraColumn(recs []inbox.Record) []*string {
	if !slices.ContainsFunc(recs, func(r inbox.Record) bool { return r.Extra != nil }) {
		return nil
	}
	return column(recs, func(r inbox.Record) *string {
		if r.Extra == nil {
			return nil
		}
		text := string(r.Extra)
		return &text
	})
}
