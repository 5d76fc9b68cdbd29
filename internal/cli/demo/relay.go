package demo

import (
	"context"
	"time"

	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/service"
)

// Short times, so that a relay that was killed is soon replaced.
const (
	leaseTTL       = 3 * time.Second
	renewInterval  = 500 * time.Millisecond
	publishTimeout = 2 * time.Second
	pollInterval   = 50 * time.Millisecond
)

// runRelay is the main function of the relay's process: a service without consumers.
func runRelay(ctx context.Context, t task) error {
	place, err := openPlace(ctx, t.Site)
	if err != nil {
		return err
	}
	defer place.close()
	broker, err := t.Site.broker(ctx)
	if err != nil {
		return err
	}
	defer broker.Close()
	svc, err := service.New(place.store, faulty{broker, t.DieAfter}, service.Config{
		Source:   shopSource,
		Observer: quiet,
		Relay: relay.Config{
			PollInterval:   pollInterval,
			BatchSize:      min(max(t.Orders/10, 1), 200),
			LeaseTTL:       leaseTTL,
			RenewInterval:  renewInterval,
			PublishTimeout: publishTimeout,
		},
	})
	if err != nil {
		return err
	}
	return svc.Run(ctx)
}
