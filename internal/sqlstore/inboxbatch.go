package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// Gates are Gate and GateOutcome for many records with one statement each. A store whose
// database is a network away provides them; without them there is a statement per record.
type Gates struct {
	// Insert inserts the records, whose keys differ and rise, in that order, so that
	// transactions with keys in common wait for each other instead of in a circle. It returns
	// which of them are new.
	Insert func(ctx context.Context, conn sqldb.Conn, recs []inbox.Record) ([]bool, error)

	// Read returns the stored records with the keys of recs, in their order. It is short of
	// some if they have been removed meanwhile.
	Read func(ctx context.Context, conn sqldb.Conn, recs []inbox.Record) ([]Seen, error)
}

// ProcessBatch implements [inbox.Batcher].
func (c *Core[Tx]) ProcessBatch(ctx context.Context, recs []inbox.Record, fn func(ctx context.Context, tx Tx, fresh []int) error) ([]inbox.Outcome, error) {
	if err := inbox.ValidateBatch(recs); err != nil || len(recs) == 0 {
		return nil, err
	}
	b := newBatch(recs)
	gate := func(conn sqldb.Conn) (err error) {
		if b.isNew, err = c.insertAll(ctx, conn, b.sorted); err != nil {
			return fmt.Errorf("insert %d inbox records: %w", len(recs), err)
		}
		return nil
	}
	handle := func(tx Tx) error {
		conn := c.DB.On(tx)
		for _, rec := range recs {
			if err := c.clearRetried(ctx, conn, rec); err != nil {
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
		return FromCaller(fn(ctx, tx, fresh))
	}
	nothing := func(sqldb.Conn) error { return nil }
	if err := c.beforeGate(ctx, recs...); err != nil {
		return nil, err
	}
	if err := c.Kind(sqldb.InTxBetween(ctx, c.DB, gate, handle, nothing)); err != nil {
		return nil, err
	}
	if slices.Contains(b.isNew, true) {
		c.WakeRelay() // a handler may have enqueued
	}
	return b.outcomes, nil
}

// batch is the records of a batch in the order of their keys, and what became of them.
type batch struct {
	places   []int // in the caller's order, of each of sorted
	sorted   []inbox.Record
	isNew    []bool          // for each of sorted
	outcomes []inbox.Outcome // in the caller's order
}

func newBatch(recs []inbox.Record) *batch {
	b := &batch{places: make([]int, len(recs)), sorted: make([]inbox.Record, len(recs)), outcomes: make([]inbox.Outcome, len(recs))}
	for i := range recs {
		b.places[i] = i
	}
	slices.SortFunc(b.places, func(i, j int) int { return compareKeys(recs[i].Key, recs[j].Key) })
	for i, place := range b.places {
		b.sorted[i] = recs[place]
	}
	return b
}

func compareKeys(a, b inbox.Key) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Source, b.Source),
		cmp.Compare(a.Alias, b.Alias), cmp.Compare(a.Message, b.Message))
}

// fresh returns the places of the records that are new, rising.
func (b *batch) fresh() []int {
	var places []int
	for i, place := range b.places {
		if b.isNew[i] {
			places = append(places, place)
		}
	}
	slices.Sort(places)
	return places
}

// seenAll learns the outcome of each record that is not new.
func (c *Core[Tx]) seenAll(ctx context.Context, conn sqldb.Conn, b *batch) error {
	var places []int
	var recs []inbox.Record
	for i, place := range b.places {
		if !b.isNew[i] {
			places, recs = append(places, place), append(recs, b.sorted[i])
		}
	}
	if len(recs) == 0 {
		return nil
	}
	records, err := c.readAll(ctx, conn, recs)
	switch {
	case err != nil:
		return fmt.Errorf("read %d inbox records: %w", len(recs), err)
	case len(records) < len(recs):
		return waybill.ConflictError(errVanished)
	}
	for i, place := range places {
		b.outcomes[place] = records[i].outcome(recs[i])
	}
	return nil
}

func (c *Core[Tx]) insertAll(ctx context.Context, conn sqldb.Conn, recs []inbox.Record) ([]bool, error) {
	if c.Gates.Insert != nil {
		return c.Gates.Insert(ctx, conn, recs)
	}
	isNew := make([]bool, len(recs))
	for i, rec := range recs {
		n, err := conn.Exec(ctx, c.SQL.Gate, RecordArgs(rec)...)
		if err != nil {
			return nil, err
		}
		isNew[i] = n > 0
	}
	return isNew, nil
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
