package mongostore

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/wakeup"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
)

const laneCount = 64

// Store implements the contracts of outbox, relay, inbox, deadletter and janitor. It is safe
// for concurrent use.
type Store struct {
	cfg  Config
	db   *mongo.Database
	wake wakeup.Signaller

	// Which collection a message is in is its state, as it is which table in the SQL stores.
	outbox, waiting, archive, ids, scheduled, letters *mongo.Collection

	audit, replays, inbox, leases, attempts, relays, lanes, counters *mongo.Collection
}

var (
	_ outbox.Store[*mongo.Session]   = (*Store)(nil)
	_ outbox.Inspector               = (*Store)(nil)
	_ relay.Source                   = (*Store)(nil)
	_ relay.Inspector                = (*Store)(nil)
	_ inbox.Inbox[*mongo.Session]    = (*Store)(nil)
	_ inbox.Batcher[*mongo.Session]  = (*Store)(nil)
	_ inbox.Recorder[*mongo.Session] = (*Store)(nil)
	_ inbox.Inspector                = (*Store)(nil)
	_ inbox.Sizer                    = (*Store)(nil)
	_ deadletter.Store               = (*Store)(nil)
	_ deadletter.ReplayStore         = (*Store)(nil)
	_ deadletter.Auditor             = (*Store)(nil)
	_ janitor.Store                  = (*Store)(nil)
)

// New returns the store in db, which must be of a replica set or a sharded cluster, because
// others have no transactions. The caller keeps db's client and disconnects it. [Store.Migrate]
// must have been called once. The error is an [*waybill.InvalidError] about cfg.
func New(db *mongo.Database, cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := func(name string) *mongo.Collection { return cfg.collection(db, name) }
	return &Store{
		cfg: cfg, db: db,
		outbox: c("outbox"), waiting: c("outbox_waiting"), archive: c("outbox_archive"), ids: c("outbox_ids"),
		scheduled: c("scheduled"), letters: c("dead_letters"), audit: c("audit"), replays: c("replays"),
		inbox: c("inbox"), leases: c(leaseKeys), attempts: c("consumer_attempts"), relays: c("relays"), lanes: c("relay_lanes"), counters: c("counters"),
	}, nil
}

// Migrate makes collections, indexes, lanes and counters, unless they are there. It may be
// repeated, and interrupted.
func (s *Store) Migrate(ctx context.Context) error {
	for _, c := range s.indexes() {
		if _, err := c.of.Indexes().CreateMany(ctx, c.models); err != nil {
			return wrap("make indexes of "+c.of.Name(), err)
		}
	}
	lanes := make([]laneDoc, laneCount)
	for n := range lanes {
		lanes[n].ID = n
	}
	if err := insertMissing(ctx, s.lanes, lanes); err != nil {
		return wrap("make the lanes", err)
	}
	var counters []bson.M
	for _, name := range []string{counterPosition, counterLetter, counterAudit, counterReplay} {
		counters = append(counters, bson.M{"_id": name, "n": int64(0)})
	}
	return wrap("make the counters", insertMissing(ctx, s.counters, counters))
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

// indexes are those that commands are served by, beside that of the _id. A collection without
// one is named too, because transactions need one that is there.
func (s *Store) indexes() []collectionIndexes {
	unit := []string{"row.topic", "row.key", "row.destination", "row.position"}
	return []collectionIndexes{
		{s.outbox, indexes(unique("row.message_id"), index("row.lane", "_id"))},
		{s.waiting, indexes(unique("row.message_id", "row.destination"), index("row.lane", "due_at"), index(unit...), index("letter"))},
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

// WakeRelay implements [outbox.Store].
func (s *Store) WakeRelay() { s.wake.Signal() }

// AwaitMessages implements [relay.Source]. It learns of what this store object has committed;
// the commits of others are found at the next poll.
func (s *Store) AwaitMessages(ctx context.Context, node string) error {
	s.wake.Wait(ctx, node)
	return nil
}
