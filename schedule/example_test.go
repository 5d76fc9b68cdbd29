package schedule_test

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/schedule"
)

// order is a row of the application's own.
type order struct{ ID string }

// remind schedules a reminder in the transaction that stores an order.
func remind[Tx any](ctx context.Context, s *schedule.Scheduler[Tx], tx Tx, o order) error {
	m := waybill.Message{ID: "reminder/" + o.ID, To: "reminders", Payload: []byte(`{"order":"` + o.ID + `"}`)}
	_, err := s.After(ctx, tx, m, 48*time.Hour)
	return err
}

// paid takes the reminder back in the transaction that stores the payment. False is no error: the
// reminder is already in flight.
func paid[Tx any](ctx context.Context, s *schedule.Scheduler[Tx], tx Tx, o order) (bool, error) {
	return s.Cancel(ctx, tx, "reminder/"+o.ID)
}

// plan puts a schedule. A program calls it each time it starts.
func plan[Tx any](ctx context.Context, s *schedule.Scheduler[Tx], tx Tx) error {
	return s.Put(ctx, tx, schedule.Recurring{
		Name:     "nightly-invoices",
		Cron:     "30 4 * * *",
		TimeZone: "Europe/Berlin",
		Message:  waybill.Message{To: "billing", Type: "invoices.run"},
		Overlap:  schedule.Skip,
	})
}

// A reminder that is taken back if the customer pays, and a schedule.
func Example() {
	use := func(s *schedule.Scheduler[any], tx any) error {
		ctx := context.Background()
		if err := remind(ctx, s, tx, order{ID: "17"}); err != nil {
			return err
		}
		if _, err := paid(ctx, s, tx, order{ID: "17"}); err != nil {
			return err
		}
		return plan(ctx, s, tx)
	}
	_ = use // a program has a store and a transaction
}
