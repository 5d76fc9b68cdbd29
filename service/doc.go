// Package service runs a store, a broker, a relay and consumers together, for programs that do not
// wire them up themselves.
//
// Store and broker are opened, and closed, by the program. Outbox and inbox together:
//
//	svc, err := service.New(store, broker, service.Config{Source: "shop"})
//	err = svc.Consume(consumer.Subscription{Group: "billing", Topics: []string{"payments"}}, handle, consumer.Config{})
//	err = svc.Run(ctx)
//
// Outbox only is the same without Consume. Inbox only is the same with DisableRelay: what
// handlers enqueue is then published by a relay elsewhere.
//
// Several brokers behind one relay, and webhooks, are [Config.Destinations].
//
// A program that needs a custom store for one of the roles uses packages relay and consumer
// directly; everything here is available to it.
package service
