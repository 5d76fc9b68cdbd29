package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
)

// What an inbox may hold already: keys like UUIDs of version 7 created in the past, one each
// millisecond, or random ones.
const (
	orderedKeys = `regexp_replace(lpad(to_hex(1600000000000 + i), 12, '0'), '(.{8})(.{4})', '\1-\2') || '-7' || substr(gen_random_uuid()::text, 16)`
	randomKeys  = `gen_random_uuid()::text`

	recordsSQL = `
INSERT INTO waybill.inbox (tenant, consumer, source, alias, message_key, message_id, type, payload_hash, processed_at)
SELECT 'default', 'billing', 'bench', $3, k, k, $3, encode(sha256(k::bytea), 'hex'), clock_timestamp() - interval '1 day'
  FROM (SELECT i, %s AS k FROM generate_series($1::bigint, $2::bigint) AS s(i)) AS keys`

	// recordIndexesSQL lists the statements that drop and recreate each index of the inbox.
	recordIndexesSQL = `
SELECT coalesce('ALTER TABLE waybill.inbox DROP CONSTRAINT ' || quote_ident(conname), 'DROP INDEX waybill.' || quote_ident(indexname)),
       coalesce('ALTER TABLE waybill.inbox ADD CONSTRAINT ' || quote_ident(conname) || ' ' || pg_get_constraintdef(pg_constraint.oid), indexdef)
  FROM pg_indexes LEFT JOIN pg_constraint ON conindid = format('%I.%I', schemaname, indexname)::regclass
 WHERE schemaname = 'waybill' AND tablename = 'inbox'`
)

// runRecords measures inbox.Process with inboxes that hold many records and with an empty one. Each
// has a separate database, so that they can take turns.
func runRecords(ctx context.Context, b *bench) (rows []row, err error) {
	table := fmt.Sprintf("inbox.Process, 8 connections, with %s records", number(float64(b.records)))
	inboxes := []struct {
		name, keys string
		want       *bound
	}{{"none", "", nil}, {"time-ordered keys", orderedKeys, atLeast(80)}, {"random keys", randomKeys, nil}}
	list := make([]*handling, len(inboxes))
	for i := range inboxes {
		if list[i], err = b.newHandling(ctx); err != nil {
			return nil, err
		}
		defer list[i].close()
	}
	var all sync.WaitGroup
	errs := make([]error, len(inboxes))
	for i, inbox := range inboxes[1:] {
		all.Go(func() { errs[i] = list[i+1].fillInbox(ctx, b.records, inbox.keys) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	contenders := make([]measured, len(inboxes))
	for i, h := range list {
		contenders[i] = h.flooding(inboxes[i].name, "", h.first)
	}
	rates, err := list[0].turns(ctx, contenders, func(ctx context.Context) error {
		return list[0].exec(ctx, "CHECKPOINT") // the filled tables must not be changed
	})
	if err != nil {
		return nil, err
	}
	for i, inbox := range inboxes {
		r := row{table: table, name: inbox.name, figures: []figure{{name: "messages/s", values: rates[i]}}}
		if i > 0 {
			r.figures = append(r.figures, figure{"of none", "%", ratios(rates[i], rates[0]), inbox.want})
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// fillInbox creates n records with the keys of an expression. The indexes are built afterwards: row
// by row, random keys would take hours.
func (h *handling) fillInbox(ctx context.Context, n int, keys string) error {
	conn, err := h.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	rows, _ := conn.Query(ctx, recordIndexesSQL)
	indexes, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Drop, Create string }])
	if err != nil {
		return err
	}
	for _, index := range indexes {
		if _, err := conn.Exec(ctx, index.Drop); err != nil {
			return err
		}
	}
	for from := 1; from <= n; from += chunk {
		if _, err := conn.Exec(ctx, fmt.Sprintf(recordsSQL, keys), from, min(n, from+chunk-1), topic); err != nil {
			return err
		}
	}
	statements := []string{"SET maintenance_work_mem = '1GB'"}
	for _, index := range indexes {
		statements = append(statements, index.Create)
	}
	for _, sql := range append(statements, "VACUUM ANALYZE waybill.inbox", "RESET ALL") {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}
