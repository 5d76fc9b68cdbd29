// Package contract holds what authors of stores and brokers implement: where a relay takes messages from ([Source]), what it
// publishes with ([Publisher]), and what consumers receive with ([Subscriber]). Programs that use the stores
// and brokers of the project do not need it.
//
// The rest of what stores implement is in the packages that use it: outbox.Store, [inbox.Inbox], deadletter.Store.
package contract
