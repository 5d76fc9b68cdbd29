package main

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/service"
	"github.com/waybill-go/waybill/store/pgstore"
)

// billing adds the consumer of orders.
func billing(_ context.Context, svc *service.Service[pgx.Tx], _ *pgstore.Store[pgx.Tx]) error {
	return svc.Consume(consumer.Subscription{Group: "billing", Topics: []string{"orders"}}, bill, consumer.Config{})
}

// bill writes the invoice. Its transaction also holds the inbox record of the message.
func bill(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
	o, err := placed.Decode(m)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "INSERT INTO invoices VALUES ($1, $2)", o.ID, o.Cents)
	return err
}
