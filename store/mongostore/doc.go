// Package mongostore keeps outbox, inbox, dead letters, lanes and leases in MongoDB 5.0 and up,
// by go.mongodb.org/mongo-driver/v2.
//
// [New] returns a store whose transactions are sessions. It needs a replica set or a sharded
// cluster. What a handler or a business function does with the context it is given, or with
// one that [mongo.NewSessionContext] has made, commits together with the message or its record:
//
//	store, err := mongostore.New(client.Database("shop"), mongostore.Config{})
//	err = store.Migrate(ctx)
//	writer, err := outbox.NewWriter(store, outbox.Config{Source: "shop"})
//	_, err = writer.InTx(ctx, func(ctx context.Context, session *mongo.Session, rec *outbox.Recorder) error {
//		_, err := orders.InsertOne(ctx, order) // in the transaction, by ctx
//		rec.Record(waybill.Message{Topic: "orders", Key: order.ID, Payload: payload})
//		return err
//	})
//
// [NewLeases] returns a lease store, which needs no transactions.
//
// What differs from the SQL stores:
//
//   - A transaction that meets another one's write does not wait: it fails, and the error is a conflict.
//     The store repeats its own; yours is repeated by outbox.Writer.InTx, and by the consumer.
//     [Store.ProcessOnce] waits for a concurrent delivery of its message anyway.
//   - MongoDB ends a transaction after 60 seconds unless transactionLifetimeLimitSeconds says
//     otherwise. A handler must have ended by then.
//   - Positions come from one document, outside of the caller's transaction, so that writers do not
//     clash there. Each enqueue waits for a majority to have it, which is the price of an order
//     that a failover does not repeat.
//   - Only this library can enqueue: nothing in the database draws a position for a plain insert.
//   - A sleeping relay learns at once of what its own store object commits, and of others at the next
//     poll. A claim reads its lanes from the beginning.
//   - Due times and leases are kept to the millisecond, messages' own times to the microsecond.
//
// Writes wait for a majority and reads ask the primary, whatever the client's settings are.
//
// The tests run the suites of all stores against internal/testtools/mongofake, a small server of our own
// that speaks the protocol, because MongoDB could not be installed where they were written. With
// MONGODB_URL set to a replica set the same tests run there. This has not been done yet: do it before
// you rely on this package.
package mongostore
