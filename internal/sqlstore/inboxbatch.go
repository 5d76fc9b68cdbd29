package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// Gates are Gate and GateOutcome for many records with one statement each. A store whose database
// is across a network provides them; without them there is a statement per record.
type Gates struct {
	// Insert inserts the records, whose keys differ and rise, in that order, so that transactions
	// with keys in common do not deadlock. It reports whether all of them are known to be new; if
	// not, Read shows which are.
	Insert func(ctx context.Context, conn sqldb.Conn, recs []inbox.Record) (allNew bool, err error)

	// Read returns the stored records with the keys of recs, in their order, with IsNew for
	// those that this transaction has inserted. Records that have been removed meanwhile are
	// missing.
	Read func(ctx context.Context, conn sqldb.Conn, recs []inbox.Record) ([]Seen, error)
}

// ProcessBatch implements [contract.Batcher].
func (c *Core[Tx]) ProcessBatch(ctx context.Context, recs []inbox.Record, fn func(ctx context.Context, tx Tx, fresh []int) error) ([]inbox.Outcome, error) {
	if err := contract.ValidateBatch(recs); err != nil || len(recs) == 0 {
		return nil, err
	}
	b, ran := newBatch(recs), false
	gate := func(conn sqldb.Conn) error {
		if err := c.insertAll(ctx, conn, b); err != nil {
			return fmt.Errorf("insert %d inbox records: %w", len(recs), err)
		}
		return nil
	}
	handle := func(tx Tx) error {
		conn := c.DB.On(tx)
		for i := range recs {
			if err := c.clearRetried(ctx, conn, recs[i]); err != nil {
				return err
			}
		}
		if err := c.seenAll(ctx, conn, b); err != nil {
			return err
		}
		fresh := b.fresh()
		if len(fresh) == 0 {
			return nil
		}
		ran = true
		return FromCaller(fn(ctx, tx, fresh))
	}
	nothing := func(sqldb.Conn) error { return nil }
	if err := c.beforeGate(ctx, recs...); err != nil {
		return nil, err
	}
	if err := c.kindAfter(ctx, ran, sqldb.InTxBetween(ctx, c.callers(), gate, handle, nothing)); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(b.seen, func(v Seen) bool { return v.IsNew }) {
		c.WakeRelay() // a handler may have enqueued
	}
	return b.outcomes(), nil
}

// batch is the records of a batch in the order of their keys, and what is stored of each.
type batch struct {
	places []int // in the caller's order, of each of sorted
	sorted []inbox.Record
	seen   []Seen // of each of sorted
}

func newBatch(recs []inbox.Record) *batch {
	b := &batch{places: make([]int, len(recs)), sorted: make([]inbox.Record, len(recs)), seen: make([]Seen, len(recs))}
	for i := range recs {
		b.places[i] = i
	}
	slices.SortFunc(b.places, func(i, j int) int { return compareKeys(&recs[i].Key, &recs[j].Key) })
	for i, place := range b.places {
		b.sorted[i] = recs[place]
	}
	return b
}

// compareKeys orders keys by their parts. Those of a batch mostly differ only in the last.
func compareKeys(a, b *inbox.Key) int {
	if a.Tenant == b.Tenant && a.Consumer == b.Consumer && a.Source == b.Source && a.Alias == b.Alias {
		return cmp.Compare(a.Message, b.Message)
	}
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Source, b.Source),
		cmp.Compare(a.Alias, b.Alias))
}

// fresh returns the places of the records that are new, rising.
func (b *batch) fresh() []int {
	places := make([]int, 0, len(b.places))
	for i, place := range b.places {
		if b.seen[i].IsNew {
			places = append(places, place)
		}
	}
	slices.Sort(places)
	return places
}

// outcomes returns what became of the records, in the caller's order.
func (b *batch) outcomes() []inbox.Outcome {
	list := make([]inbox.Outcome, len(b.places))
	for i, place := range b.places {
		list[place] = b.seen[i].outcome(&b.sorted[i])
	}
	return list
}

// insertAll inserts the records. With Gates seenAll finds out which of them are new, unless all
// are.
func (c *Core[Tx]) insertAll(ctx context.Context, conn sqldb.Conn, b *batch) error {
	if c.Gates.Insert != nil {
		allNew, err := c.Gates.Insert(ctx, c.brief(conn), b.sorted)
		for i := range b.seen {
			b.seen[i].IsNew = allNew
		}
		return err
	}
	for i, rec := range b.sorted {
		n, err := c.brief(conn).Exec(ctx, c.SQL.Gate, RecordArgs(rec)...)
		if err != nil {
			return err
		}
		b.seen[i].IsNew = n > 0
	}
	return nil
}

// seenAll reads what is stored of each record that is not known to be new.
func (c *Core[Tx]) seenAll(ctx context.Context, conn sqldb.Conn, b *batch) error {
	var at []int // of these in sorted
	var recs []inbox.Record
	for i, rec := range b.sorted {
		if !b.seen[i].IsNew {
			at, recs = append(at, i), append(recs, rec)
		}
	}
	if len(recs) == 0 {
		return nil
	}
	list, err := c.readAll(ctx, conn, recs)
	switch {
	case err != nil:
		return fmt.Errorf("read %d inbox records: %w", len(recs), err)
	case len(list) < len(recs):
		return waybill.ConflictError(errVanished)
	}
	for n, i := range at {
		b.seen[i] = list[n]
	}
	return nil
}

func (c *Core[Tx]) readAll(ctx context.Context, conn sqldb.Conn, recs []inbox.Record) ([]Seen, error) {
	if c.Gates.Read != nil {
		return c.Gates.Read(ctx, conn, recs)
	}
	var list []Seen
	for _, rec := range recs {
		rows, err := conn.Query(ctx, c.SQL.GateOutcome, keyArgs(rec.Key)...)
		if list, err = sqldb.CollectInto(list, rows, err, scanSeen); err != nil {
			return nil, err
		}
	}
	return list, nil
}
