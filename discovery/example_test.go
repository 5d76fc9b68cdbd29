package discovery_test

import (
	"context"
	"log"

	"github.com/waybill-go/waybill/discovery"
	"github.com/waybill-go/waybill/inbox/lease"
)

// A client that finds its inbox service. The transport is that of the broker which the
// program uses anyway, rabbitbroker or natsbroker; dial makes a client of package inboxhttp.
func ExampleStore() {
	leases := func(transport discovery.Transport, dial discovery.Dial) lease.Store {
		finder, err := discovery.NewFinder(transport, discovery.Config{
			Enabled:      true,
			Required:     true,
			Group:        "billing",
			AllowedHosts: []string{"*.internal.example.com"},
		})
		if err != nil {
			log.Fatal(err) // names the field that is wrong
		}
		store, err := discovery.NewStore(finder, dial)
		if err != nil {
			log.Fatal(err)
		}
		return store
	}
	_ = leases
}

// A service that tells of itself for as long as it runs.
func ExampleAnnouncer_Run() {
	run := func(ctx context.Context, transport discovery.Transport) error {
		announcer, err := discovery.NewAnnouncer(transport, discovery.AnnouncerConfig{
			Group: "billing",
			Endpoint: discovery.Endpoint{
				Name: "inbox-1", URL: "https://inbox-1.internal.example.com", Auth: discovery.AuthBearer, Priority: 10,
			},
		})
		if err != nil {
			return err
		}
		return announcer.Run(ctx)
	}
	_ = run
}
