package mongostore

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/waybill-go/waybill/internal/lanehash"
	"github.com/waybill-go/waybill/internal/rows"
)

// Ping reports whether the database answers. The error is unavailable if it does not.
func (s *Store) Ping(ctx context.Context) error {
	return wrap("ping", s.db.RunCommand(ctx, bson.D{{Key: "ping", Value: 1}}).Err())
}

// SchemaVersion returns 1 if [Store.Migrate] has completed, and 0 if it has not. There is one
// version so far.
func (s *Store) SchemaVersion(ctx context.Context) (int, error) {
	n, err := s.counters.CountDocuments(ctx, bson.M{"_id": bson.M{"$in": allCounters}})
	if err != nil {
		return 0, wrap("read the schema", err)
	}
	if int(n) < len(allCounters) {
		return 0, nil
	}
	return 1, nil
}

// allCounters are the documents that Migrate creates last.
var allCounters = []rows.Counter{rows.Positions, rows.Letters, rows.Entries, rows.Numbers}

// Migrate creates collections, indexes, lanes and counters, unless they exist. It may be repeated,
// and interrupted.
func (s *Store) Migrate(ctx context.Context) error {
	for _, c := range s.indexes() {
		if _, err := c.of.Indexes().CreateMany(ctx, c.models); err != nil {
			return wrap("make indexes of "+c.of.Name(), err)
		}
	}
	if err := s.dropOldIndexes(ctx); err != nil {
		return wrap("drop indexes of an earlier version", err)
	}
	lanes := make([]laneDoc, lanehash.Count)
	for n := range lanes {
		lanes[n].ID = n
	}
	if err := insertMissing(ctx, s.lanes, lanes); err != nil {
		return wrap("make the lanes", err)
	}
	var counters []bson.M
	for _, name := range allCounters {
		counters = append(counters, bson.M{"_id": name, "n": int64(0)})
	}
	return wrap("make the counters", insertMissing(ctx, s.counters, counters))
}

// dropOldIndexes drops those by which ids were unique whatever their source and tenant.
func (s *Store) dropOldIndexes(ctx context.Context) error {
	for _, old := range []struct {
		of   *mongo.Collection
		name string
	}{{s.outbox, "row.message_id_1"}, {s.waiting, "row.message_id_1_row.destination_1"}} {
		err := old.of.Indexes().DropOne(ctx, old.name)
		var server mongo.ServerError
		if err != nil && !(errors.As(err, &server) && server.HasErrorCode(codeNoIndex)) {
			return err
		}
	}
	return nil
}

// insertMissing inserts those documents whose _ids are not there yet.
func insertMissing[T any](ctx context.Context, c *mongo.Collection, docs []T) error {
	_, err := c.InsertMany(ctx, docs, options.InsertMany().SetOrdered(false))
	var bulk mongo.BulkWriteException
	if !errors.As(err, &bulk) || bulk.WriteConcernError != nil {
		return err
	}
	for _, failed := range bulk.WriteErrors {
		if !mongo.IsDuplicateKeyError(failed) {
			return err
		}
	}
	return nil
}

// indexes are those that commands are served by, in addition to that of the _id. A collection
// without one is named too, because transactions need an existing collection.
func (s *Store) indexes() []collectionIndexes {
	identity := []string{"row.message_id", "row.message.source", "row.message.tenant"}
	unit := []string{"row.topic", "row.key", "row.destination", "row.position"}
	return []collectionIndexes{
		{s.outbox, indexes(unique(identity...), index("row.lane", "_id"))},
		{s.waiting, indexes(unique(append(identity, "row.destination")...), index("row.lane", "due_at"), index(unit...), index("letter"))},
		{s.archive, indexes(index("published_at"), index("row.message_id"))},
		{s.ids, indexes(index("at"))},
		{s.scheduled, indexes(index("row.message.deliver_at"), index("row.message_id"))},
		{s.letters, indexes(index(append([]string{"parks"}, unit...)...), index("state", "_id"), index("fingerprint", "_id"),
			index("consumer", "requeued"), index("row.message_id"), index("replay"))},
		{s.audit, indexes(index("at"))},
		{s.replays, indexes(index("state"))},
		{s.inbox, indexes(index("processed_at"), index("message_id"), index("_id.message"))},
		{s.attempts, indexes(index("due_at"), index("_id.message"))},
		{s.relays, indexes(index("until"))},
		{s.lanes, indexes(index("owner"))},
		{s.traffic, indexes(index("_id.step", "_id.at", "_id.writer"))},
	}
}

type collectionIndexes struct {
	of     *mongo.Collection
	models []mongo.IndexModel
}

func indexes(models ...mongo.IndexModel) []mongo.IndexModel { return models }

func index(fields ...string) mongo.IndexModel { return mongo.IndexModel{Keys: by(fields...)} }

func unique(fields ...string) mongo.IndexModel {
	return mongo.IndexModel{Keys: by(fields...), Options: options.Index().SetUnique(true)}
}
