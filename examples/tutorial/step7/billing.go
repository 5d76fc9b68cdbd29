package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/service"
	"github.com/waybill-go/waybill/store/pgstore"
)

// billing adds the consumers of orders and reminders.
func billing(_ context.Context, svc *service.Service[pgx.Tx], _ *pgstore.Store[pgx.Tx]) error {
	cfg := consumer.Config{
		Retry:           waybill.RetryPolicy{MaxRetries: 2, BaseDelay: time.Second},
		RequeueInterval: time.Second,
	}
	if err := svc.Consume(consumer.Subscription{Group: "billing", Topics: []string{"orders"}}, bill, cfg); err != nil {
		return err
	}
	return svc.Consume(consumer.Subscription{Group: "reminders", To: "reminders"}, remind, cfg)
}

// bill writes the invoice, if the customer is known. Its transaction also holds the inbox record of the message.
func bill(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
	o, err := placed.Decode(m)
	if err != nil {
		return err
	}
	done, err := tx.Exec(ctx, "INSERT INTO invoices SELECT $1, $2 FROM customers WHERE name = $3", o.ID, o.Cents, o.Customer)
	if err == nil && done.RowsAffected() == 0 {
		err = fmt.Errorf("there is no customer %s", o.Customer)
	}
	return err
}

// remind notes that the customer was reminded.
func remind(ctx context.Context, tx pgx.Tx, m *waybill.Message) error {
	_, err := tx.Exec(ctx, "INSERT INTO reminders VALUES ($1)", m.Subject)
	return err
}
