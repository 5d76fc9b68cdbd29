package sqlstore

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// DeadLetters implements [deadletter.Store]. ListLetters takes the filter's fields in the
// order number, origin, consumer, topic, type, tenant and limit.
func (c *Core[Tx]) DeadLetters(ctx context.Context, f deadletter.Filter) ([]deadletter.Letter, error) {
	limit := f.Limit
	if limit == 0 {
		limit = deadletter.DefaultLimit
	}
	rows, err := c.DB.Query(ctx, c.SQL.ListLetters, f.After, string(f.Origin), f.Consumer, f.Topic, f.Type, f.Tenant, limit)
	letters, err := sqldb.Collect(rows, err, scanLetter)
	return letters, c.Kind(err)
}

func scanLetter(r sqldb.Rows) (l deadletter.Letter, err error) {
	var row sqldb.MessageRow
	var first, last sqldb.Time
	err = r.Scan(append([]any{
		&l.Number, &l.Origin, &l.Consumer, &l.Destination, &l.Reason, &l.Error, &l.Attempts, &l.Requeues, &l.Failed, &l.Requeued,
		&first, &last}, row.Dest()...)...)
	l.FirstFailed, l.LastFailed = first.UTC(), last.UTC()
	l.Message, _ = row.Message() // a malformed row is why it may be here
	return l, err
}

// RequeueConsumerLetter marks a consumer's letter, and reports whether there was one to
// mark. It explains why there was none: nil if the letter is on its way, else an error.
// LetterState returns "relay" or "consumer" for a letter, "consumer keyed" for one with an
// inbox key, and "requeued" for a relay's letter that is back on its way.
func (c *Core[Tx]) RequeueConsumerLetter(ctx context.Context, number int64) (bool, error) {
	n, err := c.DB.Exec(ctx, c.SQL.RequeueConsumer, number)
	if err != nil {
		return false, c.Kind(fmt.Errorf("requeue dead letter %d: %w", number, err))
	}
	if n > 0 {
		return true, nil
	}
	rows, err := c.DB.Query(ctx, c.SQL.LetterState, number)
	state, found, err := sqldb.One(rows, err, sqldb.Scan[string])
	switch {
	case err != nil:
		return false, c.Kind(err)
	case !found:
		return false, fmt.Errorf("dead letter %d: %w", number, waybill.ErrNotFound)
	case state == string(deadletter.FromConsumer):
		return false, waybill.PermanentError(waybill.ReasonNoID, fmt.Errorf(
			"dead letter %d has no inbox key: its message has no id, or another one was processed under it; it cannot be run again safely", number))
	}
	return false, nil
}
