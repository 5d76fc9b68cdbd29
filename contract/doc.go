// Package contract holds what authors of stores and brokers implement: where a relay takes messages from ([Source]), what it
// publishes with ([Publisher]), what consumers receive with ([Subscriber]), and where they keep what they have processed
// ([Inbox]). Programs that use the stores and brokers of the project do not need it.
//
// The rest of what stores implement is in the packages that use it, such as outbox.Store, inspect.Outbox and deadletter.Store.
package contract
