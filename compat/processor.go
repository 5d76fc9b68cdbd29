package compat

import (
	"context"
	"log/slog"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
)

// Processor runs handlers once per message for one consumer. It is [inbox.Process] with the
// consumer bound and a log record for each duplicate. It is safe for concurrent use.
type Processor[Tx any] struct {
	box      contract.Inbox[Tx]
	consumer string
	log      *slog.Logger
}

// NewProcessor returns a processor for the consumer with the given name. Duplicates are logged
// to log at info; nil stands for [slog.Default]. The error names what is missing.
func NewProcessor[Tx any](box contract.Inbox[Tx], consumer string, log *slog.Logger) (*Processor[Tx], error) {
	switch {
	case box == nil:
		return nil, required("box")
	case blank(consumer):
		return nil, required("consumer")
	case log == nil:
		log = slog.Default()
	}
	return &Processor[Tx]{box: box, consumer: consumer, log: log}, nil
}

// Process runs handler in a transaction with the record of m, and returns true if both have
// committed, false if m is a duplicate, for which handler does not run. An error of handler is
// returned; nothing is recorded then, and the message must be redelivered. Other errors are as for
// [inbox.Process].
func (p *Processor[Tx]) Process(ctx context.Context, m *waybill.Message, handler func(ctx context.Context, tx Tx) error) (bool, error) {
	processed, err := inbox.Process(ctx, p.box, p.consumer, m, handler)
	if err == nil && !processed {
		p.log.InfoContext(ctx, "duplicate skipped", "message_id", m.ID, "type", m.Type, "consumer", p.consumer)
	}
	return processed, err
}
