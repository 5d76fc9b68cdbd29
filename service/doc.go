// Package service puts a store, a broker, a relay and consumers under one Run, for programs
// that want no wiring of their own.
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
// A program that needs a custom store for one of the roles takes packages relay and consumer
// directly; nothing here is hidden from it.
package service
