package cli

import (
	"context"

	"github.com/waybill-go/waybill/consumer/retention"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/config"
)

// retentionOf relates the configured retention to what the broker may redeliver. It returns false
// if no broker is set, or it does not answer: then its bound is unknown. The policies of consumers
// are in their own programs; the default is assumed.
func retentionOf(ctx context.Context, cfg *config.Config) (retention.Plan, bool) {
	r := retention.Plan{
		Inbox: cfg.Duration("inbox.retention"), Relay: relayConfig(cfg).Retry,
		Redelivery: contract.Redelivery{Unbounded: true},
	}
	if cfg.String("broker") == "" {
		return r, false
	}
	broker, _, err := openBrokerAsIs(ctx, cfg)
	if err != nil {
		return r, false
	}
	defer broker.Close()
	r.Redelivery = contract.RedeliveryOf(broker)
	return r, true
}

func checkRetention(ctx context.Context, cfg *config.Config) finding {
	r, known := retentionOf(ctx, cfg)
	return judgeRetention(r, known, cfg.Bool("inbox.allow_short_retention"))
}

// judgeRetention returns a note for a bound that cannot be known: that of a broker that keeps
// messages for as long as their consumer is down.
func judgeRetention(r retention.Plan, known, allowShort bool) finding {
	switch err := r.Check(); {
	case err != nil && allowShort:
		return warning("retention", r.String(), "inbox.allow_short_retention takes it; raise inbox.retention")
	case err != nil:
		return failing("retention", r.String(), "raise inbox.retention")
	case !known:
		return noting("retention", r.String(), "give --broker that answers, to learn how long it keeps messages")
	case r.Redelivery.Unbounded:
		return noting("retention", r.String(), "let no consumer be away for longer than inbox.retention")
	}
	return passing("retention", r.String())
}
