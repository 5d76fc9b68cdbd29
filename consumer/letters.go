package consumer

import (
	"context"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/loop"
)

// Letters says where a [Leased] consumer puts dead letters. The dead letter is stored first, and
// then the message is marked as processed: if the process is killed in between, the message is
// tried once more.
type Letters struct {
	bury  func(ctx context.Context, l inbox.Letter) (bool, error)
	rerun func(c *receiver, h LeasedHandler) rerunner // nil for letters that stay where they are
}

// Set reports whether l says where dead letters go.
func (l Letters) Set() bool { return l.bury != nil }

// LettersIn keeps dead letters in a store, which lists them, and from which the consumer handles
// requeued ones again. It keeps one dead letter per message, however often it is stored. While a
// requeued letter is handled no other consumer takes it, but it is under no lease, and it is
// removed in a transaction that is open while the handler runs.
func LettersIn[Tx any](box contract.Inbox[Tx]) Letters {
	return Letters{
		bury: box.BuryMessage,
		rerun: func(c *receiver, h LeasedHandler) rerunner {
			return newRequeuer(c, box, func(ctx context.Context, _ Tx, m *waybill.Message) error { return h(ctx, m) })
		},
	}
}

// LettersTo passes dead letters to keep, which returns nil once a letter is stored durably; an
// error leaves the message with the broker. keep may be called more than once for one message. Such
// dead letters are never handled again. Package service has a keep that publishes to a topic.
func LettersTo(keep func(ctx context.Context, l inbox.Letter) error) Letters {
	if keep == nil {
		return Letters{}
	}
	return Letters{bury: func(ctx context.Context, l inbox.Letter) (bool, error) {
		err := loop.Isolate(func() error { return keep(ctx, l) })
		return err == nil, err
	}}
}
