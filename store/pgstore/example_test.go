package pgstore_test

import (
	"context"
	"encoding/json"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/store/pgstore"
)

// A batch outside of a transaction is one: the order and its message are stored together, in
// a single round trip.
func ExampleQueueEnqueue() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/shop")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	store, err := pgstore.New(pool, pgstore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	writer, err := outbox.NewWriter(store, outbox.Config{Source: "shop"})
	if err != nil {
		log.Fatal(err)
	}

	prepared, err := writer.Prepare(ctx, waybill.Message{Topic: "orders", Key: "17", Payload: []byte(`{"order":17}`)})
	if err != nil {
		log.Fatal(err) // names the field that is wrong
	}
	batch := &pgx.Batch{}
	batch.Queue("INSERT INTO orders (id) VALUES ($1)", 17)
	pgstore.QueueEnqueue(batch, store, prepared, func(r outbox.Result) {
		log.Printf("enqueued %v, %d of them again", r.IDs, r.Duplicates())
	})
	if err := pool.SendBatch(ctx, batch).Close(); err != nil {
		log.Fatal(err) // nothing was stored
	}
	writer.Wake()
}

// Up to a hundred payments are booked in one transaction, the statements of all in one round trip, by
// a consumer.NewBatch with this handler.
func ExampleQueued() {
	book := pgstore.Queued(func(_ context.Context, batch *pgx.Batch, m *waybill.Message) error {
		var payment struct{ Account, Cents int }
		if err := json.Unmarshal(m.Payload, &payment); err != nil {
			return waybill.PermanentError(waybill.ReasonMalformed, err)
		}
		batch.Queue("UPDATE accounts SET cents = cents + $1 WHERE id = $2", payment.Cents, payment.Account)
		return nil
	})
	_ = book
}
