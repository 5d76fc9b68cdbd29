package pgstore

import (
	"context"

	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// gateAllSQL is gateSQL for many records. They are inserted in the order of the arrays, which
// is that of the keys; so transactions that have some in common wait for each other in one
// direction.
const gateAllSQL = `
INSERT INTO {inbox} (tenant, consumer, source, alias, message_key, message_id, type, payload_hash, extra_data)
SELECT i.tenant, i.consumer, i.source, i.alias, i.message_key, i.message_id, i.type, i.payload_hash, i.extra_data::jsonb
  FROM ` + recordArrays + `
 ORDER BY i.ord
ON CONFLICT (tenant, consumer, source, alias, message_key) DO NOTHING
RETURNING tenant, consumer, source, alias, message_key`

const recordArrays = `unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[])
       WITH ORDINALITY AS i(tenant, consumer, source, alias, message_key, message_id, type, payload_hash, extra_data, ord)`

// gateOutcomesSQL is gateOutcomeSQL for many records, by the primary key.
const gateOutcomesSQL = `
SELECT i.dead, coalesce(i.payload_hash, '')
  FROM ` + keyArrays + `
  JOIN {inbox} i USING (tenant, consumer, source, alias, message_key)
 ORDER BY k.ord`

const keyArrays = `unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])
       WITH ORDINALITY AS k(tenant, consumer, source, alias, message_key, ord)`

// gates are the statements for many inbox records.
func gates(n names, texts gateTexts) sqlstore.Gates {
	insert, read := n.render(texts.all), n.render(texts.outcomes)
	return sqlstore.Gates{
		Insert: func(ctx context.Context, conn sqldb.Conn, recs []inbox.Record) ([]bool, error) {
			rows, err := conn.Query(ctx, insert, recordColumns(recs)...)
			return newRecords(recs, rows, err)
		},
		Read: func(ctx context.Context, conn sqldb.Conn, recs []inbox.Record) ([]sqlstore.Seen, error) {
			rows, err := conn.Query(ctx, read, keyColumns(recs)...)
			return sqldb.Collect(rows, err, func(r sqldb.Rows) (v sqlstore.Seen, err error) {
				err = r.Scan(&v.Dead, &v.Hash)
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

func recordColumns(recs []inbox.Record) []any {
	return append(keyColumns(recs),
		column(recs, func(r inbox.Record) string { return r.MessageID }), column(recs, func(r inbox.Record) string { return r.Type }),
		column(recs, func(r inbox.Record) string { return r.PayloadHash }),
		column(recs, func(r inbox.Record) *string {
			if r.Extra == nil {
				return nil
			}
			text := string(r.Extra)
			return &text
		}))
}

// newRecords reports for each record whether its key is among rows.
func newRecords(recs []inbox.Record, rows sqldb.Rows, err error) ([]bool, error) {
	keys, err := sqldb.Collect(rows, err, func(r sqldb.Rows) (k inbox.Key, err error) {
		err = r.Scan(&k.Tenant, &k.Consumer, &k.Source, &k.Alias, &k.Message)
		return k, err
	})
	if err != nil {
		return nil, err
	}
	added := make(map[inbox.Key]bool, len(keys))
	for _, k := range keys {
		added[k] = true
	}
	return column(recs, func(r inbox.Record) bool { return added[r.Key] }), nil
}
