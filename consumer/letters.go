package consumer

import (
	"context"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/loop"
)

// Letters is where a [Leased] consumer puts the messages that it gives up. The letter is
// stored first, and the message is marked as processed then: a process that is killed in
// between leaves a message that is tried once more.
type Letters struct {
	bury  func(ctx context.Context, l inbox.Letter) (bool, error)
	rerun func(c *receiver, h LeasedHandler) rerunner // nil for letters that stay where they are
}

// Set reports whether l says where letters go.
func (l Letters) Set() bool { return l.bury != nil }

// LettersIn keeps dead letters in a store, which shows them, and from which the consumer runs
// those again that are requeued. It keeps one letter of a message, however often it is told.
// A letter that is run again is nobody else's meanwhile, but under no lease, and it is removed
// in a transaction that is open while the handler runs.
func LettersIn[Tx any](box inbox.Inbox[Tx]) Letters {
	return Letters{
		bury: box.BuryMessage,
		rerun: func(c *receiver, h LeasedHandler) rerunner {
			return newRequeuer(c, box, func(ctx context.Context, _ Tx, m *waybill.Message) error { return h(ctx, m) })
		},
	}
}

// LettersTo passes dead letters to keep, which returns nil once a letter is stored durably; an
// error leaves the message with the broker. keep may get a letter of one message more than
// once. Nothing runs such a letter again. package service has a keep that publishes to a
// topic.
func LettersTo(keep func(ctx context.Context, l inbox.Letter) error) Letters {
	if keep == nil {
		return Letters{}
	}
	return Letters{bury: func(ctx context.Context, l inbox.Letter) (bool, error) {
		err := loop.Isolate(func() error { return keep(ctx, l) })
		return err == nil, err
	}}
}
