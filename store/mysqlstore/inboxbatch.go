package mysqlstore

import (
	"context"
	"slices"
	"strings"

	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// gates are the statements for many inbox records.
func gates(sql statements) sqlstore.Gates {
	g := gateTexts{insert: sql.GateAll, read: sql.GateOutcomes, row: sql.Row}
	return sqlstore.Gates{Insert: g.insertAll, Read: g.readAll}
}

type gateTexts struct{ insert, read, row string }

// insertAll inserts records. It does not know which of them are new: the server reports only how
// many rows it has touched.
func (g gateTexts) insertAll(ctx context.Context, conn sqldb.Conn, recs []inbox.Record) (allNew bool, err error) {
	for some := range slices.Chunk(recs, maxRows) {
		var args []any
		for _, rec := range some {
			args = append(args, sqlstore.RecordArgs(rec)...)
		}
		rows := rowsOf(g.row, len(some), len(args)/len(some))
		if _, err := conn.Exec(ctx, strings.Replace(g.insert, "{rows}", rows, 1), args...); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (g gateTexts) readAll(ctx context.Context, conn sqldb.Conn, recs []inbox.Record) ([]sqlstore.Seen, error) {
	var list []sqlstore.Seen
	for len(recs) > 0 {
		some := recs[:alike(recs)]
		recs = recs[len(some):]
		found, err := g.findAlike(ctx, conn, some)
		if err != nil {
			return nil, err
		}
		for _, rec := range some {
			if v, ok := found[rec.Message]; ok {
				list = append(list, v)
			}
		}
	}
	return list, nil
}

// alike returns how many of the first records have keys that differ only in the last part, up to
// the number that one statement asks for.
func alike(recs []inbox.Record) int {
	first := recs[0].Key
	for i, rec := range recs {
		first.Message = rec.Message
		if i == maxRows || rec.Key != first {
			return i
		}
	}
	return len(recs)
}

// findAlike returns the stored records by the last part of their keys.
func (g gateTexts) findAlike(ctx context.Context, conn sqldb.Conn, recs []inbox.Record) (map[string]sqlstore.Seen, error) {
	keys := make([]string, len(recs))
	for i, rec := range recs {
		keys[i] = rec.Message
	}
	found, k := make(map[string]sqlstore.Seen, len(recs)), recs[0].Key
	rows, err := conn.Query(ctx, g.read, k.Tenant, k.Consumer, k.Source, k.Alias, keys)
	_, err = sqldb.Collect(rows, err, func(r sqldb.Rows) (v sqlstore.Seen, err error) {
		var key string
		err = r.Scan(&key, &v.IsNew, &v.Dead, &v.Hash)
		found[key] = v
		return v, err
	})
	return found, err
}
