package pgstore

import (
	"context"
	"slices"

	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// gateAllSQL is gateSQL for many records. They are inserted in the order of the arrays, which
// is that of the keys; so transactions that have some in common wait for each other in one
// direction. It returns no rows: those of a batch are nearly always all new, and their number
// says so.
const gateAllSQL = `
INSERT INTO {inbox} (tenant, consumer, source, alias, message_key, message_id, type, payload_hash, extra_data)
SELECT i.tenant, i.consumer, i.source, i.alias, i.message_key, i.message_id, i.type, i.payload_hash, i.extra_data::jsonb
  FROM ` + recordArrays + `
 ORDER BY i.ord
ON CONFLICT (tenant, consumer, source, alias, message_key) DO NOTHING`

// recordArrays are records as rows. What many of them have in common, their scope, is sent once;
// an array that is NULL stands for one of NULLs.
const recordArrays = `(
    SELECT s.tenant, s.consumer, s.source, s.alias, s.type, r.message_key, coalesce(r.message_id, r.message_key) AS message_id,
           r.payload_hash, r.extra_data, r.ord
      FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])
           WITH ORDINALITY AS s(tenant, consumer, source, alias, type, scope)
      JOIN unnest($6::int[], $7::text[], $8::text[], $9::text[], $10::text[])
           WITH ORDINALITY AS r(scope, message_key, message_id, payload_hash, extra_data, ord) USING (scope)
    ) AS i`

// gateOutcomesSQL is gateOutcomeSQL for many records, by the primary key, and before it whether
// the gate of this transaction has inserted the row.
const gateOutcomesSQL = `
SELECT coalesce(i.xmin = pg_current_xact_id_if_assigned()::xid, false), i.dead, coalesce(i.payload_hash, '')
  FROM ` + keyArrays + `
  JOIN {inbox} i USING (tenant, consumer, source, alias, message_key)
 ORDER BY k.ord`

const keyArrays = `unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])
       WITH ORDINALITY AS k(tenant, consumer, source, alias, message_key, ord)`

// gates are the statements for many inbox records.
func gates(n names, texts gateTexts) sqlstore.Gates {
	insert, read := n.render(texts.all), n.render(texts.outcomes)
	return sqlstore.Gates{
		Insert: func(ctx context.Context, conn sqldb.Conn, recs []inbox.Record) (allNew bool, err error) {
			n, err := conn.Exec(ctx, insert, recordColumns(recs)...)
			return n == int64(len(recs)), err
		},
		Read: func(ctx context.Context, conn sqldb.Conn, recs []inbox.Record) ([]sqlstore.Seen, error) {
			rows, err := conn.Query(ctx, read, keyColumns(recs)...)
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

// recordColumns are the arguments for recordArrays. Records of one scope follow each other, as
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
