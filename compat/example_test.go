package compat_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill/compat"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
)

// A flow that asks, handles, marks and commits. The store is the one that also serves
// consumers; pgstore.NewSQL makes one, for example.
func ExampleRecords() {
	onOrder := func(ctx context.Context, db *sql.DB, store inbox.Recorder[*sql.Tx], id string, payload []byte) error {
		records, err := compat.NewRecords(store, "acme", "billing")
		if err != nil {
			return err
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // nothing after the commit
		if done, err := records.IsProcessed(ctx, tx, id); done || err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO invoices (order_id) VALUES ($1)", id); err != nil {
			return err
		}
		_, err = records.MarkProcessed(ctx, tx, id, "OrderCreated", compat.Details{Payload: payload, Source: "order-service"})
		if errors.Is(err, compat.ErrAlreadyProcessed) {
			return nil // somebody else was faster; the invoice is rolled back
		}
		if err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = onOrder
}

// memory is an inbox as a program may have written it for itself.
type memory map[string]bool

func (m memory) IsProcessed(_ context.Context, key string) (bool, error) { return m[key], nil }

func (m memory) MarkProcessed(_ context.Context, key string) error {
	m[key] = true
	return nil
}

// An inbox of one's own with two methods takes the place of a lease store, with weaker
// promises.
func ExampleCheckThenAct() {
	ctx := context.Background()
	store, err := compat.NewCheckThenAct(memory{})
	if err != nil {
		fmt.Println(err)
		return
	}
	key := lease.Key{Bus: "rabbit", Group: "billing", Alias: "order.created", Message: "17"}.String()
	for range 2 {
		begun, err := store.TryBegin(ctx, lease.Request{Key: key, TTL: time.Minute})
		fmt.Println(key, begun.Status, err)
		if begun.Status == lease.Acquired {
			_, _ = store.MarkProcessed(ctx, lease.Lease{Key: key, ID: begun.LeaseID}) // after the effect
		}
	}
	// Output:
	// rabbit:billing:order.created:17 Acquired <nil>
	// rabbit:billing:order.created:17 Processed <nil>
}
